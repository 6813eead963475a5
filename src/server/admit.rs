//! From a request's credentials to the identity it goes on with.

use http::HeaderMap;

use super::front::{Delegated, Front, Gate};
use crate::api::{Reason, Status, UserInfo};
use crate::authn::{Impersonation, Peer};
use crate::authz::impersonation::Mode;
use crate::identity::{self, Caller};
use crate::request::RequestInfo;

/// A caller who may go on.
pub(super) struct Admitted {
    /// `None`: apifront's own user, whom upstream knows.
    pub(super) user: Option<UserInfo>,
    pub(super) impersonation: Option<Box<Impersonator>>,
    /// The caller asks upstream to act as somebody else, and upstream decides.
    pub(super) impersonates_upstream: bool,
    /// What makes the caller known upstream.
    pub(super) identity: HeaderMap,
}

/// Who goes on as somebody else.
pub(super) struct Impersonator {
    pub(super) caller: UserInfo,
    /// The verb that allowed it; empty of the mode before Kubernetes 1.36.
    pub(super) constraint: &'static str,
}

/// Why a caller may not go on.
pub(super) enum Refused {
    /// Nobody knows who it is.
    Caller(Status),
    /// It is somebody, who may not be somebody else or cannot be named upstream.
    Later {
        status: Status,
        caller: Option<UserInfo>,
        /// kube-apiserver's impersonation filter guards its answers against
        /// sniffing.
        by_impersonation: bool,
    },
}

impl Refused {
    pub(super) fn status(&self) -> &Status {
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

pub(super) async fn admit(
    front: &Front,
    headers: &HeaderMap,
    foreign: Option<&'static str>,
    peer: &Peer,
    info: &RequestInfo,
    backend: bool,
) -> Result<Admitted, Refused> {
    match &front.gate {
        Gate::Owner => owner(headers, foreign),
        Gate::Delegated(gate) => {
            // Backends take names from headers, as from kube-apiserver.
            let mode = match backend {
                true => identity::Mode::RequestHeader,
                false => gate.forward_as,
            };
            delegated(gate, headers, peer, info, mode).await
        }
    }
}

/// `foreign` says why the request is not the owner's.
fn owner(headers: &HeaderMap, foreign: Option<&'static str>) -> Result<Admitted, Refused> {
    if let Some(why) = foreign {
        let status = Status::failure(403, Reason::Forbidden, why);
        return Err(Refused::identity(status, None));
    }
    let impersonation =
        Impersonation::from_headers(headers).map_err(|s| Refused::impersonation(s, None))?;
    let caller = Caller {
        user: &UserInfo::default(),
        token: None,
        impersonation: impersonation.as_ref(),
    };
    Ok(Admitted {
        user: None,
        impersonation: None,
        impersonates_upstream: impersonation.is_some(),
        identity: identity_headers(identity::Mode::Personal, caller)
            .map_err(|s| Refused::identity(s, None))?,
    })
}

async fn delegated(
    gate: &Delegated,
    headers: &HeaderMap,
    peer: &Peer,
    info: &RequestInfo,
    mode: identity::Mode,
) -> Result<Admitted, Refused> {
    let caller = gate.authenticator.authenticate(headers, peer).await?;
    let mut user = caller.user;
    let impersonation =
        Impersonation::from_headers(headers).map_err(|s| Refused::impersonation(s, Some(&user)))?;
    let mut impersonator = None;
    if let Some(impersonation) = &impersonation {
        let impersonated = gate
            .impersonator
            .impersonate(&user, impersonation, &info.attributes())
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
    let known = impersonator.as_ref().map_or(&user, |i| &i.caller);
    let caller = Caller {
        user: &user,
        token: caller.token.as_deref(),
        impersonation: impersonation.as_ref(),
    };
    let identity = identity_headers(mode, caller).map_err(|s| Refused::identity(s, Some(known)))?;
    Ok(Admitted {
        user: Some(user),
        impersonation: impersonator,
        impersonates_upstream: false,
        identity,
    })
}

fn identity_headers(mode: identity::Mode, caller: Caller<'_>) -> Result<HeaderMap, Status> {
    let mut headers = HeaderMap::new();
    identity::apply(mode, caller, &mut headers)?;
    Ok(headers)
}
