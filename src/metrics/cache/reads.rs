//! Counts of reads, read back from the metrics.

use kubernetes_wire::api::GroupVersionResource;
use prometheus::proto::Metric;

use super::CacheResult;

/// The reads of a resource with one verb and one result.
#[derive(Clone, Debug)]
pub struct Reads {
    pub gvr: GroupVersionResource,
    pub verb: String,
    /// Empty if the cache answered alone.
    pub reason: String,
    result: String,
    pub count: u64,
}

impl Reads {
    /// Tells whether the cache answered.
    pub fn is_hit(&self) -> bool {
        self.result == CacheResult::Hit.as_str()
    }

    pub(super) fn of_series(metric: &Metric) -> Self {
        let mut reads = Self {
            gvr: GroupVersionResource::new("", "", ""),
            verb: String::new(),
            reason: String::new(),
            result: String::new(),
            // Counters are whole numbers below 2^53.
            count: metric.get_counter().get_value() as u64,
        };
        for label in metric.get_label() {
            let value = label.value().to_owned();
            match label.name() {
                "group" => reads.gvr.group = value,
                "version" => reads.gvr.version = value,
                "resource" => reads.gvr.resource = value,
                "verb" => reads.verb = value,
                "reason" => reads.reason = value,
                "result" => reads.result = value,
                _ => {}
            }
        }
        reads
    }
}
