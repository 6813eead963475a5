//! IP addresses as Go reads them (`net/netip`), and what Go says of texts that are none.

use std::net::{IpAddr, Ipv6Addr};

use kubernetes_wire::api::query::go_quote_octets;

const GROUPS: usize = 8;

/// The most digits of a group.
const DIGITS: usize = 4;

/// An address, without its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) has_zone: bool,
}

/// Reads an address, which may be no UTF-8.
pub(crate) fn parse(text: &[u8]) -> Result<Address, String> {
    let reader = Reader(text);
    match text.iter().find(|octet| b".:%".contains(octet)) {
        Some(b'.') => Ok(Address {
            ip: reader.ipv4(text)?.into(),
            has_zone: false,
        }),
        Some(b':') => reader.ipv6(),
        Some(_) => Err(reader.error("missing IPv6 address")),
        None => Err(reader.error("unable to parse IP")),
    }
}

/// Reads a text. The errors name the whole of it.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn error(&self, what: &str) -> String {
        format!("ParseAddr({}): {what}", go_quote_octets(self.0))
    }

    /// Returns an error that also names the rest of the text.
    fn error_at(&self, what: &str, rest: &[u8]) -> String {
        match rest.is_empty() {
            true => self.error(what),
            false => self.error(&format!("{what} (at {})", go_quote_octets(rest))),
        }
    }

    /// Reads an IPv4 address.
    fn ipv4(&self, text: &[u8]) -> Result<[u8; 4], String> {
        const NO_DIGIT: &str = "IPv4 field must have at least one digit";
        let mut fields = Vec::with_capacity(4);
        // The digits since the last dot.
        let mut field: Option<u8> = None;
        let mut rest = text;
        while let [first, after @ ..] = rest {
            match (first, field) {
                (b'0'..=b'9', Some(0)) => {
                    return Err(self.error("IPv4 field has octet with leading zero"));
                }
                (b'0'..=b'9', before) => {
                    let tens = before.unwrap_or_default().checked_mul(10);
                    let value = tens.and_then(|tens| tens.checked_add(first & 0xf));
                    let large = || self.error("IPv4 field has value >255");
                    field = Some(value.ok_or_else(large)?);
                }
                (b'.', None) => return Err(self.error_at(NO_DIGIT, rest)),
                (b'.', Some(_)) if after.is_empty() => return Err(self.error_at(NO_DIGIT, rest)),
                (b'.', Some(_)) if fields.len() == 3 => {
                    return Err(self.error("IPv4 address too long"));
                }
                (b'.', Some(value)) => {
                    fields.push(value);
                    field = None;
                }
                _ => return Err(self.error_at("unexpected character", rest)),
            }
            rest = after;
        }
        fields.extend(field);
        <[u8; 4]>::try_from(fields).map_err(|_| self.error("IPv4 address too short"))
    }

    /// Reads an IPv6 address, with its zone.
    fn ipv6(&self) -> Result<Address, String> {
        let mut parts = self.0.splitn(2, |octet| *octet == b'%');
        let address = parts.next().unwrap_or_default();
        let zone = parts.next();
        if zone == Some(b"") {
            return Err(self.error("zone must be a non-empty string"));
        }
        Ok(Address {
            ip: self.groups(address)?.into(),
            has_zone: zone.is_some(),
        })
    }

    fn groups(&self, address: &[u8]) -> Result<Ipv6Addr, String> {
        let mut groups: Vec<u16> = Vec::with_capacity(GROUPS);
        // The number of groups before `::`.
        let mut gap = None;
        let mut rest = address;
        if let [b':', b':', after @ ..] = rest {
            gap = Some(0);
            rest = after;
        }
        while groups.len() < GROUPS && !(rest.is_empty() && gap == Some(groups.len())) {
            let digits = rest.iter().take_while(|octet| octet.is_ascii_hexdigit());
            let (digits, after) = rest.split_at_checked(digits.count()).unwrap_or_default();
            if digits.len() > DIGITS {
                return Err(self.error_at("each group must have 4 or less digits", rest));
            }
            if digits.is_empty() {
                let what = "each colon-separated field must have at least one digit";
                return Err(self.error_at(what, rest));
            }
            if after.starts_with(b".") {
                groups.extend(self.last_groups(rest, groups.len(), gap)?);
                rest = &[];
                break;
            }
            groups.push(group(digits));
            rest = match after {
                [] => {
                    rest = after;
                    break;
                }
                [b':'] => {
                    let what = "colon must be followed by more characters";
                    return Err(self.error_at(what, after));
                }
                [b':', again @ ..] if again.starts_with(b":") && gap.is_some() => {
                    return Err(self.error_at("multiple :: in address", again));
                }
                [b':', b':', rest @ ..] => {
                    gap = Some(groups.len());
                    rest
                }
                [b':', rest @ ..] => rest,
                _ => return Err(self.error_at("unexpected character, want colon", after)),
            };
        }
        if !rest.is_empty() {
            return Err(self.error_at("trailing garbage after address", rest));
        }
        self.with_zeros(groups, gap)
    }

    /// Reads the IPv4 address that stands for the last two groups.
    fn last_groups(
        &self,
        text: &[u8],
        groups: usize,
        gap: Option<usize>,
    ) -> Result<[u16; 2], String> {
        if gap.is_none() && groups != 6 {
            let what = "embedded IPv4 address must replace the final 2 fields of the address";
            return Err(self.error_at(what, text));
        }
        if groups > 6 {
            let what = "too many hex fields to fit an embedded IPv4 at the end of the address";
            return Err(self.error_at(what, text));
        }
        let [a, b, c, d] = self.ipv4(text)?;
        Ok([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
    }

    /// Puts zeros where `::` is.
    fn with_zeros(&self, mut groups: Vec<u16>, gap: Option<usize>) -> Result<Ipv6Addr, String> {
        let missing = GROUPS.saturating_sub(groups.len());
        match gap {
            None if missing > 0 => return Err(self.error("address string too short")),
            Some(_) if missing == 0 => {
                return Err(self.error("the :: must expand to at least one field of zeros"));
            }
            Some(gap) => {
                groups.splice(gap..gap, std::iter::repeat_n(0, missing));
            }
            None => {}
        }
        let groups = <[u16; GROUPS]>::try_from(groups);
        groups
            .map(Ipv6Addr::from)
            .map_err(|_| self.error("address string too long"))
    }
}

/// Returns the value of up to four digits.
fn group(digits: &[u8]) -> u16 {
    let value = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or_default();
    let group = digits
        .iter()
        .fold(0u32, |group, digit| (group << 4) | value(digit));
    u16::try_from(group).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Rust's parser takes the same texts, except zones.
    #[test]
    fn addresses_are_those_of_std() {
        for text in [
            "1.2.3.4",
            "0.0.0.0",
            "255.255.255.255",
            "::",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "1:2::7:8",
            "FFFF:aBcD::",
            "::1.2.3.4",
            "::ffff:1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4",
            "01.2.3.4",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.3.",
            ".1.2.3",
            "1..2.3",
            "1.2.3.a",
            "",
            "1",
            ":",
            ":::",
            "1:",
            ":1",
            "1::2::3",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4::5:6:7:8",
            "12345::",
            "g::",
            "1:2:3:4:5:6:7:1.2.3.4",
            "::1:2:3:4:5:6:7:1.2.3.4",
            "1::2:3:4:5:6:1.2.3.4",
            "::1.2.3",
            "::01.2.3.4",
            "1:2:1.2.3.4",
            "::1 ",
            "ä::",
        ] {
            let ours = parse(text.as_bytes()).map(|address| address.ip);
            assert_eq!(ours.clone().ok(), text.parse().ok(), "{text}: {ours:?}");
        }
    }

    #[test]
    fn zones() {
        let zoned = parse(b"fe80::1%eth0").unwrap();
        assert!(zoned.has_zone && zoned.ip == "fe80::1".parse::<IpAddr>().unwrap());
        for bad in ["fe80::1%", "%eth0", "1.2.3.4%eth0", "fe80%eth0"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(
            parse(b"::1.2.3.4%.").map(|address| address.has_zone),
            Ok(true)
        );
        assert_eq!(
            parse(b"127.0.0.1").map(|address| address.ip),
            Ok(Ipv4Addr::LOCALHOST.into())
        );
    }

    #[test]
    fn errors_are_those_of_go() {
        for (text, error) in [
            ("1.2.3.\"", r#"unexpected character (at "\"")"#),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1:2", "address string too short"),
            (
                "1:2:",
                r#"colon must be followed by more characters (at ":")"#,
            ),
            (
                "1:2:3:4:5:6:7:8:9",
                r#"trailing garbage after address (at "9")"#,
            ),
        ] {
            let expected = format!("ParseAddr({text:?}): {error}");
            assert_eq!(parse(text.as_bytes()), Err(expected));
        }
    }
}
