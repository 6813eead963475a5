//! The settings of the audit log: its policy, and where events go.

use std::path::PathBuf;
use std::time::Duration;

use apifront_upstream::certificate_files;

#[derive(Clone, Debug, PartialEq)]
pub struct AuditSettings {
    pub policy_file: PathBuf,
    pub log: Option<AuditLog>,
    pub webhook: Option<AuditWebhook>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLog {
    /// `-` is standard output.
    pub path: PathBuf,
    pub rotation: Rotation,
    pub buffer: usize,
    /// Larger events lose their objects. `None` means no limit.
    pub max_event_bytes: Option<usize>,
}

/// The size of a log's files, and how many of them are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// `None`: the file has no limit.
    pub max_bytes: Option<u64>,
    /// 0: any number.
    pub max_backups: usize,
    /// 0: for ever.
    pub max_age_days: u64,
    pub compress: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AuditWebhook {
    /// A kubeconfig.
    pub config_file: PathBuf,
    pub initial_backoff: Duration,
    pub buffer: usize,
    pub max_batch_events: usize,
    pub max_batch_wait: Duration,
    pub throttle: Option<Throttle>,
    pub truncate: Option<Truncate>,
}

/// The limits for the rate of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    pub per_second: f64,
    pub burst: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncate {
    pub max_event_bytes: usize,
    pub max_batch_bytes: usize,
}

impl AuditSettings {
    /// Returns the files that the backends and the policy are read from.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let webhook = self.webhook.iter().flat_map(AuditWebhook::files);
        [self.policy_file.clone()].into_iter().chain(webhook)
    }
}

impl AuditWebhook {
    /// Returns the kubeconfig, and the certificates and keys that it names.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.config_file.clone()];
        files.extend(certificate_files(&self.config_file, None));
        files
    }
}
