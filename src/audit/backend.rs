//! A destination of events: a queue, and the thread that empties it. Dropping the
//! last reference closes the queue, and the thread ends after the last event.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use apifront_upstream::{SettingsError, WebhookClient};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::metrics::AuditMetrics;
use super::queue::Queue;
use super::settings::{AuditLog, AuditWebhook};
use super::{log, webhook};

#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    #[error("observability.auditLogPath: cannot write {file:?}: {error}")]
    Log {
        file: std::path::PathBuf,
        error: std::io::Error,
    },
    #[error("observability.auditWebhookConfigFile: {0}")]
    Webhook(#[from] SettingsError),
    #[error("no thread for audit events: {0}")]
    Thread(std::io::Error),
}

#[derive(Clone, PartialEq)]
enum Settings {
    Log(AuditLog),
    /// The second value is when the kubeconfig and the files that it names were last
    /// changed: a changed file may hold other credentials.
    Webhook(AuditWebhook, Vec<Option<SystemTime>>),
}

pub(super) struct Backend {
    settings: Settings,
    pub(super) queue: Arc<Queue>,
    /// `None` once the thread has been joined.
    thread: Mutex<Option<JoinHandle<()>>>,
    closing: watch::Sender<bool>,
}

/// Returns the current log if its settings are the same, else a new one.
pub(super) fn log(
    settings: &AuditLog,
    current: &[Arc<Backend>],
    metrics: &AuditMetrics,
) -> Result<Arc<Backend>, BackendError> {
    let wanted = Settings::Log(settings.clone());
    if let Some(backend) = current.iter().find(|b| b.settings == wanted) {
        return Ok(backend.clone());
    }
    // A batch may be as large as the buffer: the log takes all waiting events at
    // once.
    let queue = Arc::new(Queue::new(settings.buffer, settings.buffer));
    let thread = log::start(settings, queue.clone(), metrics.clone()).map_err(|error| {
        BackendError::Log {
            file: settings.path.clone(),
            error,
        }
    })?;
    Ok(Backend::new(
        wanted,
        queue,
        thread,
        watch::Sender::new(false),
    ))
}

/// Returns the current webhook if its settings and the files of its credentials are the
/// same, else a new one.
pub(super) async fn webhook(
    settings: &AuditWebhook,
    current: &[Arc<Backend>],
    metrics: &AuditMetrics,
) -> Result<Arc<Backend>, BackendError> {
    let changed = settings.files().iter().map(|f| modified(f)).collect();
    let wanted = Settings::Webhook(settings.clone(), changed);
    if let Some(backend) = current.iter().find(|b| b.settings == wanted) {
        return Ok(backend.clone());
    }
    let client = WebhookClient::from_kubeconfig(&settings.config_file).await?;
    let queue = Arc::new(Queue::new(settings.buffer, settings.max_batch_events));
    let closing = watch::Sender::new(false);
    let (waiting, stop) = (queue.clone(), closing.subscribe());
    let thread = webhook::start(settings, client, waiting, metrics.clone(), stop)
        .map_err(BackendError::Thread)?;
    Ok(Backend::new(wanted, queue, thread, closing))
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|m| m.modified()).ok()
}

impl Backend {
    fn new(
        settings: Settings,
        queue: Arc<Queue>,
        thread: JoinHandle<()>,
        closing: watch::Sender<bool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            queue,
            thread: Mutex::new(Some(thread)),
            closing,
        })
    }

    /// A backend without a thread: its events stay in the queue.
    #[cfg(test)]
    pub(super) fn for_tests(queue: Arc<Queue>) -> Arc<Self> {
        let settings = Settings::Log(AuditLog {
            path: "-".into(),
            rotation: crate::audit::settings::Rotation {
                max_bytes: None,
                max_backups: 0,
                max_age_days: 0,
                compress: false,
            },
            buffer: 1,
            max_event_bytes: None,
        });
        let thread = std::thread::spawn(|| {});
        Self::new(settings, queue, thread, watch::Sender::new(false))
    }

    /// Closes the queue and waits until the last event is written. Pauses
    /// between attempts end early.
    pub(super) async fn flush(&self) {
        self.queue.close();
        self.closing.send_replace(true);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A thread that panicked has nothing more to write.
            let _ended = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus::Registry;
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;

    fn renew(folder: &Path, serial: u64) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.serial_number = Some(serial.into());
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("client.key"), key.serialize_pem()).unwrap();
        std::fs::write(folder.join("client.crt"), certificate.pem()).unwrap();
    }

    #[tokio::test]
    async fn a_renewed_certificate_makes_a_new_webhook() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        renew(folder.path(), 1);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "contexts": [{ "name": "a", "context": { "cluster": "b", "user": "c" } }],
            "clusters": [{ "name": "b", "cluster": { "server": "https://127.0.0.1:1" } }],
            "users": [{ "name": "c", "user": {
                "client-certificate": "client.crt", "client-key": "client.key",
            } }],
        });
        let config_file = folder.path().join("kubeconfig");
        std::fs::write(&config_file, kubeconfig.to_string()).unwrap();
        let settings = AuditWebhook {
            config_file,
            initial_backoff: Duration::from_secs(1),
            buffer: 1,
            max_batch_events: 1,
            max_batch_wait: Duration::from_secs(1),
            throttle: None,
            truncate: None,
        };
        let metrics = AuditMetrics::register(&Registry::new()).unwrap();
        let first = webhook(&settings, &[], &metrics).await.unwrap();
        let current = [first.clone()];
        let same = webhook(&settings, &current, &metrics).await.unwrap();
        assert!(Arc::ptr_eq(&first, &same));

        renew(folder.path(), 2);
        let other = webhook(&settings, &current, &metrics).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
    }
}
