//! Waits for a version that has not been reached yet.

use std::time::Duration;

use kubernetes_wire::api::Status;
use tokio::time::{Instant, sleep_until};

use super::{call::Call, errors};

/// The longest time that a read waits for a future version (`blockTimeout` of
/// the watch cache).
const BLOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// The time between two looks at the version.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn wait_for(call: &Call<'_>, version: u64) -> Result<(), Status> {
    let begin = Instant::now();
    let mut next = begin;
    while call.storage().revision() < version {
        if begin.elapsed() >= BLOCK_TIMEOUT {
            let current = call.storage().revision();
            return Err(errors::too_large_resource_version(version, current));
        }
        next = next.checked_add(LOOK_INTERVAL).unwrap_or(next);
        sleep_until(next).await;
    }
    Ok(())
}
