//! Tracing: spans of requests, which are sent to a collector by OTLP, like
//! kube-apiserver's with `--tracing-config-file`.
//!
//! ```text
//! request ─▶ RequestSpan ─ SERVER span ──────────────▶ queue ─▶ thread ─▶ collector
//!                │       └ CLIENT span, if forwarded ─▶ (full: counted and dropped)
//!                └─▶ traceparent for upstream
//! ```
//!
//! Without a configuration there are no spans, and a caller's trace headers go to
//! upstream unchanged. A request that is not sampled has IDs for upstream, but no
//! attributes.

mod endpoint;
mod export;
mod file;
mod metrics;
mod name;
mod request_span;
mod trace_context;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

pub use export::ExportError;
pub use metrics::TracingMetrics;
pub use request_span::{Beginning, Ending, RequestSpan};
pub use trace_context::continues_trace;

use crate::config_errors::ConfigErrors;
use file::Settings;

/// The instrumentation scope of the spans.
const SCOPE: &str = "apifront";

/// When apifront stops, it waits this long for the collector to accept the spans.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    #[error("observability.tracingConfigFile: {0}")]
    File(#[from] ConfigErrors),
    #[error("observability.tracingConfigFile: {0}")]
    Export(#[from] ExportError),
}

/// Checks that the file is usable. Connects to no server.
pub fn check(file: &Path) -> Result<(), TracingError> {
    file::load(file)?;
    Ok(())
}

/// The state of tracing. It lives as long as the process; a reload replaces the
/// connection to the collector.
pub struct Tracing {
    /// `None` if there are no spans.
    running: ArcSwapOption<Running>,
    metrics: TracingMetrics,
}

struct Running {
    settings: Settings,
    tracer: SdkTracer,
    provider: SdkTracerProvider,
}

/// A collector's provider that is not in force yet.
pub struct Prepared(Option<Arc<Running>>);

impl Tracing {
    pub fn new(metrics: TracingMetrics) -> Self {
        Self {
            running: ArcSwapOption::empty(),
            metrics,
        }
    }

    /// Reads the file and prepares its collector's provider. Keeps the one in use if
    /// the settings did not change. Must be called in a runtime.
    pub fn prepare(&self, file: Option<&Path>) -> Result<Prepared, TracingError> {
        let Some(file) = file else {
            return Ok(Prepared(None));
        };
        let settings = file::load(file)?;
        if let Some(running) = self.running.load_full()
            && running.settings == settings
        {
            return Ok(Prepared(Some(running)));
        }
        let provider = export::provider(&settings, &self.metrics)?;
        Ok(Prepared(Some(Arc::new(Running {
            tracer: provider.tracer(SCOPE),
            settings,
            provider,
        }))))
    }

    /// Puts the new settings in force for all further requests. If the collector
    /// changes, the spans of open requests are lost.
    pub fn apply(&self, Prepared(next): Prepared) {
        let same = |old: &Arc<Running>| next.as_ref().is_some_and(|next| Arc::ptr_eq(old, next));
        let old = self.running.load_full().filter(|old| !same(old));
        self.running.store(next);
        if let Some(old) = old {
            tokio::task::spawn_blocking(move || old.stop());
        }
    }

    /// Begins the span of a request. `None` if there are no spans; `beginning` is
    /// then not called.
    pub fn begin<'r>(&self, beginning: impl FnOnce() -> Beginning<'r>) -> Option<Box<RequestSpan>> {
        let running = self.running.load();
        let tracer = running.as_ref()?.tracer.clone();
        Some(Box::new(RequestSpan::begin(tracer, &beginning())))
    }

    /// Waits for the collector to accept all spans, for at most [`FLUSH_WITHIN`].
    pub async fn stop(&self) {
        let Some(running) = self.running.swap(None) else {
            return;
        };
        // The thread ends within the same time. An error would be its panic.
        let _ended = tokio::task::spawn_blocking(move || running.stop()).await;
    }
}

impl Running {
    /// Sends queued spans, and ends the thread. Blocks.
    fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_WITHIN) {
            tracing::warn!(%error, "spans were lost: not sent to the collector before the end");
        }
    }
}
