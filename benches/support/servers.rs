//! kube-apiserver and apifront before it, both on one core, the client on the
//! other.

use std::time::{Duration, Instant};

use super::{cores, usage};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::{Cluster, sum_metric};

pub struct Servers {
    pub cluster: Cluster,
    pub apifront: Apifront,
}

/// One of the two, as its user sees it.
pub struct Server {
    pub name: &'static str,
    pub client: Client,
    pub pid: u32,
}

impl Server {
    pub fn cpu(&self) -> Duration {
        usage::cpu_time(self.pid)
    }

    pub fn resident_megabytes(&self) -> f64 {
        usage::resident_bytes(self.pid) as f64 / (1 << 20) as f64
    }

    /// Asked over a protocol, on connections of its own.
    pub fn over(&self, protocol: Protocol) -> Self {
        Self {
            client: self.client.over(protocol),
            ..*self
        }
    }

    /// A connection of its own, open: a measurement does not begin with
    /// handshakes.
    pub async fn connection(&self) -> Client {
        let client = self.client.separate();
        assert_eq!(client.get("/livez").await.status, 200);
        client
    }
}

/// What some work cost.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    pub apifront: Duration,
    pub apiserver: Duration,
}

impl Servers {
    /// Before a new cluster with what `fill` creates in it.
    pub async fn start(flags: &[String], fill: impl AsyncFnOnce(&Client)) -> Self {
        let cluster = Cluster::start(flags).await;
        let began = Instant::now();
        fill(&cluster.admin_client()).await;
        println!("cluster filled in {:.0?}", began.elapsed());
        cores::pin(cluster.apiserver.pid(), cores::SERVER);
        cores::pin(std::process::id(), cores::SERVER);
        let apifront = Apifront::start(&cluster, |_| {}).await;
        cores::pin(std::process::id(), cores::CLIENT);
        Self { cluster, apifront }
    }

    pub fn direct(&self) -> Server {
        Server {
            name: "kube-apiserver",
            client: self.cluster.admin_client(),
            pid: self.cluster.apiserver.pid(),
        }
    }

    pub fn front(&self) -> Server {
        Server {
            name: "apifront",
            client: self.apifront.admin_client(),
            pid: self.apifront.process.pid(),
        }
    }

    /// Waits until apifront holds all of the resource. Asks for nothing of it:
    /// what is warm is the store, no encoding.
    pub async fn warm(&self, resource: &str) {
        let path = format!("/api/v1/namespaces/none/{resource}?resourceVersion=0");
        self.apifront
            .warm(&self.apifront.admin_client(), &path)
            .await;
    }

    pub async fn measure<T>(&self, work: impl Future<Output = T>) -> (T, Cost) {
        let (ours, theirs) = (self.front(), self.direct());
        let before = (ours.cpu(), theirs.cpu());
        let began = Instant::now();
        let done = work.await;
        let cost = Cost {
            wall: began.elapsed(),
            apifront: ours.cpu() - before.0,
            apiserver: theirs.cpu() - before.1,
        };
        (done, cost)
    }

    /// Lists and watches that kube-apiserver has begun to answer, of a
    /// resource.
    pub async fn reads(&self, resource: &str) -> Reads {
        let text = self.cluster.admin_client().get("/metrics").await.text();
        let sum =
            |metric, verb| sum_metric(&text, metric, &[("resource", resource), ("verb", verb)]);
        Reads {
            lists: sum("apiserver_request_total", "LIST"),
            // Counted when they end; those that last are a gauge.
            watches: sum("apiserver_request_total", "WATCH")
                + sum("apiserver_longrunning_requests", "WATCH"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Reads {
    pub lists: f64,
    pub watches: f64,
}

impl Reads {
    pub fn since(self, before: Self) -> Self {
        Self {
            lists: self.lists - before.lists,
            watches: self.watches - before.watches,
        }
    }

    pub fn all(self) -> f64 {
        self.lists + self.watches
    }
}
