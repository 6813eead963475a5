//! The latest stage that a request has reached.

use std::sync::Arc;

use super::identified::Identified;
use super::received::{Head, Received};
use crate::server::state::generation::Generation;

pub(in crate::server) enum Stage {
    /// The connection waits for a request. Or the request was refused, because two
    /// parsers could read it differently.
    Waiting(Arc<Generation>),
    /// The request's method, path or query cannot be understood.
    Unreadable(Box<Head>),
    Received(Arc<Received>),
    Identified(Arc<Identified>),
}

impl Stage {
    /// Returns the configuration and all parts that the request is served with.
    pub(in crate::server) fn generation(&self) -> &Arc<Generation> {
        match self {
            Self::Waiting(generation) => generation,
            Self::Unreadable(head) => head.generation(),
            Self::Received(received) => received.generation(),
            Self::Identified(identified) => identified.generation(),
        }
    }

    pub(in crate::server) fn head(&self) -> Option<&Head> {
        match self {
            Self::Waiting(_) => None,
            Self::Unreadable(head) => Some(head),
            Self::Received(received) => Some(received),
            Self::Identified(identified) => Some(identified),
        }
    }

    pub(in crate::server) fn received(&self) -> Option<&Received> {
        match self {
            Self::Waiting(_) | Self::Unreadable(_) => None,
            Self::Received(received) => Some(received),
            Self::Identified(identified) => Some(identified),
        }
    }

    pub(in crate::server) fn identified(&self) -> Option<&Arc<Identified>> {
        match self {
            Self::Identified(identified) => Some(identified),
            Self::Waiting(_) | Self::Unreadable(_) | Self::Received(_) => None,
        }
    }
}
