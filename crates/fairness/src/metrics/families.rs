//! The names and help texts of `apiserver_flowcontrol_*`, which dashboards know
//! (k8s.io/apiserver `util/flowcontrol/metrics`).

use std::collections::BTreeMap;

use prometheus::proto::MetricType::{self, COUNTER, GAUGE, HISTOGRAM};
use prometheus::proto::{Bucket, Counter, Gauge, LabelPair, Metric, MetricFamily};

use crate::histogram::Histogram;

pub(super) struct Family {
    pub name: &'static str,
    pub help: &'static str,
    kind: MetricType,
}

const fn family(kind: MetricType, name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind }
}

pub(super) const REJECTED: Family = family(
    COUNTER,
    "apiserver_flowcontrol_rejected_requests_total",
    "Number of requests rejected by API Priority and Fairness subsystem",
);
pub(super) const DISPATCHED: Family = family(
    COUNTER,
    "apiserver_flowcontrol_dispatched_requests_total",
    "Number of requests executed by API Priority and Fairness subsystem",
);
pub(super) const INQUEUE_REQUESTS: Family = family(
    GAUGE,
    "apiserver_flowcontrol_current_inqueue_requests",
    "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
);
pub(super) const INQUEUE_SEATS: Family = family(
    GAUGE,
    "apiserver_flowcontrol_current_inqueue_seats",
    "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
);
pub(super) const QUEUE_LENGTH: Family = family(
    HISTOGRAM,
    "apiserver_flowcontrol_request_queue_length_after_enqueue",
    "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
);
pub(super) const EXECUTING_REQUESTS: Family = family(
    GAUGE,
    "apiserver_flowcontrol_current_executing_requests",
    "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem",
);
pub(super) const EXECUTING_SEATS: Family = family(
    GAUGE,
    "apiserver_flowcontrol_current_executing_seats",
    "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem",
);
pub(super) const WAITED: Family = family(
    HISTOGRAM,
    "apiserver_flowcontrol_request_wait_duration_seconds",
    "Length of time a request spent waiting in its queue",
);
pub(super) const EXECUTED: Family = family(
    HISTOGRAM,
    "apiserver_flowcontrol_request_execution_seconds",
    "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem",
);
pub(super) const ESTIMATED_SEATS: Family = family(
    HISTOGRAM,
    "apiserver_flowcontrol_work_estimated_seats",
    "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness",
);
pub(super) const NO_ACCOMMODATION: Family = family(
    COUNTER,
    "apiserver_flowcontrol_request_dispatch_no_accommodation_total",
    "Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats",
);
pub(super) const EPOCHS: Family = family(
    COUNTER,
    "apiserver_flowcontrol_epoch_advance_total",
    "Number of times the queueset's progress meter jumped backward",
);
pub(super) const CURRENT_R: Family = family(
    GAUGE,
    "apiserver_flowcontrol_current_r",
    "R(time of last change)",
);
pub(super) const DISPATCH_R: Family = family(
    GAUGE,
    "apiserver_flowcontrol_dispatch_r",
    "R(time of last dispatch)",
);
pub(super) const LATEST_S: Family = family(
    GAUGE,
    "apiserver_flowcontrol_latest_s",
    "S(most recently dispatched request)",
);
pub(super) const NEXT_S: Family = family(
    GAUGE,
    "apiserver_flowcontrol_next_s_bounds",
    "min and max, over queues, of S(oldest waiting request in queue)",
);
pub(super) const NEXT_DISCOUNTED_S: Family = family(
    GAUGE,
    "apiserver_flowcontrol_next_discounted_s_bounds",
    "min and max, over queues, of S(oldest waiting request in queue) - estimated work in progress",
);
pub(super) const NOMINAL_LIMIT: Family = family(
    GAUGE,
    "apiserver_flowcontrol_nominal_limit_seats",
    "Nominal number of execution seats configured for each priority level",
);
pub(super) const LOWER_LIMIT: Family = family(
    GAUGE,
    "apiserver_flowcontrol_lower_limit_seats",
    "Configured lower bound on number of execution seats available to each priority level",
);
pub(super) const UPPER_LIMIT: Family = family(
    GAUGE,
    "apiserver_flowcontrol_upper_limit_seats",
    "Configured upper bound on number of execution seats available to each priority level",
);
pub(super) const CURRENT_LIMIT: Family = family(
    GAUGE,
    "apiserver_flowcontrol_current_limit_seats",
    "current derived number of execution seats available to each priority level",
);
pub(super) const DEMAND_HIGH_WATERMARK: Family = family(
    GAUGE,
    "apiserver_flowcontrol_demand_seats_high_watermark",
    "High watermark, over last adjustment period, of demand_seats",
);
pub(super) const DEMAND_AVERAGE: Family = family(
    GAUGE,
    "apiserver_flowcontrol_demand_seats_average",
    "Time-weighted average, over last adjustment period, of demand_seats",
);
pub(super) const DEMAND_DEVIATION: Family = family(
    GAUGE,
    "apiserver_flowcontrol_demand_seats_stdev",
    "Time-weighted standard deviation, over last adjustment period, of demand_seats",
);
pub(super) const DEMAND_SMOOTHED: Family = family(
    GAUGE,
    "apiserver_flowcontrol_demand_seats_smoothed",
    "Smoothed seat demands",
);
pub(super) const TARGET: Family = family(
    GAUGE,
    "apiserver_flowcontrol_target_seats",
    "Seat allocation targets",
);
pub(super) const FAIR_FRACTION: Family = family(
    GAUGE,
    "apiserver_flowcontrol_seat_fair_frac",
    "Fair fraction of server's concurrency to allocate to each priority level that can use it",
);
pub(super) const SEAT_UTILIZATION: Family = family(
    HISTOGRAM,
    "apiserver_flowcontrol_priority_level_seat_utilization",
    "Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)",
);
pub(super) const REQUEST_UTILIZATION: Family = family(
    HISTOGRAM,
    "apiserver_flowcontrol_priority_level_request_utilization",
    "Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)",
);
pub(super) const DEMAND: Family = family(
    HISTOGRAM,
    "apiserver_flowcontrol_demand_seats",
    "Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (nominal number of seats for that level)",
);

pub(super) const ALL: [&Family; 30] = [
    &REJECTED,
    &DISPATCHED,
    &INQUEUE_REQUESTS,
    &INQUEUE_SEATS,
    &QUEUE_LENGTH,
    &EXECUTING_REQUESTS,
    &EXECUTING_SEATS,
    &WAITED,
    &EXECUTED,
    &ESTIMATED_SEATS,
    &NO_ACCOMMODATION,
    &EPOCHS,
    &CURRENT_R,
    &DISPATCH_R,
    &LATEST_S,
    &NEXT_S,
    &NEXT_DISCOUNTED_S,
    &NOMINAL_LIMIT,
    &LOWER_LIMIT,
    &UPPER_LIMIT,
    &CURRENT_LIMIT,
    &DEMAND_HIGH_WATERMARK,
    &DEMAND_AVERAGE,
    &DEMAND_DEVIATION,
    &DEMAND_SMOOTHED,
    &TARGET,
    &FAIR_FRACTION,
    &SEAT_UTILIZATION,
    &REQUEST_UTILIZATION,
    &DEMAND,
];

pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// The families that are being collected.
#[derive(Default)]
pub(super) struct Families(BTreeMap<&'static str, MetricFamily>);

impl Families {
    pub(super) fn into_vec(self) -> Vec<MetricFamily> {
        self.0.into_values().collect()
    }

    pub(super) fn number(&mut self, family: &Family, labels: Labels<'_>, value: f64) {
        let mut metric = Metric::default();
        if family.kind == COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.add(family, labels, metric);
    }

    /// Adds a count. A series whose count is 0 does not exist yet.
    pub(super) fn count(&mut self, family: &Family, labels: Labels<'_>, count: u64) {
        if count > 0 {
            self.number(family, labels, count as f64);
        }
    }

    /// Adds a histogram. One without observations does not exist yet.
    pub(super) fn histogram(&mut self, family: &Family, labels: Labels<'_>, from: &Histogram) {
        if from.count() == 0 {
            return;
        }
        let mut histogram = prometheus::proto::Histogram::default();
        histogram.set_sample_count(from.count());
        histogram.set_sample_sum(from.sum());
        let bucket = |(bound, count): (f64, u64)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(count);
            bucket
        };
        histogram.set_bucket(from.cumulative().map(bucket).collect());
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        self.add(family, labels, metric);
    }

    fn add(&mut self, family: &Family, labels: Labels<'_>, mut metric: Metric) {
        let mut pairs: Vec<LabelPair> = labels
            .iter()
            .map(|(name, value)| {
                let mut pair = LabelPair::default();
                pair.set_name((*name).to_owned());
                pair.set_value((*value).to_owned());
                pair
            })
            .collect();
        pairs.sort_by(|a, b| a.name().cmp(b.name()));
        metric.set_label(pairs);
        let entry = self.0.entry(family.name).or_insert_with(|| {
            let mut new = MetricFamily::default();
            new.set_name(family.name.to_owned());
            new.set_help(family.help.to_owned());
            new.set_field_type(family.kind);
            new
        });
        entry.mut_metric().push(metric);
    }
}
