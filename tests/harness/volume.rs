//! Reads the seed and the amount of work of randomized tests from the
//! environment, so that a failure can be run again and a run can be as long as
//! a night.

use rand::Rng;

/// The variable with a seed, a decimal number that replays a run's decisions.
pub const SEED: &str = "APIFRONT_TEST_SEED";

/// The variable with the factor by which all random work is longer.
const VOLUME: &str = "APIFRONT_TEST_VOLUME";

/// The variable with the factor by which times are taken more often.
const SAMPLES: &str = "APIFRONT_TEST_SAMPLES";

/// Returns the seed of random decisions, and prints it for use in [`SEED`].
pub fn seed(test: &str) -> u64 {
    seed_or(test, rand::rng().random())
}

/// Does the same with a seed of the test's own, so that all runs are alike but those
/// that say otherwise.
pub fn seed_or(test: &str, own: u64) -> u64 {
    let seed = read(SEED).unwrap_or(own);
    println!("{test}: {SEED}={seed}");
    seed
}

/// Returns how much random work a test does, which `variable` overrides.
pub fn work(variable: &str, default: usize) -> usize {
    count(variable, default * count(VOLUME, 1))
}

/// Returns a count that `variable` overrides.
pub fn count(variable: &str, default: usize) -> usize {
    read(variable).map_or(default, |n| usize::try_from(n).expect("a count"))
}

/// Returns how many times as many times as usual are wanted.
pub fn samples() -> usize {
    count(SAMPLES, 1)
}

/// Tells whether times are compared, so that nothing runs beside the test.
pub fn compares_times() -> bool {
    samples() > 1
}

fn read(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}
