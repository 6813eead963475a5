//! A clock that tests set, and helpers for requests and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use kubernetes_wire::api::{Query, UserInfo};
use kubernetes_wire::request::RequestInfo;
use prometheus::Registry;
use prometheus::proto::MetricType;

use crate::clock::{Clock, Time};
use crate::{Classification, Fairness, FairnessMetrics, Objects, Settings};

/// A clock that stands still until a test sets it.
#[derive(Default)]
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn pass(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap();
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }

    fn unix(&self, time: Time) -> Duration {
        Duration::from_secs(1_000_000) + Duration::from_nanos(time.0)
    }
}

/// An engine with a clock of its own, and the registry of its metrics.
pub(crate) fn engine(total_seats: usize) -> (Arc<Fairness>, Arc<TestClock>, Registry) {
    let registry = Registry::new();
    let metrics = FairnessMetrics::register(&registry).unwrap();
    let clock = Arc::new(TestClock::default());
    let settings = Settings { total_seats };
    let fairness = Fairness::with_clock(settings, metrics, clock.clone());
    (fairness, clock, registry)
}

pub(crate) fn info(method: &str, target: &str) -> RequestInfo {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let method: Method = method.parse().unwrap();
    RequestInfo::parse(&method, path, &Query::parse(query)).unwrap()
}

pub(crate) fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    }
}

pub(crate) fn classify(fairness: &Fairness, info: RequestInfo, user: &UserInfo) -> Classification {
    fairness.classify(Arc::new((info, user.clone()))).unwrap()
}

/// Pseudo-random numbers that are easy to repeat in any language.
pub(crate) struct Lcg(pub u64);

impl Lcg {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A level named `busy` with a fixed number of seats. Its schema `busy` matches all
/// requests and takes each user for a flow. It neither lends nor borrows. The
/// engine needs [`total_seats`].
pub(crate) fn busy(queues: i32, hand_size: i32, length_limit: i32) -> Objects {
    let level = format!(
        r#"{{"metadata":{{"name":"busy","uid":"level-uid"}},"spec":{{"type":"Limited","limited":
        {{"nominalConcurrencyShares":10,"lendablePercent":0,"limitResponse":{{"type":"Queue",
        "queuing":{{"queues":{queues},"handSize":{hand_size},
        "queueLengthLimit":{length_limit}}}}}}}}}}}"#
    );
    let schema = r#"{"metadata":{"name":"busy","uid":"schema-uid"},"spec":
        {"priorityLevelConfiguration":{"name":"busy"},"matchingPrecedence":5,
        "distinguisherMethod":{"type":"ByUser"},"rules":[{"subjects":
        [{"kind":"Group","group":{"name":"*"}}],"resourceRules":[{"verbs":["*"],
        "apiGroups":["*"],"resources":["*"],"namespaces":["*"],"clusterScope":true}]}]}}"#;
    Objects {
        flow_schemas: vec![serde_json::from_str(schema).unwrap()],
        priority_levels: vec![serde_json::from_str(&level).unwrap()],
    }
}

/// The seats of an engine whose level `busy` has `busy` seats, an even number. The
/// catch-all level has a third of the total.
pub(crate) fn total_seats(busy: usize) -> usize {
    busy / 2 * 3
}

/// The value of the series that has these labels and perhaps others. For a
/// histogram, its count.
pub(crate) fn series(registry: &Registry, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name)?;
    let metric = family.get_metric().iter().find(|metric| {
        let has = |(name, value): &(&str, &str)| {
            let mut pairs = metric.get_label().iter();
            pairs.any(|pair| pair.name() == *name && pair.value() == *value)
        };
        labels.iter().all(has)
    })?;
    Some(match family.get_field_type() {
        MetricType::COUNTER => metric.get_counter().get_value(),
        MetricType::GAUGE => metric.get_gauge().get_value(),
        _ => metric.get_histogram().get_sample_count() as f64,
    })
}
