//! The APIServices and the servers of their services, as the configuration names them.

use std::path::PathBuf;
use std::time::Duration;

use apifront_upstream::{ClientCert, Timeouts};
use kubernetes_wire::api::GroupVersion;
use serde_json::Value;
use url::Url;

/// A server with this many failures in a row gets no requests for a while. Envoy's
/// outlier detection has the same default.
pub const CONSECUTIVE_ERRORS: u32 = 5;
pub const EJECTION_TIME: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AggregationSettings {
    /// The APIServices of all files. Each name is there once.
    pub api_services: Vec<ApiService>,
    pub backends: Vec<ConfiguredBackend>,
    /// The client certificate for backends: because of it they accept the user names
    /// in headers. Always there if an APIService has a service.
    pub proxy_client: Option<ClientCert>,
}

/// The servers of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredBackend {
    pub name: String,
    pub namespace: String,
    /// URLs of a scheme, host and port alone. Empty means the service's name.
    pub servers: Vec<Url>,
    /// The name in the servers' certificates. `None` means
    /// `NAME.NAMESPACE.svc`.
    pub server_name: Option<String>,
    pub timing: Timeouts,
    /// 0: no limit.
    pub max_requests_inflight: usize,
    /// 0: no server is ejected.
    pub consecutive_errors: u32,
    pub ejection_time: Duration,
}

/// A group version and the service that serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiService {
    /// For example `v1alpha1.wardle.example.com`.
    pub name: String,
    pub group_version: GroupVersion,
    /// `None` if upstream itself serves it.
    pub service: Option<ServiceReference>,
    /// PEM. Empty means the system's certificate authorities.
    pub ca_bundle: Vec<u8>,
    pub insecure_skip_tls_verify: bool,
    pub group_priority_minimum: i32,
    pub version_priority: i32,
    pub manifest: Value,
    pub file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

impl ServiceReference {
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

impl AggregationSettings {
    pub fn backend(&self, service: &ServiceReference) -> ConfiguredBackend {
        let configured = self
            .backends
            .iter()
            .find(|b| b.name == service.name && b.namespace == service.namespace);
        let mut backend = configured.cloned().unwrap_or_else(|| ConfiguredBackend {
            name: service.name.clone(),
            namespace: service.namespace.clone(),
            servers: Vec::new(),
            server_name: None,
            timing: Timeouts::default(),
            max_requests_inflight: 0,
            consecutive_errors: CONSECUTIVE_ERRORS,
            ejection_time: EJECTION_TIME,
        });
        if backend.servers.is_empty() {
            let url = format!("https://{}:{}", service.server_name(), service.port);
            backend.servers.extend(Url::parse(&url).ok());
        }
        backend
    }
}
