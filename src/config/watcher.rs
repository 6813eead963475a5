//! Notices that a configuration must be read again.
//!
//! Kubernetes replaces a mounted ConfigMap or Secret by renaming the `..data`
//! symlink beside the files, and editors rename a new file over the old one. So
//! the directories are watched, and a change is a change of the files to which
//! the paths lead. `SIGHUP` always counts as a change.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::{LiveConfig, Source};

/// The time to wait after a change: writers touch a file several times, and a
/// key after its certificate.
const SETTLE_DELAY: Duration = Duration::from_millis(250);
/// The time between two looks at the files while the kernel notifies of
/// changes: some file systems do not. client-go rereads certificates as often.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// The time between two looks at the files while the kernel does not notify,
/// because all its inotify instances or watches are in use. Nodes with many
/// pods run out of them.
const UNNOTIFIED_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The state of the file to which a path leads: file, inode, size, modification
/// and change time. `None` while it leads nowhere.
type Fingerprint = Vec<FileFingerprint>;
type FileFingerprint = Option<(PathBuf, u64, u64, i64, i64, i64, i64)>;

pub struct Watcher {
    files: Vec<PathBuf>,
    seen: Fingerprint,
    directories: BTreeSet<PathBuf>,
    /// `None` if the kernel has no inotify instance left. Polling remains.
    notices: Option<RecommendedWatcher>,
    noticed: Arc<Notify>,
    hangup: Signal,
    poll: Interval,
}

impl Watcher {
    /// Starts to watch the files. Must be called in a tokio runtime. Fails if
    /// `SIGHUP` cannot be caught.
    pub fn new(files: Vec<PathBuf>) -> std::io::Result<Self> {
        let noticed = Arc::new(Notify::new());
        let sender = noticed.clone();
        let notices = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the files causes an event too, which must not cause a reload.
            if !event.is_ok_and(|e| e.kind.is_access()) {
                sender.notify_one();
            }
        });
        let notices = notices
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch files, polling every {UNNOTIFIED_POLL_INTERVAL:?}");
            })
            .ok();
        Self::with(notices, noticed, files)
    }

    fn with(
        notices: Option<RecommendedWatcher>,
        noticed: Arc<Notify>,
        files: Vec<PathBuf>,
    ) -> std::io::Result<Self> {
        let mut watcher = Self {
            files: Vec::new(),
            seen: Vec::new(),
            directories: BTreeSet::new(),
            notices,
            noticed,
            hangup: signal(SignalKind::hangup())?,
            poll: every(POLL_INTERVAL),
        };
        watcher.watch(files);
        Ok(watcher)
    }

    pub fn watch(&mut self, files: Vec<PathBuf>) {
        let mut wanted: BTreeSet<PathBuf> = files.iter().flat_map(|f| directories_of(f)).collect();
        let mut unwatched = self.notices.is_none();
        if let Some(notices) = &mut self.notices {
            for gone in self.directories.difference(&wanted) {
                // The directory may be gone from the disk, too.
                let _ = notices.unwatch(gone);
            }
            let new: Vec<PathBuf> = wanted.difference(&self.directories).cloned().collect();
            for new in new {
                if let Err(error) = notices.watch(&new, RecursiveMode::NonRecursive) {
                    tracing::warn!(
                        directory = %new.display(), %error,
                        "cannot watch the directory, polling every {UNNOTIFIED_POLL_INTERVAL:?}",
                    );
                    // It is tried again at the next reload.
                    wanted.remove(&new);
                    unwatched = true;
                }
            }
        }
        let period = if unwatched {
            UNNOTIFIED_POLL_INTERVAL
        } else {
            POLL_INTERVAL
        };
        if self.poll.period() != period {
            self.poll = every(period);
        }
        self.directories = wanted;
        // A file that was watched before may have changed since it was read. That
        // change must still be reported.
        let known = |file: &PathBuf| {
            let at = self.files.iter().position(|known| known == file);
            at.and_then(|at| self.seen.get(at).cloned())
        };
        self.seen = files
            .iter()
            .map(|file| known(file).unwrap_or_else(|| fingerprint_of(file)))
            .collect();
        self.files = files;
    }

    /// Waits until the files have changed and come to rest, or for `SIGHUP`. Cancel
    /// safe: a change stays pending until a call has returned for it.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    self.seen = fingerprint(&self.files);
                    return;
                }
                // Another file in the directory may change all the time. The pause
                // bounds the work that this causes.
                () = self.noticed.notified() => sleep(SETTLE_DELAY).await,
                _ = self.poll.tick() => {}
            }
            let mut now = fingerprint(&self.files);
            if now == self.seen {
                continue;
            }
            loop {
                sleep(SETTLE_DELAY).await;
                let later = fingerprint(&self.files);
                if later == now {
                    break;
                }
                now = later;
            }
            self.seen = now;
            return;
        }
    }

    /// Reloads `live` at every change, for ever.
    pub async fn run(mut self, source: Source, live: Arc<LiveConfig>) {
        loop {
            self.changed().await;
            // `live` reports the result in the log and the metrics.
            let _ = live.reload(&source);
            let files = source.files(&live.load());
            self.watch(files);
        }
    }
}

/// Returns an interval whose first tick is due after one period.
fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    // Otherwise the first tick would be due at once.
    interval.reset();
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Returns the directory of the path, and the directory to which its links
/// lead.
fn directories_of(file: &Path) -> Vec<PathBuf> {
    let parent = |p: &Path| match p.parent() {
        Some(dir) if dir.as_os_str().is_empty() => PathBuf::from("."),
        Some(dir) => dir.to_owned(),
        None => PathBuf::from("/"),
    };
    let mut directories = vec![parent(file)];
    if let Ok(target) = fs::canonicalize(file) {
        directories.push(parent(&target));
    }
    directories
}

fn fingerprint(files: &[PathBuf]) -> Fingerprint {
    files.iter().map(|file| fingerprint_of(file)).collect()
}

fn fingerprint_of(file: &Path) -> FileFingerprint {
    let target = fs::canonicalize(file).ok()?;
    let m = fs::metadata(&target).ok()?;
    let times = (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
    Some((target, m.ino(), m.len(), times.0, times.1, times.2, times.3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change during a reload was once taken for the state that had been read.
    #[tokio::test]
    async fn a_change_while_files_are_read_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, "1").unwrap();
        fs::write(&new, "1").unwrap();
        let mut watcher = Watcher::new(vec![old.clone()]).unwrap();
        fs::write(&old, "22").unwrap();
        watcher.watch(vec![old, new]);
        let changed = tokio::time::timeout(Duration::from_secs(20), watcher.changed());
        changed.await.expect("a change");
    }

    /// Without notices, a change was once noticed only after a minute.
    #[tokio::test(start_paused = true)]
    async fn without_notices_files_are_looked_at_every_two_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "1").unwrap();
        let mut watcher = Watcher::with(None, Arc::new(Notify::new()), vec![file.clone()]).unwrap();
        fs::write(&file, "22").unwrap();
        let changed = tokio::time::timeout(Duration::from_secs(4), watcher.changed());
        changed.await.expect("a change");
        // With nothing changed it goes on looking.
        let quiet = tokio::time::timeout(Duration::from_secs(120), watcher.changed());
        quiet.await.unwrap_err();
    }
}
