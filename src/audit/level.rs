//! How much of a request is recorded, and when: `audit.k8s.io/v1` Level and
//! Stage.

/// In order: each records what the one before does, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The request leaves no event.
    None,
    /// Who, what, when and how it ended.
    Metadata,
    /// The request's object too.
    Request,
    /// The same, and the object of the response.
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

/// A moment in a request's life that makes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before anything is done.
    RequestReceived,
    /// The head of the answer is out; of long-running requests alone.
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

/// A set of stages.
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

/// The events that a policy wants of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub level: Level,
    pub omit_stages: Stages,
    pub omit_managed_fields: bool,
}
