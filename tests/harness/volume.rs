//! How much a randomized test does, and from which seed: by environment, so
//! that a failure can be run again and a night can be spent.

use rand::Rng;

/// A decimal number that replays a run's decisions.
pub const SEED: &str = "APIFRONT_TEST_SEED";

/// Where random decisions begin. Printed, for [`SEED`].
pub fn seed(test: &str) -> u64 {
    let seed = match read(SEED) {
        Some(seed) => seed,
        None => rand::rng().random(),
    };
    println!("{test}: {SEED}={seed}");
    seed
}

/// A count that `variable` overrides.
pub fn count(variable: &str, default: usize) -> usize {
    read(variable).map_or(default, |n| usize::try_from(n).expect("a count"))
}

fn read(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}
