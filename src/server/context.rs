//! What is known of a request while it is on its way.

use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use http::header::HeaderValue;

use super::front::Front;
use crate::api::{Query, UserInfo};
use crate::read::BypassReason;
use crate::request::RequestInfo;
use crate::upstream::Endpoint;

/// How the cache took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheResult {
    /// Not a request the cache could ever answer.
    NotAsked,
    Hit,
    Bypass(BypassReason),
}

pub struct RequestContext {
    pub(super) started: Instant,
    pub(super) front: Arc<Front>,
    pub(super) query: Query,
    /// `None` when the request could not be understood.
    pub(super) info: Option<RequestInfo>,
    pub(super) user: Option<UserInfo>,
    pub(super) cache: CacheResult,
    pub(super) audit_id: HeaderValue,
    pub(super) forward: Forward,
    /// 0 until something was answered.
    pub(super) code: u16,
    pub(super) response_bytes: usize,
    /// The request was handed to a task that records it itself.
    pub(super) detached: bool,
    pub(super) guards: Guards,
}

/// A forwarded request's way upstream.
#[derive(Default)]
pub(super) struct Forward {
    /// Headers that make the caller known upstream, in place of the caller's.
    pub(super) identity: HeaderMap,
    /// API servers already tried.
    pub(super) tried: Vec<Arc<Endpoint>>,
    pub(super) long_running: bool,
    pub(super) connected: Option<Instant>,
}

/// Gauges that fall when the request ends, however it ends.
#[derive(Default)]
pub(super) struct Guards {
    pub(super) in_flight: Option<crate::flow::InFlight>,
    pub(super) long_running: Option<crate::metrics::GaugeGuard>,
    pub(super) open: Option<super::drain::OpenRequest>,
}
