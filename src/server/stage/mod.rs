//! What is known of a request, in stages: each is a value that only the stage
//! before it can make, and that does not change any more.
//!
//! ```text
//! Head ─▶ Received ─▶ Identified ─▶ Granted
//! always  understood   who asks     may do exactly this
//! ```
//!
//! `Received` and `Identified` are shared: whatever goes on in a task of its own
//! takes its stage along.

pub(super) mod access_log;
pub(super) mod audit;
pub(super) mod context;
mod granted;
pub(super) mod handshake;
mod identified;
pub(super) mod long_running;
mod received;
pub(super) mod seats;

use std::sync::Arc;

pub(super) use granted::{Granted, Leave, Ungranted};
pub(super) use identified::{Identified, Refused};
pub(super) use received::{Head, Received};

/// The latest stage a request has reached, for its record.
pub(super) enum Stage {
    /// The connection waits for a request, or it was refused as one that two
    /// parsers could read differently.
    Waiting,
    /// Nobody can tell what is asked for.
    Unreadable(Box<Head>),
    Received(Arc<Received>),
    Identified(Arc<Identified>),
}

impl Stage {
    pub(super) fn head(&self) -> Option<&Head> {
        match self {
            Self::Waiting => None,
            Self::Unreadable(head) => Some(head),
            Self::Received(received) => Some(received),
            Self::Identified(identified) => Some(identified),
        }
    }

    pub(super) fn received(&self) -> Option<&Received> {
        match self {
            Self::Waiting | Self::Unreadable(_) => None,
            Self::Received(received) => Some(received),
            Self::Identified(identified) => Some(identified),
        }
    }

    pub(super) fn identified(&self) -> Option<&Arc<Identified>> {
        match self {
            Self::Identified(identified) => Some(identified),
            Self::Waiting | Self::Unreadable(_) | Self::Received(_) => None,
        }
    }
}
