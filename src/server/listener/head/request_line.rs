//! The request line of HTTP/1, read as Go's server reads it (net/http
//! `readRequest`, net/url `ParseRequestURI`).

use std::borrow::Cow;

use kubernetes_wire::api::query::has_whole_escapes;
use kubernetes_wire::request::target;

use super::refusal::HeadRefusal;
use crate::server::listener::framing::is_host_byte;

/// The longest target that the URI type holds.
pub(in crate::server::listener) const LONGEST_TARGET: usize = u16::MAX as usize - 1;

/// A request line whose target is a path and a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestLine<'a> {
    pub(super) method: &'a [u8],
    /// The path and the query. Octets that no URI may hold are escaped.
    pub(super) target: Cow<'a, [u8]>,
    pub(super) version: &'a [u8],
    /// The authority of a target in absolute form. It replaces the field `Host` (RFC
    /// 9112, 3.2.2).
    pub(super) authority: Option<&'a [u8]>,
}

impl<'a> RequestLine<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, HeadRefusal> {
        let malformed = HeadRefusal::Malformed("malformed HTTP request");
        let (method, rest) = cut(line, b' ').ok_or(malformed)?;
        let (received, version) = cut(rest, b' ').ok_or(malformed)?;
        if method.is_empty() || !method.iter().all(|octet| is_token(*octet)) {
            return Err(HeadRefusal::Malformed("invalid method"));
        }
        match version {
            b"HTTP/1.1" | b"HTTP/1.0" => {}
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
                if major.is_ascii_digit() && minor.is_ascii_digit() =>
            {
                return Err(HeadRefusal::Version);
            }
            _ => return Err(HeadRefusal::Malformed("malformed HTTP version")),
        }
        if method == b"CONNECT" {
            return Err(HeadRefusal::Connect);
        }
        if received.iter().any(u8::is_ascii_control) {
            return Err(HeadRefusal::Malformed("invalid control character in URL"));
        }
        let (authority, target) = match received {
            [b'/', ..] => (None, Cow::Borrowed(received)),
            b"*" if method == b"OPTIONS" => (None, Cow::Borrowed(received)),
            _ => {
                let (authority, rest) = absolute_form(received)
                    .ok_or(HeadRefusal::Malformed("invalid request target"))?;
                (Some(authority), rest)
            }
        };
        if !is_unescapable(&target) {
            return Err(HeadRefusal::Malformed("invalid URL escape"));
        }
        let target = match target {
            Cow::Borrowed(target) => target::escape(target),
            Cow::Owned(target) => Cow::Owned(target::escape(&target).into_owned()),
        };
        if target.len() > LONGEST_TARGET {
            return Err(HeadRefusal::TargetTooLong);
        }
        Ok(Self {
            method,
            target,
            version,
            authority,
        })
    }

    /// Tells whether pingora would read the line with the same meaning.
    pub(super) fn is_plain(&self) -> bool {
        self.authority.is_none() && matches!(self.target, Cow::Borrowed(_))
    }
}

/// Returns the authority of a target like `http://host:port/path`, and its path with
/// the query.
fn absolute_form(target: &[u8]) -> Option<(&[u8], Cow<'_, [u8]>)> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme.as_bytes())
            .then_some(rest)
    })?;
    let end = rest.iter().position(|octet| b"/?".contains(octet));
    let (authority, path) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
    if authority.is_empty() || !authority.iter().all(is_host_byte) {
        return None;
    }
    let path = match path {
        [b'/', ..] => Cow::Borrowed(path),
        _ => Cow::Owned([b"/", path].concat()),
    };
    Some((authority, path))
}

/// Tells whether each `%` of the path begins an escape. Go's server reads escapes in
/// the query later, and ignores wrong ones.
pub(in crate::server::listener) fn is_unescapable(target: &[u8]) -> bool {
    let path = match memchr::memchr(b'?', target) {
        Some(end) => target.get(..end).unwrap_or(target),
        None => target,
    };
    has_whole_escapes(path)
}

pub(super) fn cut(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let i = memchr::memchr(at, bytes)?;
    let (before, rest) = bytes.split_at_checked(i)?;
    Some((before, rest.get(1..)?))
}

/// Tells whether a method or a field's name may hold the octet (RFC 9110, 5.6.2).
pub(in crate::server::listener) fn is_token(octet: u8) -> bool {
    octet.is_ascii_alphanumeric()
        || matches!(
            octet,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_all_that_they_name() {
        for (line, target, authority) in [
            ("GET /a?b=c HTTP/1.1", "/a?b=c", None),
            ("GET //a/../b?? HTTP/1.0", "//a/../b??", None),
            ("DELETE /a#old?x#y HTTP/1.1", "/a%23old?x%23y", None),
            ("GET /<\">`\u{e9} HTTP/1.1", "/%3C%22%3E%60%C3%A9", None),
            ("OPTIONS * HTTP/1.1", "*", None),
            ("GET http://a:1/b?c HTTP/1.1", "/b?c", Some("a:1")),
            ("GET HTTPS://a HTTP/1.1", "/", Some("a")),
            ("GET http://a?b#c HTTP/1.1", "/?b%23c", Some("a")),
        ] {
            let read = RequestLine::parse(line.as_bytes()).unwrap();
            assert_eq!(&*read.target, target.as_bytes(), "{line}");
            assert_eq!(read.authority, authority.map(str::as_bytes), "{line}");
            let plain = line.contains(&format!(" {target} "));
            assert_eq!(read.is_plain(), plain, "{line}");
        }
    }

    #[test]
    fn lines_are_refused_as_go_refuses_them() {
        let long = format!("GET /{} HTTP/1.1", "a".repeat(LONGEST_TARGET));
        for line in [
            "",
            "GET",
            "GET /",
            "GET  / HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET /a b HTTP/1.1",
            "GET /a%zz HTTP/1.1",
            "GET /a% HTTP/1.1",
            "GET /a%4 HTTP/1.1",
            "G@T / HTTP/1.1",
            " / HTTP/1.1",
            "GET / HTTP/1",
            "GET / http/1.1",
            "GET / HTTP/2.0",
            "GET /\x01 HTTP/1.1",
            "GET * HTTP/1.1",
            "GET api HTTP/1.1",
            "GET #/api HTTP/1.1",
            "GET http:///api HTTP/1.1",
            "GET http://user@host/api HTTP/1.1",
            "CONNECT host:1 HTTP/1.1",
            &long,
        ] {
            assert!(RequestLine::parse(line.as_bytes()).is_err(), "{line:.40}");
        }
    }
}
