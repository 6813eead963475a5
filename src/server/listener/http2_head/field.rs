//! One field of a block, and how the server treats it by itself.

use std::borrow::Cow;

use apifront_upstream::field_size;
use http::uri::Authority;
use kubernetes_wire::request::target;

use crate::server::listener::head::{LONGEST_NAME, LONGEST_TARGET, is_token, is_unescapable};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: Box<[u8]>,
    pub(super) value: Box<[u8]>,
    pub(super) nature: Nature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    Regular,
    Host,
    Pseudo(Pseudo),
    /// The request becomes malformed (RFC 9113, 8.1.1), so its stream is reset.
    Malformed,
    /// Go's server takes a request with this, but h2 does not.
    OddMethod,
    OddAuthority,
    OddPath,
    /// Both servers refuse a request with this.
    BadPath,
    LongPath,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pseudo {
    Method,
    Connect,
    Scheme,
    Authority,
    /// `:authority` without a value, which has no meaning.
    NoAuthority,
    Path,
    Protocol,
}

impl Field {
    pub(super) fn new(name: &[u8], value: &[u8]) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            nature: nature(name, value),
        }
    }

    /// Returns the size as HTTP/2 counts it.
    pub(super) fn size(&self) -> usize {
        field_size(self.name.len(), self.value.len())
    }

    /// Returns the value in the form that h2 takes.
    pub(super) fn written(&self) -> Cow<'_, [u8]> {
        match self.nature {
            Nature::OddPath => target::escape(&self.value),
            _ => Cow::Borrowed(&self.value),
        }
    }
}

fn nature(name: &[u8], value: &[u8]) -> Nature {
    match name {
        [b':', rest @ ..] => pseudo(rest, value),
        b"connection" | b"transfer-encoding" | b"upgrade" | b"keep-alive" | b"proxy-connection" => {
            Nature::Malformed
        }
        b"te" if value != b"trailers" => Nature::Malformed,
        _ if !is_name(name) || !value.iter().all(is_value) => Nature::Malformed,
        b"host" => Nature::Host,
        _ => Nature::Regular,
    }
}

fn pseudo(name: &[u8], value: &[u8]) -> Nature {
    if !value.iter().all(is_value) {
        return Nature::Malformed;
    }
    match name {
        b"method" if value.is_empty() => Nature::Malformed,
        b"method" if value == b"CONNECT" => Nature::Pseudo(Pseudo::Connect),
        b"method" if value.iter().all(|octet| is_token(*octet)) => Nature::Pseudo(Pseudo::Method),
        b"method" => Nature::OddMethod,
        b"scheme" if value.is_ascii() => Nature::Pseudo(Pseudo::Scheme),
        b"authority" if value.is_empty() => Nature::Pseudo(Pseudo::NoAuthority),
        b"authority" if Authority::try_from(value).is_ok() => Nature::Pseudo(Pseudo::Authority),
        b"authority" => Nature::OddAuthority,
        b"path" if !is_unescapable(value) => Nature::BadPath,
        b"path" => match target::escape(value) {
            target if target.len() > LONGEST_TARGET => Nature::LongPath,
            Cow::Borrowed(_) => Nature::Pseudo(Pseudo::Path),
            Cow::Owned(_) => Nature::OddPath,
        },
        b"protocol" if value.is_ascii() => Nature::Pseudo(Pseudo::Protocol),
        _ => Nature::Malformed,
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_octet = |octet: &u8| is_token(*octet) && !octet.is_ascii_uppercase();
    !name.is_empty() && name.len() <= LONGEST_NAME && name.iter().all(is_octet)
}

/// Tells whether a value may hold the octet. Go's server and h2 agree on this.
fn is_value(octet: &u8) -> bool {
    matches!(octet, b'\t' | b' '..=b'~' | 0x80..)
}
