//! The latest stage that a request has reached.

use std::sync::Arc;

use super::identified::Identified;
use super::received::{Head, Received};

/// The latest stage a request has reached, for its record.
pub(in crate::server) enum Stage {
    /// The connection waits for a request, or it was refused as one that two
    /// parsers could read differently.
    Waiting,
    /// Nobody can tell what is asked for.
    Unreadable(Box<Head>),
    Received(Arc<Received>),
    Identified(Arc<Identified>),
}

impl Stage {
    pub(in crate::server) fn head(&self) -> Option<&Head> {
        match self {
            Self::Waiting => None,
            Self::Unreadable(head) => Some(head),
            Self::Received(received) => Some(received),
            Self::Identified(identified) => Some(identified),
        }
    }

    pub(in crate::server) fn received(&self) -> Option<&Received> {
        match self {
            Self::Waiting | Self::Unreadable(_) => None,
            Self::Received(received) => Some(received),
            Self::Identified(identified) => Some(identified),
        }
    }

    pub(in crate::server) fn identified(&self) -> Option<&Arc<Identified>> {
        match self {
            Self::Identified(identified) => Some(identified),
            Self::Waiting | Self::Unreadable(_) | Self::Received(_) => None,
        }
    }
}
