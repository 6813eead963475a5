//! What pingora keeps for us between its phases: the stage a request has
//! reached, and what became of it so far.

use std::sync::Arc;
use std::time::Instant;

use apifront_watch_cache::read::BypassReason;
use http::header::HeaderValue;
use kubernetes_wire::api::Query;
use pingora_proxy::Session;

use super::audit;
use super::drain::OpenRequest;
use super::forward::Forward;
use super::front::Front;
use super::respond::Answer;
use super::reuse::NextRequest;
use super::stage::{Identified, Leave, Received, Refused, Stage};
use crate::aggregation;
use crate::audit::Trail;
use crate::deprecation::Requested;
use crate::flow::{Admitted, OpenForwarded};
use crate::metrics::LongRunning;

/// How the cache took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheResult {
    /// Not a request the cache could ever answer.
    NotAsked,
    /// Answered from the state at this version.
    Hit(u64),
    /// Answered with a document of the API itself, such as discovery.
    Document,
    Bypass(BypassReason),
}

pub struct RequestContext {
    pub(super) front: Arc<Front>,
    /// When the connection began to wait for the request.
    pub(super) waited_since: Instant,
    stage: Stage,
    /// Of a request that is audited; `annotate` adds to its events. The last
    /// event is made when it is dropped.
    pub(super) audit: Option<Box<Trail>>,
    pub(super) reply: Reply,
    /// The way upstream of a request that is forwarded.
    pub(super) forward: Option<Forward>,
    pub(super) guards: Guards,
    /// The rest of an HTTP/1 connection, for a request that leaves pingora.
    pub(super) next_request: Option<NextRequest>,
}

/// What a client was told so far.
pub(super) struct Reply {
    /// 0 until something was answered.
    pub(super) code: u16,
    pub(super) bytes: usize,
    pub(super) cache: CacheResult,
    /// The answer is of a deprecated API.
    pub(super) deprecated: Option<Requested>,
    /// The request was handed to a task that records it itself.
    pub(super) detached: bool,
}

/// What ends with the request, however it ends: kept only to be dropped.
#[derive(Default)]
pub(super) struct Guards {
    pub(super) in_flight: Admitted,
    pub(super) long_running: Option<LongRunning>,
    pub(super) backend: Option<aggregation::InFlight>,
    pub(super) forwarded: Option<OpenForwarded>,
    #[expect(dead_code, reason = "counts the request as open until dropped")]
    pub(super) open: Option<OpenRequest>,
}

impl RequestContext {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self {
            waited_since: Instant::now(),
            guards: Guards {
                open: Some(front.drain.open()),
                ..Guards::default()
            },
            front,
            stage: Stage::Waiting,
            audit: None,
            reply: Reply {
                code: 0,
                bytes: 0,
                cache: CacheResult::NotAsked,
                deprecated: None,
                detached: false,
            },
            forward: None,
            next_request: None,
        }
    }

    /// Reads method, path and query. The error is a refusal.
    pub(super) fn receive(&mut self, session: &Session) -> Result<Arc<Received>, Answer> {
        match Received::read(session, &self.front) {
            Ok(received) => {
                self.stage = Stage::Received(received.clone());
                Ok(received)
            }
            Err(unreadable) => {
                self.stage = Stage::Unreadable(unreadable.head);
                Err(unreadable.answer)
            }
        }
    }

    /// Authentication, impersonation. The error is a refusal.
    pub(super) async fn identify(
        &mut self,
        received: Arc<Received>,
        session: &Session,
    ) -> Result<Arc<Identified>, Answer> {
        match Identified::identify(received.clone(), session).await {
            Ok(identified) => {
                let from = identified.client();
                self.front
                    .audit
                    .wait_for_room(identified.known(), from)
                    .await;
                self.audit = audit::admitted(session, &identified);
                self.stage = Stage::Identified(identified.clone());
                Ok(identified)
            }
            Err(refused) => {
                self.audit = audit::refused(session, &received, &refused);
                let headers = &session.req_header().headers;
                let answer = Answer::from_status(refused.status(), headers, received.query());
                Err(match refused {
                    Refused::Later {
                        by_impersonation: true,
                        ..
                    } => answer.without_sniffing(),
                    Refused::Caller(_) | Refused::Later { .. } => answer,
                })
            }
        }
    }

    /// For whoever needs the request's grant.
    pub(super) fn leave(&mut self, identified: Arc<Identified>) -> Leave<'_> {
        Leave::new(identified, self.audit.as_deref_mut())
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// When the request's header had been read.
    pub(super) fn started(&self) -> Instant {
        let head = self.stage.head();
        head.map_or(self.waited_since, |head| head.started())
    }

    /// Empty before the request was read.
    pub(super) fn audit_id(&self) -> HeaderValue {
        let head = self.stage.head();
        head.map_or(HeaderValue::from_static(""), |head| head.audit_id().clone())
    }

    /// `None` before the request was read.
    pub(super) fn query(&self) -> Option<&Query> {
        self.stage.head().map(|head| head.query())
    }

    /// Whether the path is that of an APIService of the configuration.
    pub(super) fn is_routed(&self) -> bool {
        let received = self.stage.received();
        received.is_some_and(|received| received.route().is_some())
    }
}
