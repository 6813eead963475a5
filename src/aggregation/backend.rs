//! The servers of one service, with the CA bundle of one APIService.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use apifront_shares::{Exceeded, Limits, Share, Shares};
use apifront_upstream::{
    ClientCert, OutlierDetection, Server, Settings, SettingsError, Upstream, UpstreamMetrics,
};
use arc_swap::ArcSwap;
use kubernetes_wire::api::UserInfo;
use tokio_util::task::AbortOnDropHandle;

use super::settings::{AggregationSettings, ApiService, ConfiguredBackend, ServiceReference};

/// The properties that APIServices must have in common to share connections.
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
    /// Every reload replaces it, because the files that it names may have changed.
    pub upstream: Arc<ArcSwap<Upstream>>,
    /// The requests in flight. No user has more than stay free, so that one user's
    /// flood does not take the backend from others.
    in_flight: Shares<Arc<str>>,
    _health: AbortOnDropHandle<()>,
}

/// A request to a backend, which counts until this is dropped.
pub type InFlight = Share<Arc<str>>;

impl Key {
    pub(super) fn new(service: &ServiceReference, api_service: &ApiService) -> Self {
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
        // The ID is above those of upstream's own groups, which are small numbers.
        // It leaves room for an ID of each server.
        (hasher.finish() >> 8) | (1 << 40)
    }
}

fn servers(
    key: &Key,
    config: &ConfiguredBackend,
    proxy_client: &ClientCert,
) -> Result<Vec<Server>, SettingsError> {
    let service_name = key.service.server_name();
    let trust = apifront_upstream::BackendSettings {
        server_name: config.server_name.as_ref().unwrap_or(&service_name),
        ca_bundle: &key.ca_bundle,
        insecure_skip_tls_verify: key.insecure_skip_tls_verify,
        proxy_client,
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

/// Returns the first server of an APIService. `None` if upstream answers.
pub fn first_server(
    settings: &AggregationSettings,
    api_service: &ApiService,
) -> Result<Option<Server>, SettingsError> {
    let (Some(service), Some(proxy_client)) = (&api_service.service, &settings.proxy_client) else {
        return Ok(None);
    };
    let key = Key::new(service, api_service);
    let found = servers(&key, &settings.backend(service), proxy_client)?;
    Ok(found.into_iter().next())
}

/// Makes the servers of a backend. Connects to none of them.
pub(super) fn connect(
    key: &Key,
    config: &ConfiguredBackend,
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
    /// Must be called in a tokio runtime, because it spawns the servers' health
    /// checks. A `limit` of 0 means no limit.
    pub(super) fn new(key: Key, upstream: Upstream, limit: usize) -> Self {
        let servers = Arc::new(ArcSwap::from_pointee(upstream));
        let health = tokio::spawn(apifront_upstream::check_health(servers.clone()));
        Self {
            name: format!("{}/{}", key.service.namespace, key.service.name),
            key,
            upstream: servers,
            in_flight: Shares::new(Limits::shared(limit)),
            _health: AbortOnDropHandle::new(health),
        }
    }

    pub(super) fn replace(&self, upstream: Upstream, limit: usize) {
        self.upstream.store(Arc::new(upstream));
        self.in_flight.set_limits(Limits::shared(limit));
    }

    /// Counts a request, unless the backend or this user has too many in flight. The
    /// limit for each user does not apply to `system:masters` and to apifront's own
    /// user, which is `None`.
    pub fn admit(&self, user: Option<&UserInfo>) -> Result<InFlight, Exceeded> {
        let user = user.filter(|user| !user.is_master());
        let caller = user.map(|user| Arc::from(user.name.as_str()));
        self.in_flight.take(caller, 1)
    }
}

#[cfg(test)]
mod tests {
    use apifront_upstream::Credentials;
    use kubernetes_wire::api::user::MASTERS;
    use prometheus::Registry;

    use super::*;

    #[tokio::test]
    async fn one_users_requests_leave_a_backend_to_others() {
        let upstream = || {
            let url = "http://127.0.0.1:1".parse().unwrap();
            let server = Server::from_files(url, None, None, None, &Credentials::Own);
            let settings = Settings {
                servers: vec![server.unwrap()],
                ..Settings::default()
            };
            let metrics = UpstreamMetrics::register(&Registry::new()).unwrap();
            Upstream::new(&settings, metrics).unwrap()
        };
        let key = Key {
            service: ServiceReference {
                namespace: "wardle".to_owned(),
                name: "wardle".to_owned(),
                port: 443,
            },
            ca_bundle: Vec::new(),
            insecure_skip_tls_verify: false,
        };
        let user = |name: &str| UserInfo {
            name: name.to_owned(),
            ..UserInfo::default()
        };
        let (flood, jane) = (user("flood"), user("jane"));
        let backend = Backend::new(key, upstream(), 8);
        let mut held: Vec<_> = (0..4)
            .map(|_| backend.admit(Some(&flood)).unwrap())
            .collect();
        let refused = backend.admit(Some(&flood));
        assert_eq!(refused.unwrap_err(), Exceeded::OfOne);
        held.push(backend.admit(Some(&jane)).unwrap());
        held.push(backend.admit(Some(&jane)).unwrap());
        let admin = UserInfo {
            groups: vec![MASTERS.to_owned()],
            ..user("admin")
        };
        held.push(backend.admit(Some(&admin)).unwrap());
        held.push(backend.admit(None).unwrap());
        assert_eq!(backend.admit(None).unwrap_err(), Exceeded::Total);
        // A backend that takes one request at a time takes the first that comes.
        backend.replace(upstream(), 1);
        held.clear();
        held.push(backend.admit(Some(&jane)).unwrap());
        assert!(backend.admit(Some(&flood)).is_err());
        backend.replace(upstream(), 0);
        held.extend((0..100).map(|_| backend.admit(Some(&flood)).unwrap()));
        drop(held);
        assert_eq!(
            (backend.in_flight.held(), backend.in_flight.callers()),
            (0, 0)
        );
    }
}
