//! The gate through which callers come in.

use std::sync::Arc;

use crate::authn::{Authenticator, RequestHeaderNames};
use crate::authz::{Authorizer, ImpersonationAuthorizer};
use crate::identity;

/// The rule of who may come in, and as which user each goes on.
pub enum Gate {
    /// Whoever reaches the loopback listener acts as apifront's own user.
    Owner,
    Delegated(Box<Delegated>),
}

pub struct Delegated {
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
    pub impersonator: Arc<ImpersonationAuthorizer>,
    /// The front proxy's header names, where one is trusted.
    pub front_proxy: Option<RequestHeaderNames>,
    pub forward_as: identity::Mode,
}

impl Gate {
    /// Whether requests are made as apifront's own user.
    pub(in crate::server) fn is_owner(&self) -> bool {
        matches!(self, Self::Owner)
    }

    /// The header names of a trusted front proxy.
    pub(in crate::server) fn front_proxy(&self) -> Option<&RequestHeaderNames> {
        match self {
            Self::Owner => None,
            Self::Delegated(gate) => gate.front_proxy.as_ref(),
        }
    }
}
