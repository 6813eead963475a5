//! Reads the seed and the amount of work of randomized tests from the environment. A
//! failure can thus be run again, and a run can last a whole night.

use rand::Rng;

/// The variable with a seed, a decimal number that replays a run's decisions.
pub const SEED: &str = "APIFRONT_TEST_SEED";

/// The variable with the factor for the amount of random work.
const VOLUME: &str = "APIFRONT_TEST_VOLUME";

/// The variable with the factor for the number of time measurements.
const SAMPLES: &str = "APIFRONT_TEST_SAMPLES";

/// Returns a random seed, or [`SEED`], and prints it for a repetition.
pub fn seed(test: &str) -> u64 {
    seed_or(test, rand::rng().random())
}

/// Does the same with the test's own seed as the default, so that runs are alike.
pub fn seed_or(test: &str, own: u64) -> u64 {
    let seed = read(SEED).unwrap_or(own);
    println!("{test}: {SEED}={seed}");
    seed
}

/// Returns the amount of a test's random work. `variable` overrides it.
pub fn work(variable: &str, default: usize) -> usize {
    count(variable, default * count(VOLUME, 1))
}

pub fn count(variable: &str, default: usize) -> usize {
    read(variable).map_or(default, |n| usize::try_from(n).expect("a count"))
}

/// Returns the factor for the number of time measurements.
pub fn samples() -> usize {
    count(SAMPLES, 1)
}

/// Tells whether times are compared. Nothing runs beside the test then.
pub fn compares_times() -> bool {
    samples() > 1
}

fn read(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}
