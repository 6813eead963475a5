//! Sends spans to a collector: a bounded queue, and a thread that sends batches by
//! OTLP over gRPC.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData,
    SpanExporter as Export, SpanProcessor,
};
use parking_lot::Mutex;

use super::file::Settings;
use super::metrics::TracingMetrics;

const SERVICE: &str = "apifront";

/// The most spans that wait or are being sent, as in kube-apiserver. A span takes
/// about 2 KB.
const MAX_WAITING: usize = 2048;

/// The spans in a batch, and the longest time between two batches, as in
/// kube-apiserver.
const MAX_BATCH: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(5);

/// The time in which a batch must be accepted, which also lets a collector restart.
/// The pauses between attempts grow to 1.6 s, so the time ends before the retries
/// do.
const SEND_WITHIN: Duration = Duration::from_secs(10);
const MAX_RETRIES: usize = 20;

/// The shortest time between two log lines about batches that were not accepted.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
#[error("the exporter cannot be built: {0}")]
pub struct ExportError(#[from] opentelemetry_otlp::ExporterBuildError);

/// Makes the provider that sends to a collector, and starts its thread. It connects
/// when there are spans. Must be called in a runtime, which connections need.
pub(super) fn provider(
    settings: &Settings,
    metrics: &TracingMetrics,
) -> Result<SdkTracerProvider, ExportError> {
    let waiting = Arc::new(AtomicUsize::new(0));
    let exporter = Counted {
        exporter: SpanExporter::builder()
            .with_tonic()
            .with_endpoint(settings.endpoint.uri())
            .with_timeout(SEND_WITHIN)
            .with_retry_policy(RetryPolicy::recommended().with_max_retries(MAX_RETRIES))
            .build()?,
        endpoint: settings.endpoint.uri().to_owned(),
        waiting: waiting.clone(),
        metrics: metrics.clone(),
        failures: Mutex::default(),
    };
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_WAITING)
        .with_max_export_batch_size(MAX_BATCH)
        .with_scheduled_delay(SEND_EVERY)
        .build();
    let queue = Queue {
        batches: BatchSpanProcessor::new(exporter, config),
        waiting,
        metrics: metrics.clone(),
    };
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let instance = KeyValue::new("service.instance.id", uuid::Uuid::new_v4().to_string());
    let resource = Resource::builder()
        .with_service_name(SERVICE)
        .with_attributes([version, instance])
        .build();
    Ok(SdkTracerProvider::builder()
        .with_sampler(sampler(settings.sampling_rate_per_million))
        .with_span_processor(queue)
        .with_resource(resource)
        .build())
}

/// Samples traces that a caller began if the caller sampled them, and of other
/// traces this many in a million.
fn sampler(rate_per_million: u32) -> Sampler {
    let root = match rate_per_million {
        0 => Sampler::AlwaysOff,
        rate => Sampler::TraceIdRatioBased(f64::from(rate) / 1_000_000.0),
    };
    Sampler::ParentBased(Box::new(root))
}

/// The queue before the thread. The library's own queue would not tell how many
/// spans it drops.
#[derive(Debug)]
struct Queue {
    batches: BatchSpanProcessor,
    /// The spans that `batches` holds.
    waiting: Arc<AtomicUsize>,
    metrics: TracingMetrics,
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let room = |waiting: usize| (waiting < MAX_WAITING).then(|| waiting.saturating_add(1));
        let (relaxed, waiting) = (Ordering::Relaxed, &self.waiting);
        match waiting.fetch_update(relaxed, relaxed, room) {
            Ok(_) => self.batches.on_end(span),
            Err(_) => self.metrics.dropped(),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// The exporter, with counters of sent and failed spans.
#[derive(Debug)]
struct Counted {
    exporter: SpanExporter,
    endpoint: String,
    waiting: Arc<AtomicUsize>,
    metrics: TracingMetrics,
    failures: Mutex<Failures>,
}

impl Export for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let sent = self.exporter.export(batch).await;
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let number = u64::try_from(spans).unwrap_or(u64::MAX);
        match &sent {
            Ok(()) => {
                self.metrics.exported(number);
                if self.failures.lock().end() {
                    tracing::info!(collector = self.endpoint, "spans are sent again");
                }
            }
            Err(error) => {
                self.metrics.failed(number);
                let lost = self.failures.lock().add(number, Instant::now());
                if let Some(spans) = lost {
                    let collector = &self.endpoint;
                    tracing::warn!(collector, spans, %error, "spans were not sent");
                }
            }
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The unsent spans, for the log.
#[derive(Debug, Default)]
struct Failures {
    untold: u64,
    told: Option<Instant>,
    /// Whether the last batch was not sent.
    last: bool,
}

impl Failures {
    /// Adds unsent spans. Returns the number to log, if a log line is due.
    fn add(&mut self, spans: u64, now: Instant) -> Option<u64> {
        self.last = true;
        self.untold = self.untold.saturating_add(spans);
        let since = self.told.map(|told| now.saturating_duration_since(told));
        if since.is_some_and(|since| since < TELL_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    /// Notes a batch that was sent. Returns whether the batch before failed and the
    /// log has said so.
    fn end(&mut self) -> bool {
        let over = std::mem::take(&mut self.last);
        over && self.untold == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_of_once_in_a_while() {
        let (mut failures, began) = (Failures::default(), Instant::now());
        let told: Vec<_> = (0..150)
            .filter_map(|second| failures.add(2, began + Duration::from_secs(second)))
            .collect();
        assert_eq!(told, [2, 120, 120]);
        assert!(
            !failures.end(),
            "what was not logged needs no end in the log"
        );
        assert_eq!(failures.add(1, began + Duration::from_secs(180)), Some(59));
        assert!(failures.end());
        assert!(!failures.end());
    }

    #[test]
    fn only_a_rate_begins_traces() {
        let root = |rate| format!("{:?}", sampler(rate));
        assert_eq!(root(0), "ParentBased(AlwaysOff)");
        assert_eq!(root(250_000), "ParentBased(TraceIdRatioBased(0.25))");
    }
}
