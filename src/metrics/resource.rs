//! The series of one resource, looked up once.
//!
//! Hashing a label set of nine strings costs more than sending a small answer. So a
//! resource keeps its series in an array by verb, scope and dry run. Each cell is
//! filled at its first use.

use std::sync::OnceLock;
use std::time::Duration;

use kubernetes_wire::request::metric_labels::{DryRun, ScopeLabel, Verb};
use parking_lot::RwLock;
use prometheus::{Histogram, IntCounter, IntGauge};

use super::KnownName;
use super::request::Vectors;

type Cells = [[[OnceLock<Box<Series>>; DryRun::COUNT]; ScopeLabel::COUNT]; Verb::COUNT];

pub struct ResourceMetrics {
    vectors: Vectors,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    component: &'static str,
    cells: Cells,
    watch_events: OnceLock<WatchEvents>,
}

struct Series {
    /// Counters by response code, in a list because there are few codes.
    total: RwLock<Vec<(u16, IntCounter)>>,
    duration: Histogram,
    sli_duration: Histogram,
    /// `None` for verbs other than GET and LIST.
    sizes: Option<Histogram>,
}

#[derive(Clone, Copy, Debug)]
pub struct RequestOutcome {
    pub code: u16,
    /// The time since the request arrived.
    pub elapsed: Duration,
    pub response_bytes: u64,
}

#[derive(Clone)]
pub struct WatchEvents {
    events: IntCounter,
    sizes: Histogram,
    delivery: Histogram,
}

impl WatchEvents {
    pub fn sent(&self, bytes: usize) {
        self.events.inc();
        self.sizes.observe(bytes as f64);
    }

    /// Like [`sent`](Self::sent), for `number` events of one size.
    pub fn sent_to_many(&self, bytes: usize, number: u64) {
        self.events.inc_by(number);
        observe_often(&self.sizes, bytes as f64, number);
    }

    /// Like [`delivered`](Self::delivered), for `number` batches.
    pub fn delivered_to_many(&self, waited: Duration, number: u64) {
        observe_often(&self.delivery, waited.as_secs_f64(), number);
    }

    /// Measures a batch by the waiting time of its oldest event.
    pub fn delivered(&self, waited: Duration) {
        self.delivery.observe(waited.as_secs_f64());
    }
}

/// Observes a value `number` times, and writes to the shared histogram only once.
fn observe_often(histogram: &Histogram, value: f64, number: u64) {
    let local = histogram.local();
    for _ in 0..number {
        local.observe(value);
    }
    local.flush();
}

/// Counts a long-running request until this is dropped.
pub struct LongRunning(IntGauge);

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl ResourceMetrics {
    /// Makes the metrics of a resource. All unknown resources share the metrics
    /// without a name.
    pub(super) fn new(vectors: Vectors, name: Option<&KnownName>) -> Self {
        let label = |of: fn(&KnownName) -> &str| name.map(of).unwrap_or_default().to_owned();
        Self {
            vectors,
            group: label(|name| &name.gvr().group),
            version: label(|name| &name.gvr().version),
            resource: label(|name| &name.gvr().resource),
            subresource: label(KnownName::subresource),
            component: "apiserver",
            cells: Cells::default(),
            watch_events: OnceLock::new(),
        }
    }

    pub(super) fn of_path(vectors: Vectors, path: &'static str) -> Self {
        Self {
            subresource: path.to_owned(),
            component: "",
            ..Self::new(vectors, None)
        }
    }

    /// Counts a finished request, watches included. While all requests with the same
    /// verb, scope and dry run were refused, they are only counted, not measured: a
    /// refusal costs its caller nothing, but histograms cost much memory. Health
    /// checks have no component and are always measured.
    pub fn observe(&self, verb: Verb, scope: ScopeLabel, dry_run: DryRun, outcome: RequestOutcome) {
        let of_verb = self.cells.get(verb as usize);
        let of_scope = of_verb.and_then(|cells| cells.get(scope as usize));
        let Some(cell) = of_scope.and_then(|cells| cells.get(dry_run as usize)) else {
            return;
        };
        if is_refusal(outcome.code) && !self.component.is_empty() && cell.get().is_none() {
            self.total(verb, scope, dry_run, outcome.code).inc();
            return;
        }
        let series = cell.get_or_init(|| Box::new(self.series(verb, scope, dry_run)));
        let seconds = outcome.elapsed.as_secs_f64();
        series.duration.observe(seconds);
        series.sli_duration.observe(seconds);
        if let Some(sizes) = &series.sizes {
            sizes.observe(outcome.response_bytes as f64);
        }
        let code = outcome.code;
        if let Some((_, counter)) = series.total.read().iter().find(|(c, _)| *c == code) {
            counter.inc();
            return;
        }
        let counter = self.total(verb, scope, dry_run, code);
        counter.inc();
        let mut total = series.total.write();
        // An upstream may answer with any number. Those that are no status codes
        // share one series.
        if (100..600).contains(&code) && !total.iter().any(|(c, _)| *c == code) {
            total.push((code, counter));
        }
    }

    fn total(&self, verb: Verb, scope: ScopeLabel, dry_run: DryRun, code: u16) -> IntCounter {
        let seven = self.seven(verb, scope);
        let label = code_label(code);
        let labels = [&seven[..], &[dry_run.as_str(), &label]].concat();
        self.vectors.total.with_label_values(&labels)
    }

    pub fn long_running(&self, verb: Verb, scope: ScopeLabel) -> LongRunning {
        let gauge = self
            .vectors
            .long_running
            .with_label_values(&self.seven(verb, scope));
        gauge.inc();
        LongRunning(gauge)
    }

    /// Counts a request that was refused or cut short to protect the server.
    pub fn termination(&self, verb: Verb, scope: ScopeLabel, code: u16) {
        let seven = self.seven(verb, scope);
        let code = code_label(code);
        let labels = [&seven[..], &[code.as_str()]].concat();
        self.vectors.terminations.with_label_values(&labels).inc();
    }

    /// Counts a response that was broken off.
    pub fn abort(&self, verb: Verb, scope: ScopeLabel) {
        let seven = self.seven(verb, scope);
        self.vectors.aborts.with_label_values(&seven[..6]).inc();
    }

    /// Measures a watch that has sent all initial events.
    pub fn watch_list(&self, scope: ScopeLabel, elapsed: Duration) {
        self.vectors
            .watch
            .list_duration
            .with_label_values(&[&self.group, &self.version, &self.resource, scope.as_str()])
            .observe(elapsed.as_secs_f64());
    }

    pub fn watch_events(&self) -> &WatchEvents {
        self.watch_events.get_or_init(|| {
            let gvr = [&self.group, &self.version, &self.resource];
            WatchEvents {
                events: self.vectors.watch.events.with_label_values(&gvr),
                sizes: self.vectors.watch.event_sizes.with_label_values(&gvr),
                delivery: self.vectors.watch.delivery.with_label_values(&gvr),
            }
        })
    }

    fn series(&self, verb: Verb, scope: ScopeLabel, dry_run: DryRun) -> Series {
        let seven = self.seven(verb, scope);
        let eight = [&seven[..], &[dry_run.as_str()]].concat();
        Series {
            total: RwLock::default(),
            duration: self.vectors.duration.with_label_values(&eight),
            sli_duration: self.vectors.sli_duration.with_label_values(&seven),
            sizes: matches!(verb, Verb::Get | Verb::List)
                .then(|| self.vectors.sizes.with_label_values(&seven)),
        }
    }

    /// Returns seven label values in the order of the vectors' labels.
    fn seven(&self, verb: Verb, scope: ScopeLabel) -> [&str; 7] {
        [
            verb.as_str(),
            &self.group,
            &self.version,
            &self.resource,
            &self.subresource,
            scope.as_str(),
            self.component,
        ]
    }
}

/// Tells whether the request ended before anything was done that needs a right.
fn is_refusal(code: u16) -> bool {
    matches!(code, 0 | 401 | 403 | 429 | 499) || code >= 500
}

fn code_label(code: u16) -> String {
    if (100..600).contains(&code) {
        code.to_string()
    } else {
        "other".to_owned()
    }
}
