//! Detects requests that come back to this process, because the process is its
//! own upstream, directly or over others.
//!
//! Each request to a server names this process in the header `CDN-Loop` (RFC
//! 8586). A request that arrives with the name has been here before.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::{Reason, Status};

/// The header with the names of all proxies that a request has passed.
pub const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// "Loop Detected" (RFC 5842, 7.2).
pub(crate) const LOOP_DETECTED: u16 = 508;

/// The process's name. It is random, so that replicas of one apifront and
/// levels of a tree never have the same one, and need no setting for it.
static NAME: LazyLock<String> =
    LazyLock::new(|| format!("apifront-{:032x}", rand::random::<u128>()));

static ENTRY: LazyLock<HeaderValue> =
    LazyLock::new(|| HeaderValue::from_str(&NAME).unwrap_or(HeaderValue::from_static("apifront")));

/// Returns the value that this process appends to the header.
pub fn entry() -> HeaderValue {
    ENTRY.clone()
}

/// Tells whether a request has passed this process before. A caller who sends
/// the name gets its own request refused, and nothing else.
pub fn has_passed(headers: &HeaderMap) -> bool {
    names(headers, &NAME)
}

/// Returns the answer to a request that came back. It has no Retry-After: only
/// an administrator can end the loop.
pub fn refusal() -> Status {
    let message = "loop detected: the request came back to an apifront that it had passed; \
                   one of them is its own upstream, directly or over others";
    Status::failure(LOOP_DETECTED, Reason::Unknown, message)
}

/// Tells whether `name` is one of the header's entries. An entry may have
/// parameters after a semicolon. Commas in quoted parameters divide entries,
/// too: otherwise an unfinished quotation before a name would hide the name.
fn names(headers: &HeaderMap, name: &str) -> bool {
    headers
        .get_all(CDN_LOOP)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|entry| entry.split(|byte| *byte == b';').next())
        .any(|id| id.trim_ascii() == name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_among_others() {
        for (values, found) in [
            (&[][..], false),
            (&["a"][..], true),
            (&["b"][..], false),
            (&["ab", "ba"][..], false),
            (&["b", "a"][..], true),
            (&["b, a ;x=1,c"][..], true),
            (&["b;x=\"unfinished, a"][..], true),
            (&["b;a", "", ",;,"][..], false),
            (&["b\u{e4}", "a"][..], true),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                headers.append(CDN_LOOP, value);
            }
            assert_eq!(names(&headers, "a"), found, "{values:?}");
        }
    }

    #[test]
    fn the_process_finds_its_own_entry() {
        let mut headers = HeaderMap::new();
        assert!(!has_passed(&headers));
        headers.append(CDN_LOOP, HeaderValue::from_static("other.example"));
        headers.append(CDN_LOOP, entry());
        assert!(has_passed(&headers));
        assert_eq!(entry().len(), "apifront-".len() + 32);
    }
}
