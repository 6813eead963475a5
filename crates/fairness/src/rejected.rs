//! Why a request is refused with 429.

/// The reason, as in the label `reason` of
/// `apiserver_flowcontrol_rejected_requests_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("too many requests: {}", self.as_str())]
pub enum Rejected {
    /// The level has no queues, and no seats are free.
    ConcurrencyLimit,
    /// The queue of the request's flow is full.
    QueueFull,
    /// The request's waiting time ran out, or its client left.
    TimeOut,
}

impl Rejected {
    pub const ALL: [Self; 3] = [Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}
