//! From a request's credentials to the identity it goes on with.

use http::HeaderMap;

use super::front::{Delegated, Front, Gate};
use super::personal;
use crate::api::{Reason, Status, UserInfo};
use crate::authn::{Impersonation, Peer};
use crate::identity::{self, Caller};
use crate::request::RequestInfo;

/// A caller who may go on.
pub(super) struct Admitted {
    /// `None`: apifront's own user, whom upstream knows.
    pub(super) user: Option<UserInfo>,
    /// The caller asks upstream to act as somebody else, and upstream decides.
    pub(super) impersonates_upstream: bool,
    /// What makes the caller known upstream.
    pub(super) identity: HeaderMap,
}

/// Why a caller may not go on.
pub(super) enum Refused {
    Caller(Status),
    /// kube-apiserver's impersonation filter guards its answers against
    /// sniffing.
    Impersonation(Status),
}

impl Refused {
    pub(super) fn status(&self) -> &Status {
        match self {
            Self::Caller(status) | Self::Impersonation(status) => status,
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
    authority: Option<&str>,
    peer: &Peer,
    info: &RequestInfo,
    backend: bool,
) -> Result<Admitted, Refused> {
    match &front.gate {
        Gate::Owner => owner(headers, authority),
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

fn owner(headers: &HeaderMap, authority: Option<&str>) -> Result<Admitted, Refused> {
    if !personal::is_local(headers, authority) {
        return Err(Status::failure(
            403,
            Reason::Forbidden,
            "this listener answers only requests to localhost, from no foreign web page",
        )
        .into());
    }
    let impersonation = Impersonation::from_headers(headers).map_err(Refused::Impersonation)?;
    let caller = Caller {
        user: &UserInfo::default(),
        token: None,
        impersonation: impersonation.as_ref(),
    };
    Ok(Admitted {
        user: None,
        impersonates_upstream: impersonation.is_some(),
        identity: identity_headers(identity::Mode::Personal, caller)?,
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
    let impersonation = Impersonation::from_headers(headers).map_err(Refused::Impersonation)?;
    let mut user = caller.user;
    if let Some(impersonation) = &impersonation {
        user = gate
            .impersonator
            .impersonate(&user, impersonation, &info.attributes())
            .await?
            .user;
    }
    let caller = Caller {
        user: &user,
        token: caller.token.as_deref(),
        impersonation: impersonation.as_ref(),
    };
    let identity = identity_headers(mode, caller)?;
    Ok(Admitted {
        user: Some(user),
        impersonates_upstream: false,
        identity,
    })
}

fn identity_headers(mode: identity::Mode, caller: Caller<'_>) -> Result<HeaderMap, Status> {
    let mut headers = HeaderMap::new();
    identity::apply(mode, caller, &mut headers)?;
    Ok(headers)
}
