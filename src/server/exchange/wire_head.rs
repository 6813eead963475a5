//! Writes the head of an answer in the form of the client's protocol: for pingora, or
//! as bytes for a connection that leaves HTTP.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use http::{Version, response};
use pingora_core::Result;
use pingora_http::ResponseHeader;

/// Makes a head for a client of this version. HTTP/2 has lower-case names. In
/// HTTP/1.1 they are written as Go's server writes them.
pub(in crate::server) fn for_client(
    head: response::Parts,
    client: Version,
) -> Result<ResponseHeader> {
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
pub(in crate::server) fn take(head: &mut ResponseHeader) -> response::Parts {
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

/// Returns a name with each of its words capitalized. The headers of a WebSocket's
/// handshake are not written by Go's server, but by a library.
fn written_by_go(name: &HeaderName) -> Bytes {
    let known = match name.as_str() {
        "audit-id" => "Audit-Id",
        "cache-control" => "Cache-Control",
        "connection" => "Connection",
        "content-encoding" => "Content-Encoding",
        "content-length" => "Content-Length",
        "content-type" => "Content-Type",
        "date" => "Date",
        "sec-websocket-accept" => "Sec-WebSocket-Accept",
        "sec-websocket-protocol" => "Sec-WebSocket-Protocol",
        "transfer-encoding" => "Transfer-Encoding",
        "vary" => "Vary",
        "warning" => "Warning",
        "x-content-type-options" => "X-Content-Type-Options",
        "x-kubernetes-pf-flowschema-uid" => "X-Kubernetes-Pf-Flowschema-Uid",
        "x-kubernetes-pf-prioritylevel-uid" => "X-Kubernetes-Pf-Prioritylevel-Uid",
        other => return capitalized(other).into(),
    };
    Bytes::from_static(known.as_bytes())
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
        for name in [
            "audit-id",
            "cache-control",
            "connection",
            "content-encoding",
            "content-length",
            "content-type",
            "date",
            "transfer-encoding",
            "vary",
            "warning",
            "x-content-type-options",
            "x-kubernetes-pf-flowschema-uid",
            "x-kubernetes-pf-prioritylevel-uid",
        ] {
            let written = written_by_go(&HeaderName::from_static(name));
            assert_eq!(written, capitalized(name).as_bytes());
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
