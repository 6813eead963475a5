//! What a program cost the servers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::harness::apifront::{Apifront, upstream_requests};
use crate::harness::cluster::{Cluster, sum_metric};
use crate::harness::process::cpu_time;

/// CPU times of the servers, and the numbers of requests.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    pub took: Duration,
    pub apiserver: Duration,
    pub apifront: Duration,
    /// All requests that kube-apiserver answered, of everybody.
    pub answered: f64,
    /// Reads that apifront's cache could answer, and those that it answered.
    pub reads: f64,
    pub hits: f64,
    /// apifront's requests to kube-apiserver, by kind.
    pub upstream: BTreeMap<&'static str, f64>,
}

/// The state of the counters at one moment.
pub struct Moment {
    at: Instant,
    cost: Cost,
}

impl Moment {
    pub async fn now(cluster: &Cluster, front: Option<&Apifront>) -> Self {
        let text = cluster.admin_client().get("/metrics").await.text();
        let mut cost = Cost {
            apiserver: cpu_time(cluster.apiserver.pid()),
            answered: sum_metric(&text, "apiserver_request_total", &[]),
            ..Cost::default()
        };
        if let Some(front) = front {
            let text = front.metrics().await;
            let reads = |labels| sum_metric(&text, "apifront_cache_requests_total", labels);
            cost.apifront = cpu_time(front.process.pid());
            cost.reads = reads(&[]);
            cost.hits = reads(&[("result", "hit")]);
            cost.upstream = upstream_requests(&text);
        }
        Self {
            at: Instant::now(),
            cost,
        }
    }

    /// Returns this moment for an apifront that counts from nothing since.
    pub fn with_new_apifront(self) -> Self {
        let cost = Cost {
            apiserver: self.cost.apiserver,
            answered: self.cost.answered,
            ..Cost::default()
        };
        Self { cost, ..self }
    }

    pub fn since(&self, before: &Self) -> Cost {
        let mut upstream = self.cost.upstream.clone();
        for (kind, count) in &mut upstream {
            *count -= before.cost.upstream.get(kind).copied().unwrap_or_default();
        }
        Cost {
            took: self.at - before.at,
            apiserver: self.cost.apiserver - before.cost.apiserver,
            apifront: self.cost.apifront - before.cost.apifront,
            answered: self.cost.answered - before.cost.answered,
            reads: self.cost.reads - before.cost.reads,
            hits: self.cost.hits - before.cost.hits,
            upstream,
        }
    }
}

impl Cost {
    /// Adds what it cost after a server was started again.
    pub fn add(&mut self, more: Self) {
        self.took += more.took;
        self.apiserver += more.apiserver;
        self.apifront += more.apifront;
        self.answered += more.answered;
        self.reads += more.reads;
        self.hits += more.hits;
        for (kind, count) in more.upstream {
            *self.upstream.entry(kind).or_default() += count;
        }
    }
}
