//! The time limit that a request sets for itself: the `timeout` parameter,
//! which client-go adds to every request if `rest.Config.Timeout` is set.
//! Source: k8s.io/apiserver `endpoints/filters/request_deadline.go`.

use std::time::Duration;

use crate::api::Query;
use crate::api::duration::parse_duration;

/// The shortest limit that is handled here. Whether a request meets a shorter one
/// is a matter of chance, so upstream decides.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit that a request sets for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The parameter is absent or empty: the server's own limit applies.
    Default,
    /// The request must end within this time, which is at least a second.
    Within(Duration),
    /// The limit is malformed, negative, zero or shorter than a second. kube-apiserver
    /// decides whether it refuses the request, and with which message.
    Unclear,
}

impl Deadline {
    /// Reads the parameter `timeout`, which has Go's format: `30s`.
    pub fn from_query(query: &Query) -> Self {
        match query.get("timeout") {
            None | Some("") => Self::Default,
            Some(text) => match parse_duration(text) {
                Some(time) if time >= MIN_TIMEOUT => Self::Within(time),
                Some(_) | None => Self::Unclear,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_go_reads_them_or_not_at_all() {
        for (query, expected) in [
            ("", Deadline::Default),
            ("timeout=", Deadline::Default),
            ("timeout=10s", Deadline::Within(Duration::from_secs(10))),
            ("timeout=1m30s", Deadline::Within(Duration::from_secs(90))),
            // The first of several values counts.
            (
                "timeout=5s&timeout=x",
                Deadline::Within(Duration::from_secs(5)),
            ),
            ("timeout=10", Deadline::Unclear),
            ("timeout=0s", Deadline::Unclear),
            ("timeout=-5s", Deadline::Unclear),
            ("timeout=1ns", Deadline::Unclear),
            ("timeout=ten", Deadline::Unclear),
        ] {
            assert_eq!(
                Deadline::from_query(&Query::parse(query)),
                expected,
                "{query}"
            );
        }
    }
}
