//! The part of an address that distinguishes callers.

use std::net::{IpAddr, Ipv6Addr};

use apifront_upstream::review::Held;

/// A client's IPv4 address or its IPv6 /64 network: an IPv6 host usually has a whole
/// /64, and can choose among its addresses (RFC 4291, 2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address(Option<IpAddr>);

impl Held for Address {
    fn held_bytes(&self) -> usize {
        0
    }
}

impl From<Option<IpAddr>> for Address {
    fn from(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = u128::from(v6) & (u128::MAX << 64);
                IpAddr::V6(Ipv6Addr::from(network))
            }
            v4 @ IpAddr::V4(_) => v4,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_whichever_of_its_addresses_it_uses() {
        let address = |text: &str| Address::from(Some(text.parse::<IpAddr>().unwrap()));
        for (one, other, same) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(address(one) == address(other), same, "{one} {other}");
        }
        assert_ne!(Address::from(None), address("10.0.0.1"));
    }
}
