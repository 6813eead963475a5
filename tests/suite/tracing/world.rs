//! A kube-apiserver, an apifront before it with the same file, and the collector of
//! both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::collector::{Collected, Collector};
use crate::harness::eventually;
use crate::harness::pool::Lease;
use crate::harness::process::temporary_folder;
use crate::harness::shared::Shared;

/// Spans are sent every five seconds, or later on a busy machine.
pub const SOON: Duration = Duration::from_secs(40);

pub const KUBE_APISERVER: &str = "apiserver";
pub const APIFRONT: &str = "apifront";

/// Writes a tracing file for kube-apiserver and apifront.
pub fn tracing_file(folder: &Path, endpoint: &str, rate: u32) -> PathBuf {
    let file = folder.join("tracing.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n\
         endpoint: {endpoint}\nsamplingRatePerMillion: {rate}\n"
    );
    std::fs::write(&file, text).expect("tracing file");
    file
}

pub struct World {
    pub cluster: Lease,
    pub front: Apifront,
    pub collector: Collector,
}

impl World {
    /// Returns the world in which every trace is sampled.
    pub fn shared() -> Arc<Self> {
        static SHARED: Shared<World> = Shared::new();
        SHARED.get(|| Self::start(1_000_000))
    }

    pub async fn start(rate: u32) -> Self {
        let collector = Collector::start();
        let folder = temporary_folder("tracing");
        let file = tracing_file(&folder, &collector.address.to_string(), rate);
        let flag = format!("--tracing-config-file={}", file.display());
        let cluster = Cluster::leased(&[flag]).await;
        let front = Apifront::start_directly(&cluster, |config| {
            config["observability"]["tracingConfigFile"] = json!(file);
        })
        .await;
        Self {
            cluster,
            front,
            collector,
        }
    }

    /// Sends a last request to each service, and waits for its span. Spans are sent
    /// in order, so those of all ended requests have then arrived.
    pub async fn settle(&self) {
        for (service, client) in [
            (KUBE_APISERVER, self.cluster.admin_client()),
            (APIFRONT, self.front.admin_client()),
        ] {
            let path = format!("/api/v1/namespaces/default/configmaps/{}", unique("last"));
            let parent = Parent::new();
            client
                .open(&path, &[("traceparent", &parent.header("01"))])
                .await;
            self.server_span(service, &path).await;
        }
    }

    pub fn server_spans(&self, service: &str, path: &str) -> Vec<Collected> {
        self.collector.find(|span| {
            span.is_of(service, SpanKind::Server) && span.attribute("url.path") == path
        })
    }

    /// Waits for the SERVER span of the only request for a path.
    pub async fn server_span(&self, service: &str, path: &str) -> Collected {
        let found = || self.server_spans(service, path);
        eventually(&format!("a span of {service} for {path}"), SOON, || async {
            !found().is_empty()
        })
        .await;
        let mut spans = found();
        assert_eq!(spans.len(), 1, "{spans:?}");
        spans.remove(0)
    }

    pub fn client(&self, service: &str, who: Who) -> Client {
        let client = |certificate| match service {
            APIFRONT => self.front.client(certificate),
            _ => self.cluster.client(certificate),
        };
        match who {
            Who::Admin => client(Some(&self.cluster.admin)),
            Who::Root => client(None).token("token-of-root"),
            Who::Tess => client(None).token("token-of-tess"),
            Who::WrongToken => client(None).token("nobody's"),
            Who::AdminAsTess => {
                client(Some(&self.cluster.admin)).with_header("impersonate-user", "tess")
            }
            Who::TessAsAdmin => client(None)
                .token("token-of-tess")
                .with_header("impersonate-user", "admin")
                .with_header("impersonate-group", "system:masters"),
            Who::Monitor => {
                let certificates = &self.cluster.certificates;
                client(Some(
                    &certificates.client("monitor", &["system:monitoring"]),
                ))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A member of `system:masters`, with a certificate.
    Admin,
    /// A member of `system:masters`, with a token.
    Root,
    Monitor,
    Tess,
    AdminAsTess,
    TessAsAdmin,
    WrongToken,
}

/// A caller's span.
#[derive(Clone, Debug)]
pub struct Parent {
    pub trace: String,
    pub span: String,
}

impl Parent {
    pub fn new() -> Self {
        Self {
            trace: format!("{:032x}", rand::random::<u128>()),
            span: format!("{:016x}", rand::random::<u64>()),
        }
    }

    pub fn header(&self, flags: &str) -> String {
        format!("00-{}-{}-{flags}", self.trace, self.span)
    }
}
