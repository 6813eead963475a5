//! Runs kube-apiserver, and apifront before it, on one core, and the client on the
//! other.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{cores, usage};
use harness::apifront::Apifront;
use harness::client::{Client, Protocol};
use harness::cluster::{Cluster, sum_metric};

pub struct Servers {
    pub cluster: Cluster,
    pub apifront: Apifront,
}

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

    /// Returns the same server with a client for another protocol, on its own
    /// connections.
    pub fn over(&self, protocol: Protocol) -> Self {
        Self {
            client: self.client.over(protocol),
            ..*self
        }
    }

    /// Opens a new connection, so that no measurement begins with a handshake.
    pub async fn connection(&self) -> Client {
        let client = self.client.separate();
        assert_eq!(client.get("/livez").await.status, 200);
        client
    }
}

/// The cost of some work: wall time, and the CPU time of each server.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    pub apifront: Duration,
    pub apiserver: Duration,
}

/// Lets clients have objects without managedFields.
fn served(config: &mut Value) {
    config["cache"]["dropManagedFields"] = json!("Always");
}

impl Servers {
    /// Starts apifront before a new cluster, which `fill` fills with objects.
    pub async fn start(flags: &[String], fill: impl AsyncFnOnce(&Client)) -> Self {
        let cluster = Cluster::start(flags).await;
        let began = Instant::now();
        fill(&cluster.admin_client()).await;
        println!("cluster filled in {:.0?}", began.elapsed());
        cores::pin(cluster.apiserver.pid(), cores::SERVER);
        cores::pin(std::process::id(), cores::SERVER);
        let apifront = Apifront::start(&cluster, served).await;
        cores::pin(std::process::id(), cores::CLIENT);
        Self { cluster, apifront }
    }

    /// Does the same as [`Servers::start`], with all processes on all cores.
    pub async fn start_anywhere(fill: impl AsyncFnOnce(&Client)) -> Self {
        let cluster = Cluster::start(&[]).await;
        fill(&cluster.admin_client()).await;
        let apifront = Apifront::start(&cluster, served).await;
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

    /// Waits until apifront holds the whole resource. The question lists no objects,
    /// so the store is filled but no encoding is made.
    pub async fn warm(&self, resource: &str) {
        let path = format!("/api/v1/namespaces/none/{resource}?resourceVersion=0");
        self.apifront
            .warm(&self.apifront.admin_client(), &path)
            .await;
    }

    /// Waits until both servers do next to nothing. After it has given out many objects,
    /// kube-apiserver works on for a while, on the core that both share.
    pub async fn rest(&self) {
        const INTERVAL: Duration = Duration::from_secs(1);
        const IDLE: Duration = Duration::from_millis(50);
        let cpu = || self.direct().cpu() + self.front().cpu();
        for _ in 0..120 {
            let before = cpu();
            tokio::time::sleep(INTERVAL).await;
            if cpu().saturating_sub(before) < IDLE {
                return;
            }
        }
        panic!("the servers do not come to rest");
    }

    pub async fn configure(&self, change: impl FnOnce(&mut Value)) {
        let mut config = self.apifront.read_config();
        change(&mut config);
        if config == self.apifront.read_config() {
            return;
        }
        let name = "apifront_config_reloads_total";
        let reloads = async || self.apifront.metric(name, &[("result", "success")]).await;
        let before = reloads().await;
        self.apifront.write_config(&config);
        while reloads().await <= before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
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

    /// Returns the number of lists and watches of a resource that kube-apiserver has
    /// begun to answer.
    pub async fn reads(&self, resource: &str) -> Reads {
        Reads::counted_by(&self.cluster, resource).await
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Reads {
    pub lists: f64,
    pub watches: f64,
}

impl Reads {
    pub async fn counted_by(cluster: &Cluster, resource: &str) -> Self {
        let text = cluster.admin_client().get("/metrics").await.text();
        let sum =
            |metric, verb| sum_metric(&text, metric, &[("resource", resource), ("verb", verb)]);
        Self {
            lists: sum("apiserver_request_total", "LIST"),
            // kube-apiserver counts watches when they end; open watches are a gauge.
            watches: sum("apiserver_request_total", "WATCH")
                + sum("apiserver_longrunning_requests", "WATCH"),
        }
    }

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
