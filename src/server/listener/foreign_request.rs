//! Detects requests that foreign web pages make, by `Host` and what browsers add. A listener without
//! authentication, on loopback, must not answer them: the browser is on this
//! machine, but the page's author is not.
//!
//! | attack | header that reveals it |
//! |---|---|
//! | DNS rebinding: the page's own name resolves to 127.0.0.1 | `Host` |
//! | `fetch`, forms, WebSockets of another origin | `Origin`, `Sec-Fetch-Site` |
//! | `<img>`, `<script>`, links of another origin, without `Origin` | `Sec-Fetch-Site`, in browsers older than 2023 `Referer` |
//! | a page on another port of localhost: same *site*, other origin | the port in each of them |
//!
//! Programs such as kubectl and curl send none of these headers except `Host`.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HOST, HeaderName, ORIGIN, REFERER};

/// The header of W3C Fetch Metadata that relates the requesting page to the
/// requested URL.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The port that clients may name for a listener.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) enum Port {
    /// Only the port of the listener's socket.
    Own(u16),
    /// Any port, because the listener may be reached through `kubectl
    /// port-forward`, from another port.
    Any,
}

/// Returns the reason why a request is refused, in words for its client, or `None`
/// if the request is acceptable. `authorities` are those of the request line or
/// `:authority`.
pub(in crate::server) fn why_refused(
    headers: &HeaderMap,
    mut authorities: impl Iterator<Item = Option<impl AsRef<[u8]>>>,
    port: Port,
) -> Option<&'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    let local = |host: &[u8]| std::str::from_utf8(host).is_ok_and(|host| is_local(host, port));
    if !hosts.all(|host| local(host.as_bytes()))
        || !authorities.all(|authority| authority.is_none_or(|a| local(a.as_ref())))
    {
        return Some("this listener answers only requests to localhost");
    }
    let hosts = || headers.get_all(HOST).iter().filter_map(|h| h.to_str().ok());
    // The origin must be exactly the one that the request goes to. An origin without
    // a port has port 80.
    let own = |origin: &str| {
        origin.strip_prefix("http://").is_some_and(|origin| {
            let (_, its_port) = split_port(origin);
            let exact = match port {
                Port::Own(own) => its_port.is_some() || own == 80,
                Port::Any => hosts().any(|host| host == origin),
            };
            exact && is_local(origin, port)
        })
    };
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    let mut origins = headers.get_all(ORIGIN).iter();
    let mut referers = headers.get_all(REFERER).iter();
    let fine = sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
        && origins.all(|origin| origin.to_str().is_ok_and(own))
        && referers.all(|referer| referer.to_str().is_ok_and(|r| own(origin_of(r))));
    (!fine).then_some("this listener answers no requests of foreign web pages")
}

/// Returns `http://host:port/path` without the path.
fn origin_of(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |at| at.saturating_add(3));
    let end = url
        .get(after_scheme..)
        .and_then(|rest| rest.find(['/', '?', '#']))
        .map_or(url.len(), |at| after_scheme.saturating_add(at));
    url.get(..end).unwrap_or(url)
}

/// Tells whether a host names this machine. It must have the listener's port or
/// none. Only programs leave the port out; browsers never do.
fn is_local(host: &str, port: Port) -> bool {
    let (name, its_port) = split_port(host);
    let right_port = match (its_port, port) {
        (Some(text), Port::Own(own)) => text.parse() == Ok(own),
        (Some(text), Port::Any) => text.parse::<u16>().is_ok(),
        (None, _) => true,
    };
    let address = match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
        Some(v6) => v6.parse().map(IpAddr::V6),
        None => name.parse().map(IpAddr::V4),
    };
    // An address cannot be made to mean another machine; a name can.
    right_port && (name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|a| a.is_loopback()))
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// Returns the authority of a request line in absolute form.
pub(in crate::server) fn absolute_authority(target: &[u8]) -> Option<&[u8]> {
    let at = target.windows(3).position(|w| w == b"://")?;
    let path = target.iter().position(|b| *b == b'/')?;
    // `://` in a path or query begins no authority.
    if path < at {
        return None;
    }
    let rest = target.get(at.saturating_add(3)..)?;
    rest.split(|b| matches!(b, b'/' | b'?' | b'#')).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(headers: &[(HeaderName, &str)], authority: Option<&str>, port: Port) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        why_refused(&map, [authority].into_iter(), port).is_some()
    }

    #[test]
    fn foreign_hosts_are_refused() {
        let own = Port::Own(8001);
        for (host, port, expected) in [
            ("localhost:8001", own, false),
            ("LOCALHOST:8001", own, false),
            ("127.0.0.1:8001", own, false),
            ("[::1]:8001", own, false),
            // curl and scripts may leave out the port; browsers never do.
            ("localhost", own, false),
            ("[::1]", own, false),
            ("localhost:8002", own, true),
            ("localhost:8002", Port::Any, false),
            ("localhost:", own, true),
            ("localhost:http", Port::Any, true),
            ("evil.example:8001", own, true),
            ("localhost.evil.example:8001", own, true),
            ("127.0.0.1.nip.io:8001", own, true),
            ("10.0.0.1:9443", Port::Any, true),
            ("[2001:db8::1]:8001", own, true),
            ("", own, true),
        ] {
            assert_eq!(refused(&[(HOST, host)], None, port), expected, "{host}");
            assert_eq!(
                refused(&[], Some(host), port),
                expected,
                ":authority {host}"
            );
        }
        assert!(!refused(&[], None, own));
        // A host that names this machine does not excuse a second one that does not.
        for (host, authority) in [
            ("localhost:8001", "evil.example"),
            ("evil.example", "localhost"),
        ] {
            assert!(refused(&[(HOST, host)], Some(authority), own));
        }
        assert!(refused(
            &[(HOST, "localhost"), (HOST, "evil.example")],
            None,
            own
        ));
    }

    #[test]
    fn foreign_pages_are_refused() {
        let host = "127.0.0.1:8001";
        for (name, value, expected) in [
            (ORIGIN, "http://127.0.0.1:8001", false),
            (ORIGIN, "http://localhost:8001", false),
            (ORIGIN, "https://127.0.0.1:8001", true),
            (ORIGIN, "http://127.0.0.1:3000", true),
            // An origin without a port has port 80.
            (ORIGIN, "http://localhost", true),
            (REFERER, "http://localhost/", true),
            (ORIGIN, "https://evil.example", true),
            (ORIGIN, "null", true),
            (ORIGIN, "", true),
            (SEC_FETCH_SITE, "same-origin", false),
            (SEC_FETCH_SITE, "none", false),
            // Another port of localhost.
            (SEC_FETCH_SITE, "same-site", true),
            (SEC_FETCH_SITE, "cross-site", true),
            (SEC_FETCH_SITE, "unheard-of", true),
            (REFERER, "http://127.0.0.1:8001/api/v1/nodes?x=://", false),
            (REFERER, "http://127.0.0.1:3000/", true),
            (REFERER, "https://evil.example/http://127.0.0.1:8001/", true),
        ] {
            let headers = [(HOST, host), (name.clone(), value)];
            let refused = refused(&headers, None, Port::Own(8001));
            assert_eq!(refused, expected, "{name}: {value}");
        }
        // Two headers, one of them good.
        let two = [
            (SEC_FETCH_SITE, "same-origin"),
            (SEC_FETCH_SITE, "cross-site"),
        ];
        assert!(refused(&two, None, Port::Own(8001)));
    }

    /// A forwarded listener may have any port, but the page must come from the same
    /// one.
    #[test]
    fn a_page_of_another_forwarded_port_is_foreign() {
        for (origin, expected) in [
            ("http://localhost:19443", false),
            ("http://localhost:3000", true),
            ("http://evil.example:19443", true),
        ] {
            let headers = [(HOST, "localhost:19443"), (ORIGIN, origin)];
            assert_eq!(refused(&headers, None, Port::Any), expected, "{origin}");
        }
    }

    #[test]
    fn absolute_targets_have_an_authority() {
        for (target, expected) in [
            ("http://evil.example/api", Some("evil.example")),
            ("http://evil.example:80?x", Some("evil.example:80")),
            ("/api/v1/proxy/http://evil.example", None),
            ("/api?x=http://evil.example", None),
            ("*", None),
        ] {
            let found = absolute_authority(target.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{target}");
        }
    }
}
