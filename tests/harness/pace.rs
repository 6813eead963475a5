//! The pauses of tests, one function per reason. A test that waits for a state polls
//! it with [`eventually`](super::eventually) instead of sleeping.

use std::time::Duration;

/// A pause between two requests of a load, or between two pieces that a client sends
/// or reads slowly.
pub async fn of_load(pause: Duration) {
    sleep(pause).await;
}

/// A pause before a failed check is repeated. The caller has a deadline.
pub async fn of_tries(pause: Duration) {
    sleep(pause).await;
}

/// The time during which an outage or a load goes on, or nothing may happen.
pub async fn lasting(time: Duration) {
    sleep(time).await;
}

async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}
