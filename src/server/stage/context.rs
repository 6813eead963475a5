//! The context that pingora keeps for a request between its phases: the latest stage
//! of the request, and its results so far.

use std::sync::Arc;
use std::time::Instant;

use apifront_watch_cache::read::{BypassReason, HitCost};
use http::header::HeaderValue;
use http::{HeaderMap, StatusCode};
use kubernetes_wire::api::user::ANONYMOUS;
use kubernetes_wire::api::{Query, Status};
use kubernetes_wire::request::ConnectionOptions;

use super::audit;
use super::forwarded::Forward;
use super::granted::PendingGrant;
use super::identified::{Identified, Refused, Unidentified};
use super::observed::{AnswerKeeper, AnswerObserver};
use super::reached::Stage;
use super::received::Received;
use super::span;
use crate::aggregation;
use crate::audit::Trail;
use crate::deprecation::Requested;
use crate::flow::{Admitted, Classification, ForwardSlot};
use crate::metrics::LongRunning;
use crate::server::exchange::{Exchange, Failure};
use crate::server::listener::http1::NextRequest;
use crate::server::listener::large_heads::LargeHead;
use crate::server::state::drain::OpenRequest;
use crate::server::state::generation::Generation;
use crate::spans::RequestSpan;

/// The part that the cache had in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum CacheResult {
    /// The cache could never answer a request like this.
    NotAsked,
    /// The answer was made from a state or an object in memory.
    Hit(Hit),
    /// The answer is a document of the API itself, such as discovery.
    Document,
    /// Upstream gave this answer before, to the same question of the same caller.
    Remembered,
    Bypass(BypassReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Hit {
    /// The version of the state, or of the object, that the answer shows.
    pub(in crate::server) version: u64,
    /// The requests to upstream that the answer needed.
    pub(in crate::server) cost: HitCost,
}

pub(crate) struct RequestContext {
    pub(in crate::server) waited_since: Instant,
    stage: Stage,
    /// The trail of an audited request. Steps add annotations to its events. The
    /// last event is made when the trail is dropped.
    pub(in crate::server) audit: Option<Box<Trail>>,
    /// The spans of a traced request. They end when the request is recorded.
    pub(in crate::server) span: Option<Box<RequestSpan>>,
    pub(in crate::server) reply: Reply,
    /// The FlowSchema and the priority level of a classified request.
    pub(in crate::server) classification: Option<Classification>,
    /// Set if the request is forwarded.
    pub(in crate::server) forward: Option<Forward>,
    pub(in crate::server) guards: Guards,
    /// Sees upstream's answer, if the read is compared with the cache.
    pub(in crate::server) observer: Option<Box<dyn AnswerObserver>>,
    /// Whether pieces of the body were read already. pingora keeps them in case the
    /// request is forwarded.
    pub(in crate::server) replays: bool,
    /// Sees upstream's answer to a SelfSubjectAccessReview, and may change it.
    pub(in crate::server) keeper: Option<Box<dyn AnswerKeeper>>,
    /// The rest of an HTTP/1 connection, for a request that leaves pingora.
    pub(in crate::server) next_request: Option<NextRequest>,
    /// The share of the budget for large heads that the request's head takes.
    pub(in crate::server) large_head: Option<LargeHead>,
    /// The response headers that are meant for browsers.
    pub(in crate::server) for_browsers: Option<Box<HeaderMap>>,
}

/// The answer, as far as it has been sent.
pub(in crate::server) struct Reply {
    /// The status, or 0 until something was answered.
    pub(in crate::server) code: u16,
    pub(in crate::server) bytes: usize,
    pub(in crate::server) cache: CacheResult,
    /// Set if the answer comes from a deprecated API.
    pub(in crate::server) deprecated: Option<Requested>,
    /// Whether the request was handed to a task that records it itself.
    pub(in crate::server) detached: bool,
}

/// Values that are kept only to be dropped when the request ends, however it ends.
#[derive(Default)]
pub(in crate::server) struct Guards {
    pub(in crate::server) in_flight: Admitted,
    pub(in crate::server) long_running: Option<LongRunning>,
    pub(in crate::server) backend: Option<aggregation::InFlight>,
    pub(in crate::server) forwarded: Option<ForwardSlot>,
    #[expect(dead_code, reason = "counts the request as open until dropped")]
    pub(in crate::server) open: Option<OpenRequest>,
}

impl RequestContext {
    pub(in crate::server) fn new(generation: Arc<Generation>) -> Self {
        Self {
            waited_since: Instant::now(),
            guards: Guards {
                open: Some(generation.drain.open()),
                ..Guards::default()
            },
            stage: Stage::Waiting(generation),
            audit: None,
            span: None,
            reply: Reply {
                code: 0,
                bytes: 0,
                cache: CacheResult::NotAsked,
                deprecated: None,
                detached: false,
            },
            classification: None,
            forward: None,
            observer: None,
            replays: false,
            keeper: None,
            next_request: None,
            large_head: None,
            for_browsers: None,
        }
    }

    /// Reads method, path, query and the fields of the connection. It removes these
    /// fields, so nothing later can read them.
    pub(in crate::server) fn receive(
        &mut self,
        exchange: &mut Exchange<'_>,
    ) -> Result<Arc<Received>, Status> {
        let read = Received::read(exchange, self.generation());
        for field in &ConnectionOptions::FIELDS {
            exchange.remove_field(field);
        }
        match read {
            Ok(received) => {
                if received.ends_connection() {
                    exchange.close_http1_after();
                }
                self.stage = Stage::Received(received.clone());
                Ok(received)
            }
            Err(unreadable) => {
                self.stage = Stage::Unreadable(unreadable.head);
                Err(unreadable.status)
            }
        }
    }

    /// Authenticates the caller, who may act as another user. Ends the HTTP/2
    /// connection of an unknown caller. Fails if the client goes away.
    pub(in crate::server) async fn identify(
        &mut self,
        received: Arc<Received>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Result<Arc<Identified>, Refused>, Failure> {
        let identified = match Identified::identify(received.clone(), exchange).await {
            Ok(identified) => Ok(identified),
            Err(Unidentified::Refused(refused)) => Err(*refused),
            Err(Unidentified::ClientGone) => {
                self.audit = audit::unasked(exchange.request(), &received);
                return Err(Failure::client_gone());
            }
        };
        if is_unknown(&identified, &exchange.request().headers) {
            exchange.close_http2_after();
        }
        let request = exchange.request();
        match &identified {
            Ok(identified) => {
                let from = identified.client();
                self.generation()
                    .audit
                    .wait_for_room(identified.known(), from)
                    .await;
                self.audit = audit::admitted(request, identified);
                self.span = span::admitted(&request.headers, identified);
                self.stage = Stage::Identified(identified.clone());
            }
            Err(refused) => {
                self.audit = audit::refused(request, &received, refused);
                self.span = span::refused(&request.headers, &received, refused);
            }
        }
        Ok(identified)
    }

    /// Returns the [`PendingGrant`] with which a later step asks for the request's
    /// grant.
    pub(in crate::server) fn pending_grant(
        &mut self,
        identified: Arc<Identified>,
    ) -> PendingGrant<'_> {
        PendingGrant::new(identified, self.audit.as_deref_mut())
            .with_seats(&mut self.guards.in_flight)
    }

    pub(in crate::server) fn generation(&self) -> &Arc<Generation> {
        self.stage.generation()
    }

    pub(in crate::server) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Returns the time at which the header had been read, or at which the
    /// connection began to wait for it.
    pub(in crate::server) fn started(&self) -> Instant {
        let head = self.stage.head();
        head.map_or(self.waited_since, |head| head.started())
    }

    /// Returns the audit id, which is empty before the request was read.
    pub(in crate::server) fn audit_id(&self) -> HeaderValue {
        let head = self.stage.head();
        head.map_or(HeaderValue::from_static(""), |head| head.audit_id().clone())
    }

    /// Returns the query, or `None` before the request was read.
    pub(in crate::server) fn query(&self) -> Option<&Query> {
        self.stage.head().map(|head| head.query())
    }

    /// Tells whether the path belongs to a backend that classifies requests itself,
    /// too.
    pub(in crate::server) fn is_of_classifying_backend(&self) -> bool {
        let remote = self.stage.received().and_then(|received| received.remote());
        remote.is_some_and(|remote| remote.availability.classifies())
    }

    pub(in crate::server) fn is_watch(&self) -> bool {
        let received = self.stage.received();
        received.is_some_and(|received| received.info().verb == "watch")
    }

    /// Tells whether the path belongs to an APIService of the configuration.
    pub(in crate::server) fn is_routed(&self) -> bool {
        let received = self.stage.received();
        received.is_some_and(|received| received.route().is_some())
    }
}

/// Tells whether kube-apiserver would end this caller's HTTP/2 connection. It does
/// if the caller is refused as unauthenticated, or is anonymous. A caller who
/// impersonates a user counts as known.
fn is_unknown(identified: &Result<Arc<Identified>, Refused>, headers: &HeaderMap) -> bool {
    match identified {
        Ok(identified) => {
            let user = identified.user();
            user.is_some_and(|user| user.name == ANONYMOUS)
                && !headers.contains_key("impersonate-user")
        }
        Err(refused) => refused.status().http_status() == StatusCode::UNAUTHORIZED,
    }
}
