//! The audit log: a thread writes events as lines of JSON to a file or to standard
//! output.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use super::file::RotatingFile;
use super::metrics::{AuditMetrics, Plugin};
use super::queue::{Batch, Item, Queue};
use super::settings::AuditLog;

/// The time for which the first event of a batch waits for others. Fifty writes a
/// second are cheap, and a reader of the log notices no delay.
const GATHER_DELAY: Duration = Duration::from_millis(20);

enum Output {
    Stdout,
    File(RotatingFile),
}

struct Writer {
    output: Output,
    max_event_bytes: Option<usize>,
    metrics: AuditMetrics,
    /// True if the last write failed. Only the first failure is logged.
    failing: bool,
}

pub(super) fn start(
    settings: &AuditLog,
    queue: Arc<Queue>,
    metrics: AuditMetrics,
) -> io::Result<JoinHandle<()>> {
    let output = if settings.path == Path::new("-") {
        Output::Stdout
    } else {
        Output::File(RotatingFile::open(
            &settings.path,
            settings.rotation.clone(),
        )?)
    };
    let mut writer = Writer {
        output,
        max_event_bytes: settings.max_event_bytes,
        metrics,
        failing: false,
    };
    let run = move || {
        let mut batch = Batch::default();
        while queue.take(GATHER_DELAY, &mut batch) {
            writer.batch(&batch);
        }
    };
    std::thread::Builder::new()
        .name("audit-log".to_owned())
        .spawn(run)
}

impl Writer {
    /// Writes a batch. Lines are written together as long as they fit into one
    /// file.
    fn batch(&mut self, batch: &Batch) {
        let (mut from, mut to, mut count) = (0_usize, 0_usize, 0_usize);
        let mut made = Vec::new();
        let lines = |from: usize, to: usize| batch.lines.get(from..to).unwrap_or_default();
        for item in &batch.items {
            let length = match item {
                Item::Line(length) => *length,
                Item::Unfinished(_) => 0,
            };
            let too_long = self.max_event_bytes.is_some_and(|most| length > most);
            let ends_here = too_long
                || matches!(item, Item::Unfinished(_))
                || self.is_full_with(to.saturating_add(length).saturating_sub(from));
            if ends_here {
                self.write(lines(from, to), std::mem::take(&mut count));
                from = to;
            }
            match item {
                Item::Line(_) if too_long => {
                    self.metrics.lost(Plugin::Truncate, 1);
                    to = to.saturating_add(length);
                    from = to;
                }
                Item::Line(_) => {
                    to = to.saturating_add(length);
                    count = count.saturating_add(1);
                }
                Item::Unfinished(event) => {
                    made.clear();
                    if event.write(self.max_event_bytes, &mut made) {
                        self.write(&made, 1);
                    } else {
                        self.metrics.lost(Plugin::Truncate, 1);
                    }
                }
            }
        }
        self.write(lines(from, to), count);
    }

    fn is_full_with(&self, bytes: usize) -> bool {
        match &self.output {
            Output::Stdout => false,
            Output::File(file) => file.is_full_with(bytes),
        }
    }

    fn write(&mut self, lines: &[u8], events: usize) {
        if lines.is_empty() {
            return;
        }
        let written = match &mut self.output {
            Output::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines).and_then(|()| out.flush())
            }
            Output::File(file) => file.write(lines, SystemTime::now()),
        };
        match written {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the audit log is written again");
                }
            }
            Err(error) => {
                self.metrics.lost(Plugin::Log, events);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::error!(%error, "the audit log cannot be written, its events are lost");
                }
            }
        }
    }
}
