//! The stages of a request, by what is known of it. Each stage is a value that
//! only the stage before it can make, and that does not change any more.
//!
//! ```text
//! Head ─▶ Received ─▶ Identified ─▶ Granted
//! always  understood   who asks     may do exactly this
//! ```
//!
//! `Received` and `Identified` are shared, because a request that goes on in a
//! task of its own takes its stage along.

pub(super) mod access_log;
mod asking;
pub(super) mod audit;
pub(super) mod context;
pub(super) mod flow_control;
pub(super) mod forward_slots;
pub(super) mod forwarded;
mod granted;
mod granted_view;
pub(super) mod handshake;
mod identified;
mod list_work;
pub(super) mod observed;
mod reached;
mod received;
pub(super) mod seats;
pub(super) mod span;
pub(super) mod talker;
mod too_many_requests;
mod width_estimate;

pub(super) use granted::{Granted, NotGranted, PendingGrant};
pub(super) use granted_view::{
    GrantedView, NoView, coverage as view_coverage, is_of_viewer, is_wanted as wants_view,
    may_have as may_have_view, reason as view_reason,
};
pub(super) use identified::{Identified, Refused};
pub(super) use received::{AUDIT_ID, Received};
