//! The servers of one service, with the trust of one APIService.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apifront_upstream::{
    OutlierDetection, Server, Settings, SettingsError, Upstream, UpstreamMetrics,
};
use arc_swap::ArcSwap;
use tokio_util::task::AbortOnDropHandle;

use crate::config::upstream::ClientCert;
use crate::config::{self, ApiService, ServiceReference};

/// The properties that two APIServices must have in common to share
/// connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    service: ServiceReference,
    ca_bundle: Vec<u8>,
    insecure_skip_tls_verify: bool,
}

pub struct Backend {
    pub(super) key: Key,
    /// `namespace/name`, for the log and for metrics.
    pub name: String,
    /// Replaced by every reload, because the files that it names may have
    /// changed.
    pub upstream: Arc<ArcSwap<Upstream>>,
    in_flight: Arc<AtomicUsize>,
    /// 0: no limit.
    limit: AtomicUsize,
    _health: AbortOnDropHandle<()>,
}

/// A request of a backend in flight. Dropping it lowers the count.
#[derive(Debug)]
pub struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Key {
    pub(super) fn of(service: &ServiceReference, api_service: &ApiService) -> Self {
        Self {
            service: service.clone(),
            ca_bundle: api_service.ca_bundle.clone(),
            insecure_skip_tls_verify: api_service.insecure_skip_tls_verify,
        }
    }

    /// Returns the ID of the backend's own group of connections.
    fn group(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        // The ID is above those of the upstream's own groups, which are small
        // numbers, and leaves room for those of each server.
        (hasher.finish() >> 8) | (1 << 40)
    }
}

/// Returns the servers of a backend.
fn servers(
    key: &Key,
    config: &config::aggregation::Backend,
    proxy_client: &ClientCert,
) -> Result<Vec<Server>, SettingsError> {
    let service_name = key.service.server_name();
    let trust = apifront_upstream::BackendSettings {
        server_name: config.server_name.as_ref().unwrap_or(&service_name),
        ca_bundle: &key.ca_bundle,
        insecure_skip_tls_verify: key.insecure_skip_tls_verify,
        proxy_client: (&proxy_client.cert_file, &proxy_client.key_file),
    };
    let server = |url: &url::Url| {
        let uri = http::Uri::try_from(url.as_str()).map_err(|e| SettingsError::Transport {
            server: url.to_string(),
            error: e.to_string(),
        })?;
        Server::of_backend(uri, trust)
    };
    config.servers.iter().map(server).collect()
}

/// Returns the first server of an APIService. `None` if the upstream answers.
pub fn first_server(
    settings: &config::aggregation::Aggregation,
    api_service: &ApiService,
) -> Result<Option<Server>, SettingsError> {
    let (Some(service), Some(proxy_client)) = (&api_service.service, &settings.proxy_client) else {
        return Ok(None);
    };
    let key = Key::of(service, api_service);
    let found = servers(&key, &settings.backend(service), proxy_client)?;
    Ok(found.into_iter().next())
}

/// Makes the servers of a backend. Connects to none of them.
pub(super) fn connect(
    key: &Key,
    config: &config::aggregation::Backend,
    proxy_client: &ClientCert,
    metrics: &UpstreamMetrics,
) -> Result<Upstream, SettingsError> {
    let settings = Settings {
        servers: servers(key, config, proxy_client)?,
        timing: config.timing,
        group: key.group(),
        outliers: OutlierDetection {
            consecutive_errors: config.consecutive_errors,
            ejection_time: config.ejection_time,
        },
    };
    Upstream::new(&settings, metrics.clone())
}

impl Backend {
    /// Must be called in a tokio runtime, because it spawns the checks of the
    /// servers' health.
    pub(super) fn new(key: Key, upstream: Upstream, limit: usize) -> Self {
        let servers = Arc::new(ArcSwap::from_pointee(upstream));
        let health = tokio::spawn(apifront_upstream::check_health(servers.clone()));
        Self {
            name: format!("{}/{}", key.service.namespace, key.service.name),
            key,
            upstream: servers,
            in_flight: Arc::default(),
            limit: AtomicUsize::new(limit),
            _health: AbortOnDropHandle::new(health),
        }
    }

    pub(super) fn replace(&self, upstream: Upstream, limit: usize) {
        self.upstream.store(Arc::new(upstream));
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Counts a request. `None` if the backend has as many in flight as it may.
    pub fn admit(&self) -> Option<InFlight> {
        let limit = self.limit.load(Ordering::Relaxed);
        self.in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
                (limit == 0 || now < limit).then_some(now.saturating_add(1))
            })
            .ok()
            .map(|_| InFlight(self.in_flight.clone()))
    }
}
