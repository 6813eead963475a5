//! The checks of `kubectl proxy`, for a listener that lends out its owner's
//! credentials: only from this machine, and not on behalf of a web page.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// Whether the request names this machine as its target, and comes from no
/// foreign page (DNS rebinding, cross-site requests).
pub(super) fn is_local(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let host = match authority {
        Some(authority) => Some(authority),
        None => headers.get(HOST).and_then(|h| h.to_str().ok()),
    };
    let origins = headers.get_all(ORIGIN);
    host.is_none_or(is_local_host)
        && origins.iter().all(|origin| {
            origin
                .to_str()
                .ok()
                .and_then(|o| o.split_once("://"))
                .is_some_and(|(_, host)| is_local_host(host))
        })
}

fn is_local_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        for (host, origin, expected) in [
            (Some("localhost:8001"), None, true),
            (Some("127.0.0.1"), None, true),
            (Some("[::1]:8001"), None, true),
            (None, None, true),
            (Some("evil.example"), None, false),
            (Some("localhost.evil.example"), None, false),
            (Some("127.0.0.1.nip.io:8001"), None, false),
            (Some("localhost"), Some("http://localhost:8001"), true),
            (Some("localhost"), Some("https://evil.example"), false),
            (Some("localhost"), Some("null"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(HOST, host.parse().unwrap());
            }
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(is_local(&headers, None), expected, "{host:?} {origin:?}");
        }
    }
}
