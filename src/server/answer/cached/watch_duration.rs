//! How long a watch lasts: as `timeoutSeconds` says, else a random time.

use std::time::Duration;

use apifront_watch_cache::read::BypassReason;
use kubernetes_wire::api::ListOptions;
use rand::Rng;

/// The greatest `timeoutSeconds` that is served here. Go counts time in nanoseconds,
/// so greater values wrap around, with a result that only upstream knows.
const MAX_SECONDS: i64 = i64::MAX / 1_000_000_000;

/// Checks whether a watch with these options can be served for as long as they say.
pub(super) fn check(options: &ListOptions) -> Result<(), BypassReason> {
    match options.timeout_seconds.unwrap_or_default() {
        0..=MAX_SECONDS => Ok(()),
        _ => Err(BypassReason::UnusualRequest),
    }
}

pub(super) fn chosen(options: &ListOptions, min_request_timeout: Duration) -> Duration {
    match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        // The time is spread, so that watches opened together do not end together.
        _ => min_request_timeout.mul_f64(1.0 + rand::rng().random_range(0.0..1.0)),
    }
}
