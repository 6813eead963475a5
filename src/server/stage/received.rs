//! A request as it was received: what it asks for, where it comes from, and its
//! `Audit-Id`.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use kubernetes_wire::api::{Query, Reason, Status};
use kubernetes_wire::request::{
    ConnectionOptions, Deadline, Protocol, RequestInfo, RequestInfoError, Upgrade,
};

use super::asking::Asking;
use super::handshake::Handshake;
use crate::aggregation::{Registered, Remote};
use crate::authn::Peer;
use crate::authz::DegradedBounds;
use crate::server::exchange::{Exchange, Failure};
use crate::server::state::gate::Gate;
use crate::server::state::generation::Generation;

/// The header with the request's id, which is the same in all audit logs.
pub(in crate::server) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The part of a request that is known even if the request cannot be understood.
pub(in crate::server) struct Head {
    generation: Arc<Generation>,
    started: Instant,
    client: Option<SocketAddr>,
    query: Query,
    audit_id: HeaderValue,
}

/// A request whose method, path and query are understood.
pub(in crate::server) struct Received {
    head: Head,
    info: RequestInfo,
    route: Option<Arc<Registered>>,
    connection: ConnectionOptions,
    /// Whether the client sent a certificate when the connection began.
    has_certificate: bool,
    handshake: Option<Handshake>,
    deadline: Deadline,
    /// Whether the configuration lets degraded mode answer reads of this resource to
    /// some callers.
    named: bool,
    degraded: Option<DegradedBounds>,
    /// The questions about the caller. Parts of the request have the same.
    asking: Arc<Asking>,
}

/// A request that cannot be understood, and the answer to it.
pub(in crate::server) struct Unreadable {
    pub(in crate::server) head: Box<Head>,
    pub(in crate::server) status: Status,
}

impl Head {
    fn read(exchange: &Exchange<'_>, generation: &Arc<Generation>) -> Self {
        let request = exchange.request();
        Self {
            generation: generation.clone(),
            started: Instant::now(),
            client: exchange.client_address(),
            query: Query::parse(request.uri.query().unwrap_or_default()),
            audit_id: audit_id(&request.headers),
        }
    }

    /// Returns the configuration and all parts that were in force when the
    /// request arrived.
    pub(in crate::server) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Returns the time at which the header had been read.
    pub(in crate::server) fn started(&self) -> Instant {
        self.started
    }

    pub(in crate::server) fn client(&self) -> Option<IpAddr> {
        self.client.map(|address| address.ip())
    }

    pub(in crate::server) fn client_address(&self) -> Option<SocketAddr> {
        self.client
    }

    pub(in crate::server) fn query(&self) -> &Query {
        &self.query
    }

    pub(in crate::server) fn audit_id(&self) -> &HeaderValue {
        &self.audit_id
    }
}

impl Received {
    pub(in crate::server) fn read(
        exchange: &Exchange<'_>,
        generation: &Arc<Generation>,
    ) -> Result<Arc<Self>, Unreadable> {
        let head = Head::read(exchange, generation);
        let request = exchange.request();
        let path = request.uri.path();
        let info = match RequestInfo::parse(&request.method, path, &head.query) {
            Ok(info) => info,
            Err(error) => {
                let status = unreadable(&error, path);
                let head = Box::new(head);
                return Err(Unreadable { head, status });
            }
        };
        let connection = ConnectionOptions::read(&request.headers, request.version);
        let has_certificate = exchange.peer().is_some_and(Peer::has_certificate);
        let handshake = connection.upgrade().and_then(|upgrade| {
            let owner = matches!(generation.gate, Gate::Owner);
            Handshake::read(request, upgrade, owner || has_certificate)
        });
        let route = generation.aggregation.route(&info.path).cloned();
        let named = route.is_none() && is_named(generation, &info);
        Ok(Arc::new(Self {
            asking: Arc::default(),
            named,
            degraded: degraded(generation).filter(|_| named),
            deadline: Deadline::from_query(&head.query),
            route,
            head,
            info,
            connection,
            has_certificate,
            handshake,
        }))
    }

    /// Returns a GET of the same client that answers a part of this request.
    pub(super) fn part(&self, path: &str, query: &str) -> Result<Self, RequestInfoError> {
        let generation = self.generation().clone();
        let query = Query::parse(query);
        let info = RequestInfo::parse(&Method::GET, path, &query)?;
        let route = generation.aggregation.route(&info.path).cloned();
        Ok(Self {
            head: Head {
                generation,
                started: self.started(),
                client: self.client,
                query,
                audit_id: self.audit_id().clone(),
            },
            info,
            route,
            connection: ConnectionOptions::default(),
            has_certificate: self.has_certificate,
            handshake: None,
            deadline: self.deadline,
            // Its caller was not identified for degraded mode.
            named: false,
            degraded: None,
            asking: self.asking.clone(),
        })
    }

    pub(super) fn asking(&self) -> &Asking {
        &self.asking
    }

    /// Does the work of this request, unless its client leaves while it waits for an
    /// answer about the caller.
    pub(in crate::server) async fn unless_gone<T>(
        &self,
        work: Pin<&mut impl Future<Output = T>>,
        gone: impl Future<Output = ()>,
    ) -> Result<T, Failure> {
        self.asking.unless_gone(work, gone).await
    }

    pub(in crate::server) fn has_certificate(&self) -> bool {
        self.has_certificate
    }

    pub(in crate::server) fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// Returns the route, if the path belongs to an APIService of the configuration.
    pub(in crate::server) fn route(&self) -> Option<&Registered> {
        self.route.as_deref()
    }

    pub(in crate::server) fn remote(&self) -> Option<&Remote> {
        self.route()?.remote.as_ref()
    }

    /// Returns the handshake of a WebSocket request, if apifront can answer it
    /// itself.
    pub(in crate::server) fn handshake(&self) -> Option<&Handshake> {
        self.handshake.as_ref()
    }

    /// Returns the limits of degraded mode, if it is on and some callers may read
    /// the resource in it.
    pub(super) fn degraded(&self) -> Option<DegradedBounds> {
        self.degraded
    }

    /// Tells whether some callers may read the resource in degraded mode.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Returns the request's connection options. Their fields were removed from the
    /// request when they were read, so pingora and the next server get a plain
    /// request.
    pub(in crate::server) fn connection(&self) -> &ConnectionOptions {
        &self.connection
    }

    /// Returns the upgrade with which the request must be forwarded. An upgrade that
    /// names no protocol counts only on paths where kube-apiserver hands its
    /// connection over. Elsewhere it is not meant as one.
    pub(in crate::server) fn upgrade(&self) -> Option<&Upgrade> {
        let upgrade = self.connection.upgrade()?;
        let is_meant = upgrade.protocol() != Protocol::Unnamed || self.info.takes_upgrades();
        is_meant.then_some(upgrade)
    }

    /// Tells whether no other request may follow on the connection, whatever the
    /// answer is. Where kube-apiserver expects upgrades, it ends the connection of
    /// one that is declined. The bytes that follow may not be meant as requests
    /// (CVE-2020-8559).
    pub(in crate::server) fn ends_connection(&self) -> bool {
        let written_here = self.info.verb == "watch" || self.info.subresource == "log";
        self.upgrade().is_some()
            && (self.info.takes_upgrades()
                || self.route.is_some()
                || written_here && self.connection.is_websocket())
    }

    pub(in crate::server) fn deadline(&self) -> Deadline {
        self.deadline
    }
}

impl Deref for Received {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

fn is_named(generation: &Generation, info: &RequestInfo) -> bool {
    let Some(degraded) = &generation.settings.degraded else {
        return false;
    };
    info.method == Method::GET
        && info.is_resource_request
        && info.subresource.is_empty()
        && matches!(info.verb.as_str(), "get" | "list" | "watch")
        && degraded.names_resource(&info.gvr)
}

fn degraded(generation: &Generation) -> Option<DegradedBounds> {
    let degraded = generation.settings.degraded.as_ref()?;
    generation.outage.is_degraded().then_some(degraded.bounds)
}

fn unreadable(error: &RequestInfoError, path: &str) -> Status {
    match error {
        RequestInfoError::BadEscape => Status::bad_request(error.to_string()),
        RequestInfoError::NoKind => {
            Status::failure(500, Reason::Unknown, format!("{error}, {path}"))
        }
    }
}

/// Returns the caller's own id, or a fresh one. A caller's id may have any length;
/// kube-apiserver takes it unchanged, too.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let own = headers.get(AUDIT_ID).filter(|id| !id.is_empty());
    let mut id = own.cloned().unwrap_or_else(fresh_audit_id);
    // Otherwise HTTP/2 would put the id into the connection's table of headers,
    // where it would push out headers that come again.
    id.set_sensitive(true);
    id
}

/// Makes a random id. Its bytes come from this thread's generator, because the
/// kernel's generator would need a system call for every request.
fn fresh_audit_id() -> HeaderValue {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let mut text = uuid::Uuid::encode_buffer();
    HeaderValue::from_str(id.hyphenated().encode_lower(&mut text))
        .unwrap_or(HeaderValue::from_static("unknown"))
}
