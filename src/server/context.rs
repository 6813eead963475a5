//! What is known of a request while it is on its way.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::{HeaderValue, UPGRADE};
use pingora_proxy::Session;

use super::admit::{self, Refused};
use super::cached::{self, Outcome, Upgrade};
use super::drain::OpenRequest;
use super::front::{Front, Gate};
use super::respond::{AUDIT_ID, Answer};
use super::websocket::Handshake;
use crate::aggregation::{self, Registered, Remote};
use crate::api::{Query, Status, UserInfo};
use crate::audit::Trail;
use crate::authn::Peer;
use crate::deprecation::Requested;
use crate::flow::{Admitted, OpenForwarded};
use crate::metrics::LongRunning;
use crate::read::{BypassReason, OpenWrite, WrittenVersion};
use crate::request::{RequestInfo, RequestInfoError};
use crate::upstream::{Endpoint, Upstream};

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
    pub(super) started: Instant,
    pub(super) front: Arc<Front>,
    pub(super) client: Option<IpAddr>,
    pub(super) query: Query,
    /// `None` until, and unless, the request was understood.
    pub(super) info: Option<RequestInfo>,
    /// The APIService of a backend that it is for.
    pub(super) route: Option<Arc<Registered>>,
    pub(super) user: Option<UserInfo>,
    /// Upstream is asked to act as somebody else, and decides that.
    pub(super) impersonates_upstream: bool,
    pub(super) cache: CacheResult,
    /// Of a request for a WebSocket that can be answered here.
    pub(super) handshake: Option<Handshake>,
    pub(super) audit_id: HeaderValue,
    /// Of a request that is audited; `annotate` adds to its events. The last
    /// event is made when it is dropped.
    pub(super) audit: Option<Box<Trail>>,
    pub(super) forward: Forward,
    /// 0 until something was answered.
    pub(super) code: u16,
    pub(super) response_bytes: usize,
    /// What was answered is of a deprecated API.
    pub(super) deprecated: Option<Requested>,
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
    /// Upstream may have acted on the request without saying so.
    pub(super) outcome_unknown: bool,
    /// When an API server was asked, or was to be.
    pub(super) asked: Option<Instant>,
    /// When its answer began.
    pub(super) answered: Option<Instant>,
    /// A write that has succeeded, while its answer is passed on.
    pub(super) write: Option<(OpenWrite, WrittenVersion)>,
}

impl Forward {
    /// How long upstream took to begin its answer, or to fail.
    pub(super) fn took(&self) -> Option<Duration> {
        let answered = self.answered.unwrap_or_else(Instant::now);
        self.asked
            .map(|asked| answered.saturating_duration_since(asked))
    }
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
            started: Instant::now(),
            guards: Guards {
                open: Some(front.drain.open()),
                ..Guards::default()
            },
            front,
            client: None,
            query: Query::default(),
            info: None,
            route: None,
            user: None,
            impersonates_upstream: false,
            cache: CacheResult::NotAsked,
            handshake: None,
            audit_id: HeaderValue::from_static(""),
            audit: None,
            forward: Forward::default(),
            code: 0,
            response_bytes: 0,
            deprecated: None,
            detached: false,
        }
    }

    /// Reads method, path and query. An answer is a refusal.
    pub(super) fn read(&mut self, session: &Session) -> Option<Answer> {
        // The context is made when the connection begins to wait for a request.
        self.started = Instant::now();
        let request = session.req_header();
        self.audit_id = audit_id(&request.headers);
        self.client = session
            .client_addr()
            .and_then(|a| a.as_inet())
            .map(|a| a.ip());
        self.query = Query::parse(request.uri.query().unwrap_or_default());
        let path = request.uri.path();
        match RequestInfo::parse(&request.method, path, &self.query) {
            Ok(info) => {
                self.route = self.front.aggregation.route(&info.path).cloned();
                self.info = Some(info);
            }
            Err(error) => return Some(self.unreadable(error, &request.headers, path)),
        }
        None
    }

    fn unreadable(&self, error: RequestInfoError, headers: &HeaderMap, path: &str) -> Answer {
        let status = match error {
            RequestInfoError::BadEscape => Status::bad_request(error.to_string()),
            RequestInfoError::NoKind => {
                Status::failure(500, crate::api::Reason::Unknown, format!("{error}, {path}"))
            }
        };
        Answer::from_status(&status, headers, &self.query)
    }

    /// Authentication, impersonation. An answer is a refusal.
    pub(super) async fn enter(&mut self, session: &Session) -> Option<Answer> {
        let request = session.req_header();
        let info = self.info.as_ref()?;
        let unknown = Peer::unknown();
        let peer = session
            .digest()
            .and_then(|d| d.ssl_digest.as_ref())
            .and_then(|ssl| ssl.extension.get::<Peer>())
            .unwrap_or(&unknown);
        let authority = request.uri.authority().map(|a| a.as_str());
        let other_credentials = matches!(self.front.gate, Gate::Owner) || peer.has_certificate();
        self.handshake = Handshake::read(request, other_credentials);
        let backend = self.route.is_some();
        let admitted = admit::admit(
            &self.front,
            &request.headers,
            authority,
            peer,
            info,
            backend,
        )
        .await;
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(refused) => {
                self.audit_refused(session, &refused);
                let answer = Answer::from_status(refused.status(), &request.headers, &self.query);
                return Some(match refused {
                    Refused::Later {
                        by_impersonation: true,
                        ..
                    } => answer.without_sniffing(),
                    Refused::Caller(_) | Refused::Later { .. } => answer,
                });
            }
        };
        self.audit_admitted(session, &admitted);
        self.user = admitted.user;
        self.impersonates_upstream = admitted.impersonates_upstream;
        self.forward.identity = admitted.identity;
        None
    }

    /// The backend it is for.
    pub(super) fn remote(&self) -> Option<&Remote> {
        self.route.as_ref()?.remote.as_ref()
    }

    /// The servers it is for.
    pub(super) fn upstream(&self) -> Arc<Upstream> {
        match self.remote() {
            Some(remote) => remote.backend.upstream.load_full(),
            None => self.front.cache.upstream(),
        }
    }

    pub(super) async fn ask_cache(&mut self, session: &Session) -> Outcome {
        let Some(info) = &self.info else {
            return Outcome::NotAsked;
        };
        // Cached bytes are what apifront's user may see, not somebody else.
        if self.impersonates_upstream {
            return Outcome::Bypass(BypassReason::UnusualRequest);
        }
        let headers = &session.req_header().headers;
        let upgrade = match &self.handshake {
            Some(_) => Upgrade::WebSocket,
            None if headers.contains_key(UPGRADE) => Upgrade::Other,
            None => Upgrade::No,
        };
        let user = self.user.as_ref();
        let trail = self.audit.as_deref_mut();
        cached::answer(
            &self.front,
            info,
            &self.query,
            headers,
            upgrade,
            user,
            trail,
        )
        .await
    }
}

/// The caller's, however long: kube-apiserver takes it as it is.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    headers
        .get(AUDIT_ID)
        .filter(|id| !id.is_empty())
        .cloned()
        .unwrap_or_else(fresh_audit_id)
}

/// Random bytes are this thread's: the kernel's would be a system call for
/// every request.
fn fresh_audit_id() -> HeaderValue {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let mut text = uuid::Uuid::encode_buffer();
    HeaderValue::from_str(id.hyphenated().encode_lower(&mut text))
        .unwrap_or(HeaderValue::from_static("unknown"))
}
