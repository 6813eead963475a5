//! Decides whether JSON is indented for people.

use http::HeaderMap;
use http::header::USER_AGENT;

use crate::api::Query;

/// Tells whether the output is indented. The query decides; if it lacks the
/// parameter, the user agent decides.
pub(super) fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.get("pretty") {
        None | Some("") => headers
            .get(USER_AGENT)
            .is_some_and(|agent| is_human(agent.as_bytes())),
        // As in strconv.ParseBool, whose errors count as false.
        Some(value) => matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True"),
    }
}

fn is_human(user_agent: &[u8]) -> bool {
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|prefix| user_agent.starts_with(prefix.as_bytes()))
}
