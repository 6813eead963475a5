//! Tells whether an answer looks like apifront's own: a Status, or the plain text of
//! Go's HTTP server.

use serde_json::Value;

use super::exchange::Answered;

pub fn is_own_answer(answered: &Answered, method: &[u8]) -> bool {
    let kind = answered.header("content-type");
    let body = &answered.content.body;
    if method == b"HEAD" {
        return body.is_empty();
    }
    if !answered.content.is_whole {
        return false;
    }
    if kind.starts_with("text/plain") {
        // Go writes the code and its name.
        return body.starts_with(answered.status.to_string().as_bytes()) || !body.is_empty();
    }
    let status: Option<Value> = serde_json::from_slice(body).ok();
    status.is_some_and(|status| status["kind"] == "Status" && status["code"] == answered.status)
}
