//! `aggregation`: extension API groups and their servers.

use std::path::PathBuf;
use std::time::Duration;

use apifront_upstream::{ClientCert, Timeouts};
use url::Url;

use super::api_service::{self, ApiService, ServiceReference};
use super::check::Check;
use super::raw;
use super::upstream::check_servers;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregation {
    /// The APIServices of all files. Each name is there once.
    pub api_services: Vec<ApiService>,
    pub backends: Vec<Backend>,
    /// The client certificate for backends: because of it they accept the user names
    /// in headers. Always there if an APIService has a service.
    pub proxy_client: Option<ClientCert>,
    /// The files that must be watched, and the patterns that found them.
    pub files: Vec<PathBuf>,
}

/// The servers of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
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

/// A server with this many failures in a row gets no requests for a while. Envoy's
/// outlier detection has the same default.
const CONSECUTIVE_ERRORS: usize = 5;
const EJECTION_TIME: Duration = Duration::from_secs(30);
/// `serving.maxRequestsInflight` has the same limit. It is far beyond any use.
const MOST_INFLIGHT: usize = 1_000_000;

impl Aggregation {
    pub(super) fn check(
        raw: &raw::Aggregation,
        proxy_client: Option<ClientCert>,
        check: &mut Check,
    ) -> Self {
        const SERVICES: &str = "aggregation.apiServices";
        let patterns = raw.api_services.clone().unwrap_or_default();
        let api_services = api_service::load(SERVICES, &patterns, check);
        let remote = api_services.iter().find(|s| s.service.is_some());
        if let Some(remote) = remote
            && proxy_client.is_none()
        {
            check.error(
                "identity.proxyClientCertFile",
                "",
                &format!(
                    "needed for {}: backends believe the names of callers because of it",
                    remote.name
                ),
            );
        }
        let backends: Vec<Backend> = (raw.backends.iter().flatten().enumerate())
            .filter_map(|(i, b)| Backend::check(&format!("aggregation.backends[{i}]"), b, check))
            .collect();
        for (i, backend) in backends.iter().enumerate() {
            let same =
                |b: &&Backend| (&b.name, &b.namespace) == (&backend.name, &backend.namespace);
            if backends.iter().take(i).any(|b| same(&b)) {
                let name = format!("{}/{}", backend.namespace, backend.name);
                check.error(
                    &format!("aggregation.backends[{i}]"),
                    &name,
                    "is there twice",
                );
            }
        }
        Self {
            files: api_service::watched(&patterns),
            api_services,
            backends,
            proxy_client,
        }
    }

    pub fn backend(&self, service: &ServiceReference) -> Backend {
        let configured = self
            .backends
            .iter()
            .find(|b| b.name == service.name && b.namespace == service.namespace);
        let mut backend = configured.cloned().unwrap_or_else(|| Backend {
            name: service.name.clone(),
            namespace: service.namespace.clone(),
            servers: Vec::new(),
            server_name: None,
            timing: Timeouts::default(),
            max_requests_inflight: 0,
            consecutive_errors: CONSECUTIVE_ERRORS as u32,
            ejection_time: EJECTION_TIME,
        });
        if backend.servers.is_empty() {
            let url = format!("https://{}:{}", service.server_name(), service.port);
            backend.servers.extend(Url::parse(&url).ok());
        }
        backend
    }
}

impl Backend {
    fn check(field: &str, raw: &raw::Backend, check: &mut Check) -> Option<Self> {
        let name = check.needed_text(&format!("{field}.name"), &raw.name);
        let namespace = check.needed_text(&format!("{field}.namespace"), &raw.namespace);
        let default = Timeouts::default();
        let timing = Timeouts {
            health_check_interval: check.positive_duration(
                &format!("{field}.healthCheckInterval"),
                &raw.health_check_interval,
                default.health_check_interval,
            ),
            connect_timeout: check.positive_duration(
                &format!("{field}.connectTimeout"),
                &raw.connect_timeout,
                default.connect_timeout,
            ),
            request_timeout: check.positive_duration(
                &format!("{field}.requestTimeout"),
                &raw.request_timeout,
                default.request_timeout,
            ),
        };
        let outlier = &raw.outlier_detection;
        Some(Self {
            servers: check_servers(&format!("{field}.servers"), &raw.servers, check),
            server_name: raw.server_name.clone(),
            timing,
            max_requests_inflight: check.count(
                &format!("{field}.maxRequestsInflight"),
                raw.max_requests_inflight,
                0,
                0..=MOST_INFLIGHT,
            ),
            consecutive_errors: check.count(
                &format!("{field}.outlierDetection.consecutiveErrors"),
                outlier.consecutive_errors,
                CONSECUTIVE_ERRORS,
                0..=1_000,
            ) as u32,
            ejection_time: check.positive_duration(
                &format!("{field}.outlierDetection.ejectionTime"),
                &outlier.ejection_time,
                EJECTION_TIME,
            ),
            name: name?,
            namespace: namespace?,
        })
    }
}
