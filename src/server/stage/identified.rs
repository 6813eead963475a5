//! A request whose caller is known: authentication, impersonation, and the
//! headers that will name the caller upstream.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use apifront_upstream::cdn_loop;
use http::HeaderMap;
use kubernetes_wire::api::{Reason, Status, UserInfo};
use kubernetes_wire::request::{RequestInfo, RequestInfoError};

use super::received::Received;
use crate::authn::{Impersonation, Peer, Presented};
use crate::authz::impersonation_mode::Mode;
use crate::authz::{DegradedBounds, Purpose};
use crate::flow::RequestDigest;
use crate::identity::{self, Caller as Named};
use crate::server::exchange::{Exchange, Shown};
use crate::server::listener::loopback_guard;
use crate::server::state::gate::{Delegated, Gate};
use crate::shapes::Rule;

pub(in crate::server) struct Identified {
    received: Arc<Received>,
    caller: Caller,
    impersonator: Option<Box<Impersonator>>,
    /// The limits of degraded mode, if degraded mode may answer the caller.
    degraded: Option<DegradedBounds>,
    /// The headers that name the caller upstream. They replace the headers with
    /// which the caller claims an identity.
    identity: HeaderMap,
    /// The rule about the shape of the answer, once it was looked for.
    shape_rule: OnceLock<Option<Arc<Rule>>>,
}

/// The user that a request acts as.
#[derive(Clone)]
pub(super) enum Caller {
    /// apifront's own user. Upstream knows the name, and may have told it.
    Owner(Option<Arc<UserInfo>>),
    /// The owner asks upstream to act as another user. Only upstream can tell what
    /// that user may see.
    OwnerAsSomebody,
    User(UserInfo),
}

/// The caller who acts as another user.
#[derive(Clone)]
pub(in crate::server) struct Impersonator {
    pub(in crate::server) caller: UserInfo,
    /// The verb that allowed the impersonation. It is empty for the impersonation of
    /// releases before Kubernetes 1.36.
    pub(in crate::server) constraint: &'static str,
}

pub(in crate::server) enum Refused {
    /// The caller could not be authenticated.
    Caller(Status),
    /// The caller is known, but may not act as the other user, or cannot be
    /// named upstream.
    Later {
        status: Status,
        caller: Option<UserInfo>,
        /// Whether the answer tells browsers not to guess its type, as
        /// kube-apiserver's impersonation filter does.
        by_impersonation: bool,
    },
}

impl Refused {
    pub(in crate::server) fn status(&self) -> &Status {
        match self {
            Self::Caller(status) | Self::Later { status, .. } => status,
        }
    }

    fn impersonation(status: Status, caller: Option<&UserInfo>) -> Self {
        Self::Later {
            status,
            caller: caller.cloned(),
            by_impersonation: true,
        }
    }

    fn identity(status: Status, caller: Option<&UserInfo>) -> Self {
        Self::Later {
            status,
            caller: caller.cloned(),
            by_impersonation: false,
        }
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Caller(status)
    }
}

/// The reason why a request has no known caller.
pub(in crate::server) enum Unidentified {
    Refused(Box<Refused>),
    /// The client went away while upstream was asked who the caller is, or whether it
    /// may act as another user. That can take one question for each group that the
    /// caller names.
    ClientGone,
}

impl<R: Into<Refused>> From<R> for Unidentified {
    fn from(refused: R) -> Self {
        Self::Refused(Box::new(refused.into()))
    }
}

impl Identified {
    pub(in crate::server) async fn identify(
        received: Arc<Received>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Arc<Self>, Unidentified> {
        let generation = received.generation().clone();
        let identified = match &generation.gate {
            Gate::Owner => owner(received, exchange)?,
            Gate::Delegated(gate) => delegated(received, exchange, gate).await?,
        };
        Ok(Arc::new(identified))
    }

    /// Returns a GET of the same caller that answers a part of this request. It has its
    /// own grant.
    pub(in crate::server) fn part(
        &self,
        path: &str,
        query: &str,
    ) -> Result<Arc<Self>, RequestInfoError> {
        Ok(Arc::new(Self {
            received: Arc::new(self.received.part(path, query)?),
            caller: self.caller.clone(),
            impersonator: self.impersonator.clone(),
            degraded: None,
            identity: self.identity.clone(),
            shape_rule: OnceLock::new(),
        }))
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the user, or `None` for apifront's own user, whom upstream knows.
    pub(in crate::server) fn user(&self) -> Option<&UserInfo> {
        match &self.caller {
            Caller::User(user) => Some(user),
            Caller::Owner(_) | Caller::OwnerAsSomebody => None,
        }
    }

    /// Returns the caller, if the request acts as another user.
    pub(in crate::server) fn impersonator(&self) -> Option<&Impersonator> {
        self.impersonator.as_deref()
    }

    /// Returns the user who was authenticated: the caller, even if the request acts
    /// as another user.
    pub(in crate::server) fn known(&self) -> Option<&UserInfo> {
        let impersonator = self.impersonator.as_ref().map(|i| &i.caller);
        impersonator.or(self.user())
    }

    /// Returns the limits of degraded mode, if the request is answered in it. The
    /// caller may then be identified by what was known before the outage, so the
    /// request is not forwarded.
    pub(in crate::server) fn degraded(&self) -> Option<DegradedBounds> {
        self.degraded
    }

    pub(super) fn purpose(&self) -> Purpose {
        if let Some(bounds) = self.degraded {
            return Purpose::Degraded(bounds);
        }
        let degraded = &self.generation().settings.degraded;
        let named = self.is_named()
            && degraded
                .as_ref()
                .zip(self.user())
                .is_some_and(|(degraded, user)| degraded.names(&self.info().gvr, user));
        match named {
            true => Purpose::NamedRead,
            false => Purpose::Usual,
        }
    }

    pub(in crate::server) fn identity(&self) -> &HeaderMap {
        &self.identity
    }

    /// Returns the rule by which a read of this caller is answered in a shape that was
    /// not asked for. The cache of another apifront reads whole objects, which it shows
    /// to callers whom this one does not know.
    pub(in crate::server) fn shape_rule(&self, headers: &HeaderMap) -> Option<&Arc<Rule>> {
        let find = || match cdn_loop::is_of_a_cache(headers) {
            true => None,
            false => {
                let shapes = &self.generation().shapes;
                shapes.rule_for(self.user(), headers, &self.info().gvr)
            }
        };
        self.shape_rule.get_or_init(find).as_ref()
    }
}

impl Deref for Identified {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}

impl RequestDigest for Identified {
    fn info(&self) -> &RequestInfo {
        self.received.info()
    }

    fn user(&self) -> Option<&UserInfo> {
        match &self.caller {
            Caller::User(user) => Some(user),
            Caller::Owner(user) => user.as_deref(),
            Caller::OwnerAsSomebody => None,
        }
    }
}

fn owner(received: Arc<Received>, exchange: &Exchange<'_>) -> Result<Identified, Refused> {
    let (request, target) = (exchange.request(), exchange.target());
    if let Some(why) = loopback_guard::foreign(request, target, exchange.server_port()) {
        let status = Status::failure(403, Reason::Forbidden, why);
        return Err(Refused::identity(status, None));
    }
    let headers = &exchange.request().headers;
    let impersonation =
        Impersonation::from_headers(headers).map_err(|s| Refused::impersonation(s, None))?;
    let named = Named {
        user: &UserInfo::default(),
        token: None,
        impersonation: impersonation.as_ref(),
    };
    let caller = match &impersonation {
        Some(_) => Caller::OwnerAsSomebody,
        None => Caller::Owner(received.generation().own_user.get()),
    };
    Ok(Identified {
        received,
        caller,
        impersonator: None,
        degraded: None,
        identity: identity_headers(identity::Mode::Personal, named)
            .map_err(|s| Refused::identity(s, None))?,
        shape_rule: OnceLock::new(),
    })
}

async fn delegated(
    received: Arc<Received>,
    exchange: &mut Exchange<'_>,
    gate: &Delegated,
) -> Result<Identified, Unidentified> {
    let mut apart = exchange.apart();
    let (shown, gone) = apart.split();
    tokio::select! {
        biased;
        identified = of_user(received, shown, gate) => Ok(identified?),
        () = gone => Err(Unidentified::ClientGone),
    }
}

async fn of_user(
    received: Arc<Received>,
    shown: Shown<'_>,
    gate: &Delegated,
) -> Result<Identified, Refused> {
    // In degraded mode, what was known before the outage counts only for a caller
    // whom the configuration names. All others are identified as if there were no
    // degraded mode.
    if let Some(bounds) = received.degraded()
        && let Ok(known) = known(&received, shown, gate, Some(bounds)).await
        && let Some(degraded) = &received.generation().settings.degraded
        && degraded.names(&received.info().gvr, &known.user)
    {
        return identified(received, known, gate, Some(bounds));
    }
    let known = known(&received, shown, gate, None).await?;
    identified(received, known, gate, None)
}

struct Known {
    user: UserInfo,
    token: Option<String>,
    impersonation: Option<Impersonation>,
    impersonator: Option<Box<Impersonator>>,
}

async fn known(
    received: &Received,
    shown: Shown<'_>,
    gate: &Delegated,
    degraded: Option<DegradedBounds>,
) -> Result<Known, Refused> {
    let headers = &shown.request.headers;
    let unknown = Peer::unknown();
    let peer = shown.peer().unwrap_or(&unknown);
    let max_age = degraded.map(|bounds| bounds.max_age);
    let purpose = match degraded {
        Some(bounds) => Purpose::Degraded(bounds),
        None if received.is_named() => Purpose::NamedRead,
        None => Purpose::Usual,
    };
    let presented = Presented {
        headers,
        connection: received.connection(),
        peer,
        from: received.client(),
    };
    let caller = gate.authenticator.authenticate(&presented, max_age).await?;
    let mut user = caller.user;
    let impersonation =
        Impersonation::from_headers(headers).map_err(|s| Refused::impersonation(s, Some(&user)))?;
    let mut impersonator = None;
    if let Some(impersonation) = &impersonation {
        let attributes = received.info().attributes();
        let impersonated = gate
            .impersonator
            .impersonate(&user, impersonation, &attributes, purpose)
            .await
            .map_err(|s| Refused::identity(s, Some(&user)))?;
        impersonator = Some(Box::new(Impersonator {
            caller: std::mem::replace(&mut user, impersonated.user),
            constraint: match impersonated.mode {
                Mode::Legacy => "",
                mode => mode.verb(),
            },
        }));
    }
    Ok(Known {
        user,
        token: caller.token,
        impersonation,
        impersonator,
    })
}

fn identified(
    received: Arc<Received>,
    known: Known,
    gate: &Delegated,
    degraded: Option<DegradedBounds>,
) -> Result<Identified, Refused> {
    let Known {
        user,
        token,
        impersonation,
        impersonator,
    } = known;
    // Backends take the user's name from headers, as they do behind kube-apiserver.
    let mode = match received.route() {
        Some(_) => identity::Mode::RequestHeader,
        None => gate.forward_as,
    };
    let known = impersonator.as_ref().map_or(&user, |i| &i.caller);
    let named = Named {
        user: &user,
        token: token.as_deref(),
        impersonation: impersonation.as_ref(),
    };
    let identity = identity_headers(mode, named).map_err(|s| Refused::identity(s, Some(known)))?;
    Ok(Identified {
        received,
        caller: Caller::User(user),
        impersonator,
        degraded,
        identity,
        shape_rule: OnceLock::new(),
    })
}

fn identity_headers(mode: identity::Mode, caller: Named<'_>) -> Result<HeaderMap, Status> {
    let mut headers = HeaderMap::new();
    identity::apply(mode, caller, &mut headers)?;
    Ok(headers)
}
