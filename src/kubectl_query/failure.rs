//! Why a question has no answer.

use std::fmt;

use kubernetes_wire::api::status::Cause;
use serde::Deserialize;
use serde_json::Value;

use super::text::printable;

#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Kubeconfig(String),
    #[error("cannot reach {server}: {cause}")]
    Unreachable { server: String, cause: String },
    /// The connection broke while an answer was read.
    #[error("the answer broke off: {0}")]
    BrokenOff(String),
    #[error("no answer within --request-timeout")]
    Timeout,
    #[error("{0}")]
    Refused(Box<Refusal>),
    #[error("{server} is no apifront with `queries.enabled: true`: it has no API group {group}")]
    NoQueries { server: String, group: &'static str },
    #[error("this apifront is too old to watch queries")]
    NoWatches,
    #[error("the server has no resource {0} that can be listed")]
    NoResource(String),
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(String),
    /// What is printed cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    pub(super) fn unreadable(error: impl fmt::Display) -> Self {
        Self::Unreadable(error.to_string())
    }

    /// Tells whether the reader of what is printed has gone, like `head` after its lines.
    pub(super) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Tells whether a watch may go on after this. The state of which it was told is no
    /// longer kept, or the server restarts.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::BrokenOff(_) => true,
            Self::Refused(refusal) => matches!(refusal.code, GONE | 429 | 502..=504),
            _ => false,
        }
    }
}

/// 410: the state is no longer kept.
const GONE: u16 = 410;

/// The part of a Status that explains a failure.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) code: u16,
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

impl Refusal {
    /// Reads the body of an answer with this status code. It need not be a Status: a proxy
    /// on the way may have answered.
    pub(super) fn read(status: http::StatusCode, body: &[u8]) -> Self {
        let read: Option<Self> = serde_json::from_slice(body).ok();
        let read = read.filter(|refusal| !refusal.message.is_empty());
        let mut refusal = read.unwrap_or_else(|| Self {
            message: format!("the server answered {status}"),
            ..Self::default()
        });
        refusal.code = status.as_u16();
        refusal
    }

    /// Reads the Status in the last event of a watch.
    pub(super) fn of_event(object: Value) -> Result<Self, Failure> {
        serde_json::from_value(object).map_err(Failure::unreadable)
    }
}

impl fmt::Display for Refusal {
    /// Writes the message, and below it each cause that the message does not contain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.message))?;
        let causes = self.details.iter().flat_map(|details| &details.causes);
        for cause in causes.filter(|cause| !self.message.contains(&cause.message)) {
            let (field, message) = (printable(&cause.field), printable(&cause.message));
            match field.is_empty() {
                true => write!(f, "\n  {message}")?,
                false => write!(f, "\n  {field}: {message}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    #[test]
    fn causes_follow_a_message_that_lacks_them() {
        let status = json!({
            "message": "Query is invalid: spec.where: Invalid value: \"(\": syntax",
            "details": { "causes": [
                { "field": "spec.where", "message": "Invalid value: \"(\": syntax" },
                { "field": "spec.limit", "message": "too large" },
                { "message": "none\u{1b}[2J" },
            ] },
        });
        let refusal = Refusal::read(
            StatusCode::UNPROCESSABLE_ENTITY,
            status.to_string().as_bytes(),
        );
        let expected = "Query is invalid: spec.where: Invalid value: \"(\": syntax\n  \
                        spec.limit: too large\n  none\\u{1b}[2J";
        assert_eq!(refusal.to_string(), expected);
        assert_eq!(refusal.code, 422);
    }

    #[test]
    fn what_is_no_status_is_told_by_its_code() {
        for body in ["", "<html>", "{}", "[1]"] {
            let refusal = Refusal::read(StatusCode::BAD_GATEWAY, body.as_bytes());
            let expected = "the server answered 502 Bad Gateway";
            assert_eq!(refusal.to_string(), expected, "{body}");
        }
    }
}
