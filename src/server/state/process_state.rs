//! The parts of the server that live as long as the process.

use std::sync::Arc;
use std::time::Instant;

use apifront_upstream::Upstream;
use apifront_watch_cache::read::{OwnWrites, SharedReads, UpstreamFeatures};
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::self_check::SelfChecks;
use apifront_watch_cache::watch::WatchGroups;
use arc_swap::ArcSwap;

use super::api_service_watches::ApiServiceWatches;
use super::drain::Drain;
use super::known_rights::RightsFeed;
use crate::aggregation::Aggregation;
use crate::audit::Audit;
use crate::authn::OwnUser;
use crate::deprecation::Deprecations;
use crate::discovery::Discovery;
use crate::flow::Flow;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::openapi::OpenApi;
use crate::outage::Outage;
use crate::queries::{KeptOrders, QueryMetrics, Windows};
use crate::shadow::Shadow;
use crate::shapes::Shapes;
use crate::spans::Tracing;
use crate::status::talkers::Talkers;
use crate::status::{History, UsageReader};
use crate::views::Views;

/// The parts that a reload keeps. Some of them are told the new configuration.
pub(crate) struct ProcessState {
    /// Tells why the configuration on disk is not in force. `None` if it is.
    pub configuration_error: Box<dyn Fn() -> Option<String> + Send + Sync>,
    pub upstream: Arc<ArcSwap<Upstream>>,
    pub cache: Arc<Cache>,
    /// The aggregation of the current generation, for tasks that outlive their
    /// own generation.
    pub current_aggregation: ArcSwap<Aggregation>,
    pub discovery: Arc<Discovery>,
    pub shared_reads: SharedReads,
    pub upstream_features: UpstreamFeatures,
    pub own_writes: Arc<OwnWrites>,
    pub openapi: Arc<OpenApi>,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub flow: Arc<Flow>,
    pub audit: Arc<Audit>,
    pub tracing: Tracing,
    pub deprecations: Arc<Deprecations>,
    pub own_user: Arc<OwnUser>,
    pub drain: Arc<Drain>,
    pub outage: Arc<Outage>,
    pub self_checks: SelfChecks,
    pub shadow: Arc<Shadow>,
    pub(in crate::server) rights: RightsFeed,
    pub views: Views,
    pub shapes: Shapes,
    pub queries: QueryMetrics,
    pub query_orders: Arc<KeptOrders>,
    pub query_windows: Windows,
    /// The watches that wait for events.
    pub watch_groups: Arc<WatchGroups>,
    pub(in crate::server) api_service_watches: ApiServiceWatches,
    pub talkers: Arc<Talkers>,
    pub history: History,
    pub usage: UsageReader,
    pub started: Instant,
}
