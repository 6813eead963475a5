//! Detects requests that come back to this process, because the process is its own
//! upstream, directly or through other proxies.
//!
//! Each request to a server names this process in the header `CDN-Loop` (RFC 8586).
//! A request that arrives with that name has been here before.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::{Reason, Status};

/// The header that names all proxies that a request has passed.
pub const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// "Loop Detected" (RFC 5842, 7.2).
pub(crate) const LOOP_DETECTED: u16 = 508;

/// The prefix of the names of all apifronts.
const APIFRONT: &[u8] = b"apifront-";

/// The parameter beside the name in requests that apifront makes itself instead of
/// forwarding them.
const OWN: &str = "role=cache";

/// The process's name. It is random, so replicas of one apifront and levels of a
/// tree never share a name, and no setting is needed.
static NAME: LazyLock<String> =
    LazyLock::new(|| format!("apifront-{:032x}", rand::random::<u128>()));

static ENTRY: LazyLock<HeaderValue> =
    LazyLock::new(|| HeaderValue::from_str(&NAME).unwrap_or(HeaderValue::from_static("apifront")));

static OWN_ENTRY: LazyLock<HeaderValue> = LazyLock::new(|| {
    HeaderValue::from_str(&format!("{};{OWN}", *NAME)).unwrap_or_else(|_| entry())
});

/// Returns the value that this process appends to the header of a forwarded
/// request.
pub fn entry() -> HeaderValue {
    ENTRY.clone()
}

/// Returns the value that this process appends to the header of its own
/// requests.
pub(crate) fn own_entry() -> HeaderValue {
    OWN_ENTRY.clone()
}

/// Tells whether the request comes from an apifront's cache, directly or through
/// other proxies. A caller may claim this falsely: nothing may depend on it but the
/// time of the caller's bookmarks, the end of its watch at a resync, and whether its
/// answers have managedFields.
pub fn is_of_a_cache(headers: &HeaderMap) -> bool {
    entries(headers).any(|entry| {
        let mut parts = entry.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let id = parts.next().unwrap_or_default();
        id.starts_with(APIFRONT) && parts.any(|parameter| parameter == OWN.as_bytes())
    })
}

/// Tells whether a request has passed this process before. If a caller sends the
/// name itself, only its own request is refused.
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

fn names(headers: &HeaderMap, name: &str) -> bool {
    entries(headers)
        .filter_map(|entry| entry.split(|byte| *byte == b';').next())
        .any(|id| id.trim_ascii() == name.as_bytes())
}

/// Returns the header's entries: each is a name, with parameters after semicolons.
/// Commas in quoted parameters separate entries, too: otherwise an unfinished
/// quotation before a name would hide the name.
fn entries(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(CDN_LOOP).into_iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
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

    #[test]
    fn a_cache_is_told_by_the_parameter_of_an_apifront() {
        let own = own_entry();
        for (value, expected) in [
            (own.to_str().unwrap(), true),
            (entry().to_str().unwrap(), false),
            ("a, apifront-1; x=y ; role=cache,b", true),
            ("a;role=cache", false),
            ("apifront-1;role=caches", false),
            ("apifront-1, role=cache", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(CDN_LOOP, HeaderValue::from_str(value).unwrap());
            assert_eq!(is_of_a_cache(&headers), expected, "{value}");
        }
        let mut headers = HeaderMap::new();
        headers.append(CDN_LOOP, own);
        assert!(has_passed(&headers));
    }
}
