//! The apifronts under test, each before a recorder. There is one for each way to
//! pass the caller's identity upstream.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::exchange::Wire;
use super::http1_client::{Http1Client, ReadWrite};
use super::http2_client::Http2Client;
use super::ledger::Ledger;
use super::recorder::{GROUP, Recorder, Speaks};
use crate::harness::apifront::Apifront;
use crate::harness::certificates::Pair;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::twins::{self, Registration};
use crate::harness::{eventually, process};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    RequestHeader,
    Impersonate,
    PassThrough,
    Personal,
}

/// The properties of a world that the checks need.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    pub name: &'static str,
    pub mode: Mode,
    pub hops: usize,
    pub has_backend: bool,
    pub is_plain: bool,
}

pub struct World {
    pub traits: Traits,
    front: Apifront,
    upper: Option<Apifront>,
    /// A client of alice, who is in the group `readers`.
    client: Client,
    _recorders: Vec<Recorder>,
}

impl World {
    /// Starts all worlds. Their recorders share one ledger.
    pub async fn start_all(ledger: &Arc<Ledger>) -> Vec<World> {
        vec![
            Self::request_header(ledger).await,
            Self::impersonate(ledger).await,
            Self::pass_through(ledger).await,
            Self::personal("personal", Speaks::Plain, ledger).await,
            Self::personal("personal over TLS", Speaks::Both, ledger).await,
            Self::two_hops(ledger).await,
        ]
    }

    async fn request_header(ledger: &Arc<Ledger>) -> Self {
        let cluster = Cluster::shared();
        let serving = serving(cluster);
        let upstream = Recorder::start("upstream", Speaks::Both, &serving, ledger);
        let backend = Recorder::start("backend", Speaks::Both, &serving, ledger);
        let front = Apifront::start(cluster, |config| {
            before(config, &upstream, cluster);
            add_backend(config, &backend, cluster);
        })
        .await;
        let client = alice(&front);
        eventually(
            "the backend is available",
            twins::SETTLES_WITHIN,
            || async { client.get(&format!("/apis/{GROUP}/v1")).await.status == 200 },
        )
        .await;
        let traits = Traits {
            name: "RequestHeader",
            mode: Mode::RequestHeader,
            hops: 1,
            has_backend: true,
            is_plain: false,
        };
        Self::new(traits, front, None, vec![upstream, backend])
    }

    async fn impersonate(ledger: &Arc<Ledger>) -> Self {
        let cluster = Cluster::shared();
        let upstream = Recorder::start("upstream", Speaks::Http1, &serving(cluster), ledger);
        let front = Apifront::start(cluster, |config| {
            before(config, &upstream, cluster);
            config["identity"] = json!({ "mode": "Impersonate" });
        })
        .await;
        let traits = Traits {
            name: "Impersonate",
            mode: Mode::Impersonate,
            hops: 1,
            has_backend: false,
            is_plain: false,
        };
        Self::new(traits, front, None, vec![upstream])
    }

    async fn pass_through(ledger: &Arc<Ledger>) -> Self {
        let cluster = Cluster::shared();
        let upstream = Recorder::start("upstream", Speaks::Both, &serving(cluster), ledger);
        let front = Apifront::start(cluster, |config| {
            before(config, &upstream, cluster);
            config["identity"] = json!({ "mode": "PassThrough" });
            config["authentication"] = json!({ "tokenReview": { "enabled": true } });
        })
        .await;
        let traits = Traits {
            name: "PassThrough",
            mode: Mode::PassThrough,
            hops: 1,
            has_backend: false,
            is_plain: false,
        };
        Self::new(traits, front, None, vec![upstream])
    }

    async fn personal(name: &'static str, speaks: Speaks, ledger: &Arc<Ledger>) -> Self {
        let cluster = Cluster::shared();
        let upstream = Recorder::start("upstream", speaks, &serving(cluster), ledger);
        let folder = process::temporary_folder("recording");
        let ca = (speaks != Speaks::Plain).then(|| cluster.ca());
        let config = kubeconfig::write(&folder, "recorder", &upstream.url(), ca, Credential::None);
        let front = Apifront::personal(&config).await;
        let traits = Traits {
            name,
            mode: Mode::Personal,
            hops: 1,
            has_backend: false,
            is_plain: true,
        };
        Self::new(traits, front, None, vec![upstream])
    }

    async fn two_hops(ledger: &Arc<Ledger>) -> Self {
        let cluster = Cluster::shared();
        let upstream = Recorder::start("upstream", Speaks::Both, &serving(cluster), ledger);
        let upper = Apifront::start(cluster, |config| before(config, &upstream, cluster)).await;
        let front = upper.start_below(cluster, |_| {}).await;
        let traits = Traits {
            name: "two hops",
            mode: Mode::RequestHeader,
            hops: 2,
            has_backend: false,
            is_plain: false,
        };
        Self::new(traits, front, Some(upper), vec![upstream])
    }

    fn new(
        traits: Traits,
        front: Apifront,
        upper: Option<Apifront>,
        recorders: Vec<Recorder>,
    ) -> Self {
        let client = match traits.mode {
            Mode::Personal => Client::plain(front.address),
            Mode::PassThrough => front.client(None),
            _ => alice(&front),
        };
        Self {
            traits,
            front,
            upper,
            client,
            _recorders: recorders,
        }
    }

    pub async fn http1(&self) -> Http1Client {
        Http1Client::new(self.connect(b"http/1.1").await)
    }

    pub async fn http2(&self) -> Http2Client {
        let scheme = if self.traits.is_plain {
            "http"
        } else {
            "https"
        };
        Http2Client::new(self.connect(b"h2").await, scheme).await
    }

    async fn connect(&self, protocol: &[u8]) -> Box<dyn ReadWrite> {
        if self.traits.is_plain {
            let stream = TcpStream::connect(self.front.address).await;
            return Box::new(stream.expect("a connection"));
        }
        let stream = self.client.tls_stream(protocol).await;
        Box::new(stream.expect("a TLS connection"))
    }

    /// Stops the apifronts in order. Afterwards everything that they sent has
    /// arrived or never will.
    pub async fn stop(self) {
        self.front.stop().await;
        if let Some(upper) = self.upper {
            upper.stop().await;
        }
    }
}

impl Wire {
    pub fn is_http2(self) -> bool {
        self == Wire::Http2
    }
}

fn serving(cluster: &Cluster) -> Pair {
    let service = format!("*.{}.svc", twins::NAMESPACE);
    let names = [service.as_str(), "localhost", "127.0.0.1"];
    cluster.certificates.serving_for("recorder", &names)
}

fn alice(front: &Apifront) -> Client {
    let certificates = &Cluster::shared().certificates;
    front.client(Some(&certificates.client("alice", &["readers"])))
}

fn before(config: &mut Value, upstream: &Recorder, cluster: &Cluster) {
    config["upstream"] = json!({ "servers": [upstream.url()], "caFile": cluster.ca() });
}

fn add_backend(config: &mut Value, backend: &Recorder, cluster: &Cluster) {
    let manifests = process::temporary_folder("recording");
    let registered = Registration::new(GROUP, "v1", "recorder", backend.address.port());
    twins::configure(config, &manifests, &[registered.trust(cluster.ca())]);
}
