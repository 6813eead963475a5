//! The kind of a request, by which it is counted.

use kubernetes_wire::request::RequestInfo;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    ReadOnly,
    Mutating,
    /// A watch, which holds seats until its initial events are sent.
    Watch,
    /// A request that may hold its slot for hours, and takes no seats.
    LongRunning,
}

impl RequestKind {
    pub fn from_info(info: &RequestInfo) -> Self {
        if info.verb == "watch" {
            Self::Watch
        } else if info.is_long_running() {
            Self::LongRunning
        } else if info.is_mutating() {
            Self::Mutating
        } else {
            Self::ReadOnly
        }
    }
}
