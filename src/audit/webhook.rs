//! The webhook: POSTs events in batches, as an EventList, to the server of a
//! kubeconfig. Batching, throttle and backoff are kube-apiserver's.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use apifront_upstream::WebhookClient;
use bytes::Bytes;
use rand::Rng;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::metrics::{AuditMetrics, Plugin};
use super::queue::{Batch, Item, Queue};
use super::record::TYPE;
use super::settings::{AuditWebhook, Throttle, Truncate};

/// The most batches in flight, retries included. Further events wait in the queue
/// while the webhook does not answer. kube-apiserver has no such limit.
const MAX_CONCURRENT_BATCHES: usize = 16;

/// The attempts, and the growth of the pauses between them: the wait.Backoff of
/// kube-apiserver's webhooks.
const MAX_ATTEMPTS: u32 = 5;
const BACKOFF_FACTOR: f64 = 1.5;
const BACKOFF_JITTER: f64 = 0.2;

const LIST: &[u8] =
    br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;

struct Sender {
    client: WebhookClient,
    initial_backoff: Duration,
    metrics: AuditMetrics,
    /// True once apifront stops, which ends pauses.
    closing: watch::Receiver<bool>,
}

/// Starts the thread. Must be called in a tokio runtime.
pub(super) fn start(
    settings: &AuditWebhook,
    client: WebhookClient,
    queue: Arc<Queue>,
    metrics: AuditMetrics,
    closing: watch::Receiver<bool>,
) -> io::Result<JoinHandle<()>> {
    let runtime = Handle::current();
    let settings = settings.clone();
    let sender = Arc::new(Sender {
        client,
        initial_backoff: settings.initial_backoff,
        metrics,
        closing,
    });
    std::thread::Builder::new()
        .name("audit-webhook".to_owned())
        .spawn(move || collect(&settings, &queue, &sender, &runtime))
}

/// Takes batches until the queue is closed and empty. Then waits for the deliveries
/// in flight.
fn collect(settings: &AuditWebhook, queue: &Queue, sender: &Arc<Sender>, runtime: &Handle) {
    let turns = Arc::new(Semaphore::new(MAX_CONCURRENT_BATCHES));
    let mut bucket = settings.throttle.map(|t| Bucket::new(t, Instant::now()));
    let mut batch = Batch::default();
    while queue.take(settings.max_batch_wait, &mut batch) {
        for (body, events) in lists(&batch, settings.truncate, &sender.metrics) {
            let wait = bucket.as_mut().map(|b| b.take(Instant::now()));
            let turn = runtime.block_on(async {
                sender.pause(wait.unwrap_or_default()).await;
                turns.clone().acquire_owned().await
            });
            let Ok(turn) = turn else { return };
            runtime.spawn(sender.clone().deliver(body, events, turn));
        }
    }
    let all = u32::try_from(MAX_CONCURRENT_BATCHES).unwrap_or(u32::MAX);
    let last = runtime.block_on(turns.acquire_many(all));
    drop(last);
}

/// Returns the batch as EventLists, each with the number of its events. There are
/// several if their size is limited.
fn lists(batch: &Batch, truncate: Option<Truncate>, metrics: &AuditMetrics) -> Vec<(Bytes, usize)> {
    let most = truncate.map(|t| t.max_event_bytes);
    let most_together = truncate.map_or(usize::MAX, |t| t.max_batch_bytes);
    let mut lists = Vec::new();
    let (mut list, mut events, mut bytes) = (LIST.to_vec(), 0_usize, 0_usize);
    let mut lines = batch.lines.as_slice();
    let mut made = Vec::new();
    for item in &batch.items {
        let line = match item {
            Item::Line(length) => {
                let line;
                (line, lines) = lines.split_at_checked(*length).unwrap_or_default();
                Some(line).filter(|line| most.is_none_or(|most| line.len() <= most))
            }
            Item::Unfinished(event) => {
                made.clear();
                event.write(most, &mut made).then_some(made.as_slice())
            }
        };
        let Some(line) = line else {
            metrics.lost(Plugin::Truncate, 1);
            continue;
        };
        if events > 0 && bytes.saturating_add(line.len()) > most_together {
            lists.push((closed(&mut list), std::mem::take(&mut events)));
            bytes = 0;
        }
        bytes = bytes.saturating_add(line.len());
        if events > 0 {
            list.push(b',');
        }
        // In a list, events have no kind, no apiVersion and no line feed.
        list.push(b'{');
        let fields = line.strip_prefix(b"{").and_then(|f| f.strip_prefix(TYPE));
        list.extend_from_slice(fields.unwrap_or_default().trim_ascii_end());
        events = events.saturating_add(1);
    }
    if events > 0 {
        lists.push((closed(&mut list), events));
    }
    lists
}

fn closed(list: &mut Vec<u8>) -> Bytes {
    list.extend_from_slice(b"]}\n");
    std::mem::replace(list, LIST.to_vec()).into()
}

impl Sender {
    /// POSTs one list. Every failure is retried, because the next attempt may
    /// succeed. After the last attempt the events are lost.
    async fn deliver(self: Arc<Self>, body: Bytes, events: usize, turn: OwnedSemaphorePermit) {
        let mut pause = self.initial_backoff;
        for attempt in 1..=MAX_ATTEMPTS {
            let error = match self.client.post(body.clone()).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if attempt == MAX_ATTEMPTS || *self.closing.borrow() {
                tracing::error!(%error, events, "audit webhook: events are lost");
                self.metrics.lost(Plugin::Webhook, events);
                return;
            }
            tracing::warn!(%error, attempt, "audit webhook failed");
            let jitter = rand::rng().random_range(0.0..BACKOFF_JITTER);
            self.pause(pause.mul_f64(1.0 + jitter)).await;
            pause = pause.mul_f64(BACKOFF_FACTOR);
        }
        drop(turn);
    }

    /// Sleeps for `pause`. Returns early when apifront stops.
    async fn pause(&self, pause: Duration) {
        let mut closing = self.closing.clone();
        let stopped = async {
            // The sender was dropped, so apifront does not wait for the end.
            if closing.wait_for(|closing| *closing).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped => {}
        }
    }
}

/// A token bucket, which is full at first.
struct Bucket {
    throttle: Throttle,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(throttle: Throttle, now: Instant) -> Self {
        Self {
            tokens: throttle.burst.into(),
            throttle,
            at: now,
        }
    }

    /// Takes a token. Returns the time until it may be used.
    fn take(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        let most = f64::from(self.throttle.burst);
        self.tokens = (self.tokens + since * self.throttle.per_second).min(most) - 1.0;
        self.at = now;
        let missing = (-self.tokens).max(0.0);
        Duration::try_from_secs_f64(missing / self.throttle.per_second).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lines: &[&str]) -> Batch {
        let mut batch = Batch::default();
        for line in lines {
            let line = format!(
                "{{{}\"level\":\"{line}\"}}\n",
                std::str::from_utf8(TYPE).unwrap()
            );
            batch.push_line(line.as_bytes());
        }
        batch
    }

    #[test]
    fn events_are_listed_without_their_type_and_within_the_limits() {
        let metrics = AuditMetrics::register(&prometheus::Registry::new()).unwrap();
        let all = lists(&batch(&["a", "b"]), None, &metrics);
        let text = std::str::from_utf8(&all[0].0).unwrap();
        assert_eq!(
            text,
            "{\"kind\":\"EventList\",\"apiVersion\":\"audit.k8s.io/v1\",\"metadata\":{},\
             \"items\":[{\"level\":\"a\"},{\"level\":\"b\"}]}\n"
        );
        let truncate = Truncate {
            max_event_bytes: 80,
            max_batch_bytes: 100,
        };
        let long = "x".repeat(80);
        let some = lists(&batch(&["a", &long, "b", "c"]), Some(truncate), &metrics);
        let counts: Vec<usize> = some.iter().map(|(_, events)| *events).collect();
        assert_eq!(counts, [1, 1, 1]);
    }

    #[test]
    fn batches_are_sent_at_a_rate_after_a_burst() {
        let now = Instant::now();
        let throttle = Throttle {
            per_second: 10.0,
            burst: 2,
        };
        let mut bucket = Bucket::new(throttle, now);
        let waits: Vec<u128> = (0..4).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        assert_eq!(bucket.take(now + Duration::from_secs(1)).as_millis(), 0);
    }
}
