//! Times that do not count a pause of the machine.

use std::time::{Duration, Instant};

/// Returns the answer of `asked`, and how much longer it took than `control`: a request
/// of the same moment to another server, one that works. A pause of the machine delays
/// both.
pub async fn longer_than<T>(control: impl Future, asked: impl Future<Output = T>) -> (T, Duration) {
    let ((answer, took), (_, control)) = tokio::join!(timed(asked), timed(control));
    (answer, took.saturating_sub(control))
}

async fn timed<T>(asked: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (asked.await, began.elapsed())
}
