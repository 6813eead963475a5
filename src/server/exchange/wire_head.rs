//! Writes the head of an answer in the form of the client's protocol: for pingora, or
//! as bytes for a connection that leaves HTTP.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use http::{Version, response};
use pingora_core::Result;
use pingora_http::ResponseHeader;

/// The usual names of an answer, which need no memory of their own.
const KNOWN: [&str; 13] = [
    "Audit-Id",
    "Cache-Control",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Type",
    "Date",
    "Transfer-Encoding",
    "Vary",
    "Warning",
    "X-Content-Type-Options",
    "X-Kubernetes-Pf-Flowschema-Uid",
    "X-Kubernetes-Pf-Prioritylevel-Uid",
];
/// The names that no rule spells.
const OF_HANDSHAKES: [&str; 2] = ["Sec-WebSocket-Accept", "Sec-WebSocket-Protocol"];

/// Makes a head for a client of this version. HTTP/2 has lower-case names. In
/// HTTP/1.1 they are written as Go's server writes them.
pub(super) fn for_client(head: response::Parts, client: Version) -> Result<ResponseHeader> {
    if client == Version::HTTP_2 {
        return Ok(head.into());
    }
    let size = head.headers.len().saturating_add(1);
    let mut written = ResponseHeader::build(head.status, Some(size))?;
    written.set_version(head.version);
    for (name, value) in &head.headers {
        written.append_header(written_by_go(name), value)?;
    }
    Ok(written)
}

/// Takes a head out of pingora's hands. What stays behind is replaced.
pub(super) fn take(head: &mut ResponseHeader) -> response::Parts {
    let (nothing, ()) = http::Response::new(()).into_parts();
    std::mem::replace(head, nothing.into()).into()
}

/// Writes a 101. It does not have the headers of a body (RFC 9110, 8.6).
pub(in crate::server) fn switching_protocols(head: &response::Parts) -> Vec<u8> {
    let mut written = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
    for (name, value) in &head.headers {
        if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
            continue;
        }
        for piece in [&written_by_go(name)[..], b": ", value.as_bytes(), b"\r\n"] {
            written.extend_from_slice(piece);
        }
    }
    written.extend_from_slice(b"\r\n");
    written
}

/// Returns a name as Go's server writes it: with each of its words capitalized. The
/// headers of a WebSocket's handshake are written by a library.
fn written_by_go(name: &HeaderName) -> Bytes {
    match known(name.as_str().as_bytes()) {
        Some(known) => Bytes::from_static(known.as_bytes()),
        None => capitalized(name.as_str()).into(),
    }
}

/// Tells whether all names of a head are spelled as Go's server writes them. pingora
/// keeps no spelling of heads that came over HTTP/2.
pub(super) fn is_spelled_by_go(head: &ResponseHeader) -> bool {
    let mut spelled = head.case_header_iter();
    head.has_case() && spelled.all(|(name, _)| is_written_by_go(name.as_slice()))
}

fn is_written_by_go(name: &[u8]) -> bool {
    match known(name) {
        Some(known) => known.as_bytes() == name,
        None => is_capitalized(name),
    }
}

fn known(name: &[u8]) -> Option<&'static str> {
    let mut names = KNOWN.into_iter().chain(OF_HANDSHAKES);
    names.find(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

fn capitalized(name: &str) -> String {
    let mut begins = true;
    let letters = name.chars().map(|letter| {
        let written = match begins {
            true => letter.to_ascii_uppercase(),
            false => letter,
        };
        begins = letter == '-';
        written
    });
    letters.collect()
}

/// Tells whether a name, in whichever spelling it has, is that of [`capitalized`].
fn is_capitalized(name: &[u8]) -> bool {
    let mut begins = true;
    name.iter().all(|byte| {
        let is_right = match begins {
            true => !byte.is_ascii_lowercase(),
            false => !byte.is_ascii_uppercase(),
        };
        begins = *byte == b'-';
        is_right
    })
}

#[cfg(test)]
mod tests {
    use http::header::{
        CONTENT_TYPE, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, UPGRADE, WARNING,
        X_CONTENT_TYPE_OPTIONS,
    };
    use http::{Response, StatusCode};

    use super::*;

    fn head(names: &[HeaderName]) -> response::Parts {
        let (mut head, ()) = Response::new(()).into_parts();
        for name in names {
            head.headers.append(name, HeaderValue::from_static("v"));
        }
        head
    }

    #[test]
    fn http_1_has_the_names_as_go_writes_them() {
        let of_browsers = HeaderName::from_static("x-of-browsers");
        let mut answer = head(&[
            CONTENT_TYPE,
            HeaderName::from_static("audit-id"),
            WARNING,
            X_CONTENT_TYPE_OPTIONS,
            of_browsers,
        ]);
        answer
            .headers
            .append(WARNING, HeaderValue::from_static("w"));
        let headers: HeaderMap = answer.headers.clone();
        let wire = |client| {
            let head = for_client(answer.clone(), client).unwrap();
            assert_eq!((head.status, &head.headers), (StatusCode::OK, &headers));
            let mut wire = Vec::new();
            head.header_to_h1_wire(&mut wire);
            String::from_utf8(wire).unwrap()
        };
        assert_eq!(
            wire(Version::HTTP_11),
            "Content-Type: v\r\nAudit-Id: v\r\nWarning: v\r\nWarning: w\r\n\
             X-Content-Type-Options: v\r\nX-Of-Browsers: v\r\n"
        );
        assert!(wire(Version::HTTP_2).contains("audit-id: v\r\nwarning: v\r\n"));
    }

    #[test]
    fn the_known_names_are_those_that_go_would_write() {
        for known in KNOWN {
            let name = HeaderName::from_bytes(known.as_bytes()).unwrap();
            assert_eq!(written_by_go(&name), known);
            assert_eq!(capitalized(name.as_str()), known);
        }
        for known in OF_HANDSHAKES {
            let name = HeaderName::from_bytes(known.as_bytes()).unwrap();
            assert_eq!(written_by_go(&name), known);
        }
    }

    #[test]
    fn a_spelling_is_told_as_it_is_written() {
        for spelled in [
            "Audit-Id",
            "Audit-ID",
            "audit-id",
            "Etag",
            "ETag",
            "X-Of-Browsers",
            "X-of-Browsers",
            "X--Y",
            "x--Y",
            "1a-2B",
            "1a-2b",
            "Sec-WebSocket-Accept",
            "Sec-Websocket-Accept",
            "Sec-Websocket-Key",
            "Sec-WebSocket-Key",
        ] {
            let name = HeaderName::from_bytes(spelled.as_bytes()).unwrap();
            let is_written = written_by_go(&name) == spelled;
            assert_eq!(
                is_written_by_go(spelled.as_bytes()),
                is_written,
                "{spelled}"
            );
        }
    }

    #[test]
    fn a_switch_has_no_headers_of_a_body() {
        let head = head(&[
            UPGRADE,
            CONTENT_LENGTH,
            TRANSFER_ENCODING,
            SEC_WEBSOCKET_ACCEPT,
        ]);
        assert_eq!(
            String::from_utf8(switching_protocols(&head)).unwrap(),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: v\r\n\
             Sec-WebSocket-Accept: v\r\n\r\n"
        );
    }
}
