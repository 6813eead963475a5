//! All APIServices of the configuration, and the routes from requests to backends.
//!
//! A configured APIService takes precedence over upstream's of the same name.
//! Kubernetes' built-in APIs cannot be replaced: a configuration that tries is
//! refused.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use apifront_upstream::{SettingsError, Upstream, UpstreamMetrics};
use arc_swap::ArcSwap;
use chrono::{DateTime, Utc};
use kubernetes_wire::api::GroupVersion;
use tokio_util::task::AbortOnDropHandle;

use super::availability::Availability;
use super::backend::{self, Backend, Key};
use super::condition::Condition;
use super::discovery_source::{Source, SourceVersion};
use super::metrics::AvailabilityMetrics;
use super::settings::{AggregationSettings, ApiService};
use crate::documents::DocumentServer;

#[derive(Debug, thiserror::Error)]
pub enum AggregationError {
    #[error("{name} in {file:?}: {error}")]
    Backend {
        name: String,
        file: std::path::PathBuf,
        error: SettingsError,
    },
    #[error(
        "{name} in {file:?}: spec.service: {group_version} is part of Kubernetes itself; \
         kube-apiserver serves it"
    )]
    BuiltIn {
        name: String,
        file: std::path::PathBuf,
        group_version: GroupVersion,
    },
}

/// An APIService and the server that answers for it.
pub struct Registered {
    pub service: ApiService,
    /// `None` if upstream answers.
    pub remote: Option<Remote>,
    /// The time at which this APIService was first read.
    pub loaded: DateTime<Utc>,
}

pub struct Remote {
    pub backend: Arc<Backend>,
    pub availability: Arc<Availability>,
    _checks: AbortOnDropHandle<()>,
}

impl Registered {
    fn new(
        service: ApiService,
        backend: Option<Arc<Backend>>,
        metrics: &AvailabilityMetrics,
    ) -> Self {
        let remote = backend.map(|backend| {
            let availability = Arc::new(Availability::new(
                service.name.clone(),
                service.group_version.clone(),
                backend.upstream.clone(),
                metrics.clone(),
            ));
            Remote {
                _checks: AbortOnDropHandle::new(tokio::spawn(availability.clone().run())),
                availability,
                backend,
            }
        });
        Self {
            service,
            remote,
            loaded: Utc::now(),
        }
    }

    pub fn condition(&self) -> Arc<Condition> {
        match &self.remote {
            Some(remote) => remote.availability.condition(),
            None => Arc::new(Condition::local(self.loaded)),
        }
    }

    fn source_version(&self) -> SourceVersion {
        SourceVersion {
            group_version: self.service.group_version.clone(),
            group_priority_minimum: self.service.group_priority_minimum,
            version_priority: self.service.version_priority,
        }
    }

    fn backend(&self) -> Option<&Arc<Backend>> {
        self.remote.as_ref().map(|remote| &remote.backend)
    }

    /// Tells whether a reload left the APIService and its backend unchanged.
    fn is_still(&self, service: &ApiService, backend: Option<&Arc<Backend>>) -> bool {
        let same_backend = match (self.backend(), backend) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_backend && self.service == *service
    }
}

#[derive(Default)]
pub struct Aggregation {
    /// Sorted by descending priority of the group, then of the version.
    registered: Vec<Arc<Registered>>,
    routes: HashMap<GroupVersion, Arc<Registered>>,
}

/// A new configuration that is not applied yet. It is built first, so that a bad
/// configuration changes nothing.
pub struct Prepared {
    services: Vec<(ApiService, Option<(Key, usize)>)>,
    upstreams: HashMap<Key, Upstream>,
}

/// Tells whether Kubernetes has built-in kinds in a group version.
pub(super) type IsBuiltIn = fn(&GroupVersion) -> bool;

impl Prepared {
    pub fn new(
        settings: &AggregationSettings,
        is_built_in: IsBuiltIn,
        metrics: &UpstreamMetrics,
    ) -> Result<Self, AggregationError> {
        let mut upstreams = HashMap::new();
        let mut services = Vec::new();
        for api_service in &settings.api_services {
            let (Some(service), Some(proxy_client)) =
                (&api_service.service, &settings.proxy_client)
            else {
                services.push((api_service.clone(), None));
                continue;
            };
            let (name, file) = (api_service.name.clone(), api_service.file.clone());
            if is_built_in(&api_service.group_version) {
                let group_version = api_service.group_version.clone();
                return Err(AggregationError::BuiltIn {
                    name,
                    file,
                    group_version,
                });
            }
            let key = Key::new(service, api_service);
            let backend = settings.backend(service);
            if !upstreams.contains_key(&key) {
                let upstream = backend::connect(&key, &backend, proxy_client, metrics)
                    .map_err(|error| AggregationError::Backend { name, file, error })?;
                upstreams.insert(key.clone(), upstream);
            }
            let limit = backend.max_requests_inflight;
            services.push((api_service.clone(), Some((key, limit))));
        }
        Ok(Self {
            services,
            upstreams,
        })
    }

    /// Applies the configuration. Backends that stay keep their state.
    ///
    /// Must be called in a tokio runtime, because it spawns the backends' checks.
    pub fn apply(mut self, before: &Aggregation, metrics: &AvailabilityMetrics) -> Aggregation {
        let mut backends: HashMap<Key, Arc<Backend>> = HashMap::new();
        let mut registered: Vec<Arc<Registered>> = Vec::new();
        for (service, target) in self.services {
            let backend = target.and_then(|(key, limit)| {
                if let Some(upstream) = self.upstreams.remove(&key) {
                    let known = before.backends().find(|b| b.key == key);
                    let backend = match known {
                        Some(known) => {
                            known.replace(upstream, limit);
                            known.clone()
                        }
                        None => Arc::new(Backend::new(key.clone(), upstream, limit)),
                    };
                    backends.insert(key.clone(), backend);
                }
                backends.get(&key).cloned()
            });
            let still = |r: &&Arc<Registered>| r.is_still(&service, backend.as_ref());
            let known = before.registered.iter().find(still).cloned();
            if let Some(remote) = known.as_ref().and_then(|r| r.remote.as_ref()) {
                // The backend's certificate may have changed.
                remote.availability.notify();
            }
            registered.push(
                known.unwrap_or_else(|| Arc::new(Registered::new(service, backend, metrics))),
            );
        }
        registered.sort_by(|a, b| {
            let order = |r: &Registered| {
                (
                    Reverse(r.service.group_priority_minimum),
                    r.service.group_version.group.clone(),
                    Reverse(r.service.version_priority),
                )
            };
            order(a).cmp(&order(b))
        });
        let routes = registered
            .iter()
            .filter(|r| r.remote.is_some())
            .map(|r| (r.service.group_version.clone(), r.clone()))
            .collect();
        Aggregation { registered, routes }
    }
}

impl Aggregation {
    pub fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    pub fn registered(&self) -> &[Arc<Registered>] {
        &self.registered
    }

    /// Returns the APIService for a path (`/apis/G/V` or below) if a backend
    /// answers.
    pub fn route(&self, path: &str) -> Option<&Arc<Registered>> {
        if self.routes.is_empty() {
            return None;
        }
        let mut segments = path.strip_prefix("/apis/")?.splitn(3, '/');
        let (group, version) = (segments.next()?, segments.next()?);
        self.routes.get(&GroupVersion {
            group: group.to_owned(),
            version: version.to_owned(),
        })
    }

    /// Returns the server of each group version that upstream does not serve.
    pub fn upstreams(&self) -> Vec<(GroupVersion, Arc<ArcSwap<Upstream>>)> {
        let of = |r: &Arc<Registered>| {
            let backend = r.backend()?;
            Some((r.service.group_version.clone(), backend.upstream.clone()))
        };
        self.registered.iter().filter_map(of).collect()
    }

    /// Returns every backend once, with its group versions.
    pub fn sources(&self) -> Vec<Source> {
        let versions = |backend: &Arc<Backend>| {
            let its = |r: &&Arc<Registered>| r.backend().is_some_and(|b| Arc::ptr_eq(b, backend));
            self.registered
                .iter()
                .filter(its)
                .map(|r| r.source_version())
                .collect()
        };
        self.distinct_backends()
            .into_iter()
            .map(|backend| Source {
                name: backend.name.clone(),
                server: DocumentServer::Remote(backend.upstream.clone()),
                versions: versions(backend),
            })
            .collect()
    }

    /// Returns upstream's versions for which the configuration has APIServices.
    pub fn local(&self) -> Vec<SourceVersion> {
        let local = self.registered.iter().filter(|r| r.remote.is_none());
        local.map(|r| r.source_version()).collect()
    }

    pub fn distinct_backends(&self) -> Vec<&Arc<Backend>> {
        let mut found: Vec<&Arc<Backend>> = Vec::new();
        for backend in self.backends() {
            if !found.iter().any(|known| Arc::ptr_eq(known, backend)) {
                found.push(backend);
            }
        }
        found
    }

    fn backends(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.registered.iter().filter_map(|r| r.backend())
    }
}
