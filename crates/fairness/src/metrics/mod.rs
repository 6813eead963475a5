//! The metrics `apiserver_flowcontrol_*`. They are computed from the levels at each
//! scrape. So a request need not look for its series, and the series of removed
//! levels and schemas disappear.

mod families;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use crate::controller::{Controller, LevelState};
use crate::queue_set::reading::Reading;
use crate::queue_set::statistics::SchemaStatistics;
use crate::rejected::Rejected;
use families::Families;

/// The metrics of one [`crate::Fairness`].
#[derive(Clone)]
pub struct FairnessMetrics {
    source: Arc<OnceLock<Weak<Mutex<Controller>>>>,
}

impl FairnessMetrics {
    /// Registers the metrics. They are empty until they are given to a
    /// [`crate::Fairness`].
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            source: Arc::default(),
        };
        let families = families::ALL.iter();
        let describe = |family: &&families::Family| {
            let (name, help) = (family.name.to_owned(), family.help.to_owned());
            Desc::new(name, help, Vec::new(), HashMap::new())
        };
        registry.register(Box::new(Reader {
            source: metrics.source.clone(),
            descriptions: families.map(describe).collect::<Result<_, _>>()?,
        }))?;
        Ok(metrics)
    }

    /// Reads from this configuration from now on. Only the first call has an
    /// effect.
    pub(crate) fn observe(&self, controller: &Arc<Mutex<Controller>>) {
        let _ = self.source.set(Arc::downgrade(controller));
    }
}

struct Reader {
    source: Arc<OnceLock<Weak<Mutex<Controller>>>>,
    descriptions: Vec<Desc>,
}

impl Collector for Reader {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = Families::default();
        if let Some(controller) = self.source.get().and_then(Weak::upgrade) {
            let controller = controller.lock();
            for (name, state) in controller.levels() {
                level(&mut families, name, state);
                let reading = state.level.change(|set, now| set.read_metrics(now));
                queues(&mut families, name, &reading);
                for of_schema in &reading.schemas {
                    schema(&mut families, name, of_schema);
                }
            }
            let fraction = controller.fair_fraction();
            families.number(&families::FAIR_FRACTION, &[], fraction);
        }
        families.into_vec()
    }
}

fn level(families: &mut Families, name: &str, state: &LevelState) {
    let labels = [("priority_level", name)];
    let (limits, demand) = (state.limits, state.demand);
    let numbers = [
        (&families::NOMINAL_LIMIT, limits.nominal as f64),
        (&families::LOWER_LIMIT, limits.lower as f64),
        (&families::UPPER_LIMIT, limits.upper as f64),
        (&families::CURRENT_LIMIT, state.current as f64),
        (
            &families::DEMAND_HIGH_WATERMARK,
            demand.high_watermark as f64,
        ),
        (&families::DEMAND_AVERAGE, demand.average),
        (&families::DEMAND_DEVIATION, demand.deviation),
        (&families::DEMAND_SMOOTHED, demand.smoothed),
    ];
    for (family, number) in numbers {
        families.number(family, &labels, number);
    }
    if let Some(target) = state.target {
        families.number(&families::TARGET, &labels, target);
    }
}

fn queues(families: &mut Families, name: &str, reading: &Reading) {
    let level = ("priority_level", name);
    let executing = [("phase", "executing"), level];
    let waiting = [("phase", "waiting"), level];
    families.histogram(&families::SEAT_UTILIZATION, &executing, &reading.seats);
    families.histogram(
        &families::REQUEST_UTILIZATION,
        &executing,
        &reading.executing,
    );
    families.histogram(&families::REQUEST_UTILIZATION, &waiting, &reading.waiting);
    families.histogram(&families::DEMAND, &[level], &reading.demand);
    families.number(&families::CURRENT_R, &[level], reading.r.as_f64());
    let (advanced, failed) = reading.epochs;
    families.count(&families::EPOCHS, &[level, ("success", "true")], advanced);
    families.count(&families::EPOCHS, &[level, ("success", "false")], failed);
    let Some(dispatch) = reading.dispatch else {
        return;
    };
    families.number(&families::DISPATCH_R, &[level], dispatch.now.as_f64());
    families.number(&families::LATEST_S, &[level], dispatch.latest.as_f64());
    for (family, (least, most)) in [
        (&families::NEXT_S, dispatch.next),
        (&families::NEXT_DISCOUNTED_S, dispatch.next_discounted),
    ] {
        families.number(family, &[level, ("bound", "min")], least.as_f64());
        families.number(family, &[level, ("bound", "max")], most.as_f64());
    }
}

fn schema(families: &mut Families, level: &str, of: &SchemaStatistics) {
    let (level, schema) = (("priority_level", level), ("flow_schema", of.name.as_str()));
    let labels = [level, schema];
    for (reason, count) in Rejected::ALL.iter().zip(of.rejected) {
        let labels = [level, schema, ("reason", reason.as_str())];
        families.count(&families::REJECTED, &labels, count);
    }
    families.count(&families::DISPATCHED, &labels, of.dispatched);
    families.count(&families::NO_ACCOMMODATION, &labels, of.no_accommodation);
    if of.queue_length.count() > 0 {
        let (requests, seats) = (of.waiting_requests as f64, of.waiting_seats as f64);
        families.number(&families::INQUEUE_REQUESTS, &labels, requests);
        families.number(&families::INQUEUE_SEATS, &labels, seats);
    }
    if of.dispatched > 0 {
        let (requests, seats) = (of.executing_requests as f64, of.executing_seats as f64);
        families.number(&families::EXECUTING_REQUESTS, &labels, requests);
        families.number(&families::EXECUTING_SEATS, &labels, seats);
    }
    families.histogram(&families::QUEUE_LENGTH, &labels, &of.queue_length);
    families.histogram(&families::ESTIMATED_SEATS, &labels, &of.estimated_seats);
    for (execute, histogram) in [("true", &of.waited), ("false", &of.waited_for_nothing)] {
        let labels = [level, schema, ("execute", execute)];
        families.histogram(&families::WAITED, &labels, histogram);
    }
    for (kind, histogram) in [("regular", &of.executed), ("watch", &of.executed_watch)] {
        let labels = [level, schema, ("type", kind)];
        families.histogram(&families::EXECUTED, &labels, histogram);
    }
}
