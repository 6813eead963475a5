//! Decides which callers are admitted, and as which user each of them acts.

use std::sync::Arc;

use crate::authn::{Authenticator, RequestHeaderNames};
use crate::authz::{Authorizer, ImpersonationAuthorizer};
use crate::identity;

pub(crate) enum Gate {
    /// Every caller who reaches the loopback listener acts as apifront's own
    /// user.
    Owner,
    Delegated(Box<Delegated>),
}

pub(crate) struct Delegated {
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
    pub impersonator: Arc<ImpersonationAuthorizer>,
    pub front_proxy: Option<RequestHeaderNames>,
    pub forward_as: identity::Mode,
}

impl Gate {
    pub(in crate::server) fn is_owner(&self) -> bool {
        matches!(self, Self::Owner)
    }

    pub(in crate::server) fn front_proxy(&self) -> Option<&RequestHeaderNames> {
        match self {
            Self::Owner => None,
            Self::Delegated(gate) => gate.front_proxy.as_ref(),
        }
    }
}
