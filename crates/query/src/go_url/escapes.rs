//! The escapes of a URL: `%20`.

use std::fmt::Write;

use kubernetes_wire::api::query::go_quote_octets;

/// A part of a URL. Each has other characters that need no escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    User,
    Host,
    /// The zone of an IPv6 address.
    Zone,
    Path,
    Fragment,
}

/// Characters that no part escapes, beside letters and digits.
const UNRESERVED: &[u8] = b"-_.~";

/// Characters that stay in a path or a fragment that is written so, although Go would
/// escape some of them.
const KEPT: &[u8] = b"!$&'()*+,;=:@[]%";

impl Part {
    /// Tells whether Go writes an octet as it is.
    fn has(self, octet: u8) -> bool {
        let plain: &[u8] = match self {
            Self::User => b"$&+,;=",
            Self::Host | Self::Zone => b"!$&'()*+,;=:[]<>\"",
            Self::Path => b"$&+,/:;=@",
            Self::Fragment => b"$&+,/:;=?@!()*",
        };
        octet.is_ascii_alphanumeric() || UNRESERVED.contains(&octet) || plain.contains(&octet)
    }

    fn is_of_host(self) -> bool {
        matches!(self, Self::Host | Self::Zone)
    }
}

/// Unescapes a part. In a host, what is ASCII must not be escaped, except a percent sign.
pub(super) fn unescaped(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let mut unescaped = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            if part.is_of_host() && first.is_ascii() && !part.has(*first) {
                let character = go_quote_octets(&[*first]);
                return Err(format!("invalid character {character} in host name"));
            }
            unescaped.push(*first);
            continue;
        }
        let octet = octet_of(after).filter(|octet| match part {
            Part::Host => !octet.is_ascii() || *octet == b'%',
            Part::Zone => matches!(octet, b'%' | b' ') || part.has(*octet),
            _ => true,
        });
        let Some(octet) = octet else {
            let digits = after.get(..2).unwrap_or(after);
            let escape = go_quote_octets(&[b"%", digits].concat());
            return Err(format!("invalid URL escape {escape}"));
        };
        unescaped.push(octet);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(unescaped)
}

/// Reads two digits.
fn octet_of(text: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(text.get(..2)?).ok()?;
    match digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => u8::from_str_radix(digits, 16).ok(),
        false => None,
    }
}

/// Returns a part with the escapes that Go writes: those that it has, if no more are
/// needed. Fails if one of them is wrong.
pub(super) fn normalized(text: &str, part: Part) -> Result<String, String> {
    let octets = unescaped(text.as_bytes(), part)?;
    if text
        .bytes()
        .all(|octet| KEPT.contains(&octet) || part.has(octet))
    {
        return Ok(text.to_owned());
    }
    let mut escaped = String::with_capacity(text.len());
    escape(&octets, part, &mut escaped);
    Ok(escaped)
}

pub(super) fn escape(octets: &[u8], part: Part, text: &mut String) {
    for octet in octets {
        match part.has(*octet) {
            true => text.push(char::from(*octet)),
            // Writing to a text does not fail.
            false => drop(write!(text, "%{octet:02X}")),
        }
    }
}
