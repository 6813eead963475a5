//! The addresses that a request came from, read like k8s.io/apimachinery
//! `util/net.SourceIPs`, which trusts the headers of proxies and puts the peer last.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Calls `each` with the addresses in order: those of the first `X-Forwarded-For`,
/// then `X-Real-Ip`, then the peer.
pub(super) fn visit(headers: &HeaderMap, peer: Option<IpAddr>, mut each: impl FnMut(IpAddr)) {
    let text = |name| {
        let value = headers.get(name).and_then(|v| v.to_str().ok());
        value.unwrap_or_default()
    };
    let forwarded = text(FORWARDED_FOR);
    let hops = || forwarded.split(',').filter_map(|part| parse(part.trim()));
    let mut last = None;
    for ip in hops() {
        each(ip);
        last = Some(ip);
    }
    if let Some(real) = parse(text(REAL_IP))
        && !hops().any(|ip| ip == real)
    {
        each(real);
        last = Some(real);
    }
    if let Some(peer) = peer.map(|ip| ip.to_canonical())
        && last != Some(peer)
    {
        each(peer);
    }
}

/// Go's `ParseIPSloppy`: numbers of an IPv4 address may have leading zeros, and are
/// decimal even so.
fn parse(text: &str) -> Option<IpAddr> {
    if text.is_empty() {
        return None;
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts
        .next()
        .is_none()
        .then(|| Ipv4Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_kube_apiserver() {
        for (forwarded, real, expected) in [
            (None, None, "9.9.9.9"),
            (Some("1.1.1.1"), None, "1.1.1.1 9.9.9.9"),
            (Some("1.1.1.1, x,2.2.2.2"), None, "1.1.1.1 2.2.2.2 9.9.9.9"),
            (Some("9.9.9.9"), None, "9.9.9.9"),
            (None, Some("9.9.9.9"), "9.9.9.9"),
            (Some("1.1.1.1"), Some("1.1.1.1"), "1.1.1.1 9.9.9.9"),
            (
                Some("1.1.1.1"),
                Some("2001:db8::1"),
                "1.1.1.1 2001:db8::1 9.9.9.9",
            ),
            (
                Some("::ffff:10.0.0.1, 010.0.0.2"),
                None,
                "10.0.0.1 10.0.0.2 9.9.9.9",
            ),
            (Some("1.2.3, 1.2.3.4.5, 1.2.3.256, ,"), None, "9.9.9.9"),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(FORWARDED_FOR, forwarded), (REAL_IP, real)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            let mut found = Vec::new();
            let peer = "9.9.9.9".parse().ok();
            visit(&headers, peer, |ip| found.push(ip.to_string()));
            assert_eq!(found.join(" "), expected, "{forwarded:?} {real:?}");
        }
    }
}
