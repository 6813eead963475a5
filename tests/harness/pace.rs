//! The pauses of tests, each with its reason. A test that waits for a state asks
//! for it with [`eventually`](super::eventually); it does not sleep.

use std::time::Duration;

/// Between two requests of a load, or two pieces of what a client sends or reads
/// slowly.
pub async fn of_load(pause: Duration) {
    sleep(pause).await;
}

/// Before what did not hold is asked again. Whoever asks has a deadline.
pub async fn of_tries(pause: Duration) {
    sleep(pause).await;
}

/// While an outage or a load goes on, or while nothing may happen.
pub async fn lasting(time: Duration) {
    sleep(time).await;
}

async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}
