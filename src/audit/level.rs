//! How much an event records, and when events are made: `audit.k8s.io/v1` Level and
//! Stage. `policy.rs` decides which of them a request has.

/// The levels in order: each records more than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The request leaves no event.
    None,
    /// The caller, the request, its time and its end.
    Metadata,
    /// Also the request's object.
    Request,
    /// Also the response's object.
    RequestResponse,
}

impl Level {
    pub const ALL: [Self; 4] = [
        Self::None,
        Self::Metadata,
        Self::Request,
        Self::RequestResponse,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// A moment of a request at which an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the request is handled.
    RequestReceived,
    /// The head of the answer is sent. Only long-running requests have this
    /// stage.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    pub const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    pub fn with(self, stage: Stage) -> Self {
        Self(self.0 | 1 << stage as u8)
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }
}
