//! The ways in which a list fails.

use std::time::Duration;

use apifront_source::SourceError;
use http::StatusCode;

use super::memory_pool::MemoryExhausted;
use crate::store::MalformedObject;

#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    /// The resource does not exist, cannot be listed, or apifront may not list
    /// it.
    #[error("the API server answers {status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("the API server answers {status}: {message}")]
    Failed {
        status: StatusCode,
        message: String,
        retry_after: Option<Duration>,
    },
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the list broke off: {0}")]
    Body(String),
    #[error(transparent)]
    MemoryExhausted(#[from] MemoryExhausted),
    #[error("the list has no end: {0}")]
    Endless(&'static str),
    #[error("no more initial events, and no end of them, for {0:?}")]
    Silent(Duration),
    #[error("the answer is not a list: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the answer is {0}")]
    Protobuf(&'static str),
    #[error("the list has no usable resourceVersion: {0}")]
    Version(String),
    #[error("the answer is neither a built-in's nor a custom resource's list")]
    Form,
    #[error(transparent)]
    Object(#[from] MalformedObject),
}

impl ListError {
    /// Tells whether the answer has a form that cannot be cached. A later
    /// answer is not likely to be better.
    pub(super) fn is_of_form(&self) -> bool {
        match self {
            Self::Json(_)
            | Self::Protobuf(_)
            | Self::Version(_)
            | Self::Form
            | Self::Endless(_)
            | Self::Object(_) => true,
            Self::Refused { .. }
            | Self::Failed { .. }
            | Self::Source(_)
            | Self::Body(_)
            | Self::MemoryExhausted(_)
            | Self::Silent(_) => false,
        }
    }

    /// Returns the pause that upstream asked for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
