//! The fields `observability.audit…`: the audit policy, and where events go.
//! The defaults are those of kube-apiserver's flags of the same names.

use std::path::PathBuf;
use std::time::Duration;

use super::check::Check;
use super::raw;
use crate::audit::settings::{AuditLog, AuditSettings, AuditWebhook, Rotation, Throttle, Truncate};

const MEGABYTE: u64 = 1 << 20;

/// The bounds for the number of events that may wait in a backend. 100,000 events
/// take 100 MB.
const BUFFERS: std::ops::RangeInclusive<usize> = 1..=100_000;
const DEFAULT_BUFFER: usize = 10_000;

const DEFAULT_EVENT_BYTES: usize = 100 << 10;
const DEFAULT_BATCH_BYTES: usize = 10 << 20;
/// Larger events would not fit into the memory for waiting events.
const MAX_TRUNCATE_BYTES: usize = 64 << 20;

/// Returns `None` without a policy, since no event is recorded then.
pub(super) fn check(raw: &raw::Observability, check: &mut Check) -> Option<AuditSettings> {
    let log = log(raw, check);
    let webhook = webhook(raw, check);
    let policy_file = check.file("observability.auditPolicyFile", &raw.audit_policy_file)?;
    Some(AuditSettings {
        policy_file,
        log,
        webhook,
    })
}

fn log(raw: &raw::Observability, check: &mut Check) -> Option<AuditLog> {
    let mut count = |name: &str, raw, default, allowed| {
        check.count(&format!("observability.{name}"), raw, default, allowed)
    };
    let megabytes = count("auditLogMaxSize", raw.audit_log_max_size, 100, 0..=1 << 20);
    let max_backups = count(
        "auditLogMaxBackups",
        raw.audit_log_max_backups,
        100,
        0..=100_000,
    );
    let days = count("auditLogMaxAge", raw.audit_log_max_age, 366, 0..=100_000);
    let buffer = count(
        "auditLogBatchBufferSize",
        raw.audit_log_batch_buffer_size,
        DEFAULT_BUFFER,
        BUFFERS,
    );
    let event_bytes = count(
        "auditLogTruncateMaxEventSize",
        raw.audit_log_truncate_max_event_size,
        DEFAULT_EVENT_BYTES,
        1..=MAX_TRUNCATE_BYTES,
    );
    let path = raw.audit_log_path.as_deref().unwrap_or("-");
    (!path.is_empty()).then(|| AuditLog {
        path: PathBuf::from(path),
        rotation: Rotation {
            max_bytes: (megabytes > 0).then_some((megabytes as u64).saturating_mul(MEGABYTE)),
            max_backups,
            max_age_days: days as u64,
            compress: raw.audit_log_compress.unwrap_or(false),
        },
        buffer,
        max_event_bytes: raw
            .audit_log_truncate_enabled
            .unwrap_or(false)
            .then_some(event_bytes),
    })
}

fn webhook(raw: &raw::Observability, check: &mut Check) -> Option<AuditWebhook> {
    let initial_backoff = check.duration(
        "observability.auditWebhookInitialBackoff",
        &raw.audit_webhook_initial_backoff,
        Duration::from_secs(10),
    );
    let max_batch_wait = check.duration(
        "observability.auditWebhookBatchMaxWait",
        &raw.audit_webhook_batch_max_wait,
        Duration::from_secs(30),
    );
    let per_second = raw.audit_webhook_batch_throttle_qps.unwrap_or(10.0);
    if !(per_second.is_finite() && per_second > 0.0) {
        check.error(
            "observability.auditWebhookBatchThrottleQPS",
            &per_second.to_string(),
            "must be more than 0",
        );
    }
    let mut count = |name: &str, raw, default, allowed| {
        check.count(&format!("observability.{name}"), raw, default, allowed)
    };
    let buffer = count(
        "auditWebhookBatchBufferSize",
        raw.audit_webhook_batch_buffer_size,
        DEFAULT_BUFFER,
        BUFFERS,
    );
    let max_batch_events = count(
        "auditWebhookBatchMaxSize",
        raw.audit_webhook_batch_max_size,
        400,
        BUFFERS,
    );
    let burst = count(
        "auditWebhookBatchThrottleBurst",
        raw.audit_webhook_batch_throttle_burst,
        15,
        1..=100_000,
    );
    let truncate = truncate(raw, check);
    let config_file = check.file(
        "observability.auditWebhookConfigFile",
        &raw.audit_webhook_config_file,
    )?;
    let throttles = raw.audit_webhook_batch_throttle_enable.unwrap_or(true);
    Some(AuditWebhook {
        config_file,
        initial_backoff,
        buffer,
        max_batch_events,
        max_batch_wait,
        throttle: throttles.then_some(Throttle {
            per_second,
            burst: u32::try_from(burst).unwrap_or(u32::MAX),
        }),
        truncate,
    })
}

/// Returns `None` if nothing is truncated. The sizes are checked even so.
fn truncate(raw: &raw::Observability, check: &mut Check) -> Option<Truncate> {
    let mut count = |name: &str, raw, default, allowed| {
        check.count(&format!("observability.{name}"), raw, default, allowed)
    };
    let max_event_bytes = count(
        "auditWebhookTruncateMaxEventSize",
        raw.audit_webhook_truncate_max_event_size,
        DEFAULT_EVENT_BYTES,
        1..=MAX_TRUNCATE_BYTES,
    );
    let max_batch_bytes = count(
        "auditWebhookTruncateMaxBatchSize",
        raw.audit_webhook_truncate_max_batch_size,
        DEFAULT_BATCH_BYTES,
        1..=MAX_TRUNCATE_BYTES,
    );
    if max_batch_bytes < max_event_bytes {
        check.error(
            "observability.auditWebhookTruncateMaxBatchSize",
            &max_batch_bytes.to_string(),
            "must not be less than observability.auditWebhookTruncateMaxEventSize",
        );
    }
    let truncates = raw.audit_webhook_truncate_enabled.unwrap_or(false);
    truncates.then_some(Truncate {
        max_event_bytes,
        max_batch_bytes,
    })
}
