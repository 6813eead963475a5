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
    /// The second value is the time at which the kubeconfig was last changed: a
    /// changed file may hold other credentials.
    Webhook(AuditWebhook, Option<SystemTime>),
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

/// Returns the current webhook if its settings and its kubeconfig are the same, else
/// a new one.
pub(super) async fn webhook(
    settings: &AuditWebhook,
    current: &[Arc<Backend>],
    metrics: &AuditMetrics,
) -> Result<Arc<Backend>, BackendError> {
    let wanted = Settings::Webhook(settings.clone(), modified(&settings.config_file));
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
