//! The rule by which callers are admitted.

use std::sync::Arc;

use crate::authn::{Authenticator, RequestHeaderNames};
use crate::authz::{Authorizer, ImpersonationAuthorizer};
use crate::identity;

/// The rule that decides who is admitted, and as which user each caller acts.
pub enum Gate {
    /// Every caller who reaches the loopback listener acts as apifront's own
    /// user.
    Owner,
    Delegated(Box<Delegated>),
}

pub struct Delegated {
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
    pub impersonator: Arc<ImpersonationAuthorizer>,
    /// The header names of the front proxy, if one is trusted.
    pub front_proxy: Option<RequestHeaderNames>,
    pub forward_as: identity::Mode,
}

impl Gate {
    /// Tells whether requests are made as apifront's own user.
    pub(in crate::server) fn is_owner(&self) -> bool {
        matches!(self, Self::Owner)
    }

    /// Returns the header names of a trusted front proxy.
    pub(in crate::server) fn front_proxy(&self) -> Option<&RequestHeaderNames> {
        match self {
            Self::Owner => None,
            Self::Delegated(gate) => gate.front_proxy.as_ref(),
        }
    }
}
