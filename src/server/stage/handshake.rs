//! The opening handshake of a WebSocket watch, as golang.org/x/net/websocket accepts
//! it for kube-apiserver. A request whose handshake is wrong or unusual in any way
//! is forwarded, so that upstream words the error.

use http::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode, Version, request, response};
use kubernetes_wire::request::{Protocol, Upgrade};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::authn::bearer_token::TOKEN_PROTOCOL_PREFIX;

/// A handshake that kube-apiserver would accept, and the values for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct Handshake {
    accept: HeaderValue,
    /// The only offered protocol, whichever it is. The answer repeats it.
    protocol: Option<HeaderValue>,
}

impl Handshake {
    /// Reads the handshake of an upgrade. `other_credentials` tells whether the
    /// caller may be identified by something else than a token among the protocols.
    /// Then the API server does not remove the token from the offer.
    pub(in crate::server) fn read(
        request: &request::Parts,
        upgrade: &Upgrade,
        other_credentials: bool,
    ) -> Option<Self> {
        let headers = &request.headers;
        let well_formed = request.version == Version::HTTP_11
            && upgrade.protocol() == Protocol::WebSocket
            && upgrade.is_plain()
            && headers.get(SEC_WEBSOCKET_VERSION)? == "13"
            && is_origin(headers.get(ORIGIN)?.to_str().ok()?)
            && is_authority(headers.get(HOST)?.to_str().ok()?);
        let key = headers.get(SEC_WEBSOCKET_KEY)?.as_bytes();
        if !well_formed || key.is_empty() {
            return None;
        }
        Some(Self {
            accept: HeaderValue::try_from(derive_accept_key(key)).ok()?,
            protocol: protocol(headers, other_credentials)?,
        })
    }

    /// Returns the head of the 101, with its headers in kube-apiserver's order.
    pub(in crate::server) fn answer(&self) -> response::Parts {
        let (mut head, ()) = Response::new(()).into_parts();
        head.status = StatusCode::SWITCHING_PROTOCOLS;
        head.headers.extend([
            (UPGRADE, HeaderValue::from_static("websocket")),
            (CONNECTION, HeaderValue::from_static("Upgrade")),
            (SEC_WEBSOCKET_ACCEPT, self.accept.clone()),
        ]);
        let protocol = self.protocol.clone();
        let protocol = protocol.map(|protocol| (SEC_WEBSOCKET_PROTOCOL, protocol));
        head.headers.extend(protocol);
        head
    }
}

/// Returns the protocol to echo, or `None` if the server would have to choose one.
fn protocol(headers: &HeaderMap, other_credentials: bool) -> Option<Option<HeaderValue>> {
    let mut values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let Some(first) = values.next() else {
        return Some(None);
    };
    let mut offered = Vec::new();
    for value in std::iter::once(first).chain(values) {
        offered.extend(value.to_str().ok()?.split(',').map(str::trim));
    }
    let is_token = |protocol: &&str| protocol.starts_with(TOKEN_PROTOCOL_PREFIX);
    if offered.iter().any(is_token) {
        if other_credentials || headers.contains_key(AUTHORIZATION) {
            return None;
        }
        offered.retain(|protocol| !is_token(protocol));
    }
    match offered.as_slice() {
        [one] if !one.is_empty() => Some(Some(HeaderValue::from_str(one).ok()?)),
        _ => None,
    }
}

/// Tells whether every URL parser would read the origin in the same way. It must
/// have the form `https://host:port`.
fn is_origin(origin: &str) -> bool {
    origin.split_once("://").is_some_and(|(scheme, host)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
            && is_authority(host)
    })
}

fn is_authority(host: &str) -> bool {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
    !name.is_empty()
        && name.bytes().all(plain)
        && !port.is_empty()
        && port.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kubernetes_wire::request::ConnectionOptions;

    use super::*;

    fn read(changes: &[(&'static str, &str)], other_credentials: bool) -> Option<Handshake> {
        let (mut request, ()) = Request::new(()).into_parts();
        for (name, value) in [
            ("host", "localhost:6443"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("origin", "http://localhost"),
        ] {
            request
                .headers
                .insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in changes {
            match *value {
                "" => drop(request.headers.remove(*name)),
                value => drop(request.headers.insert(*name, value.try_into().unwrap())),
            }
        }
        let connection = ConnectionOptions::read(&request.headers, request.version);
        Handshake::read(&request, connection.upgrade()?, other_credentials)
    }

    #[test]
    fn only_what_the_api_server_accepts_is_read() {
        // The key and its answer are from RFC 6455, 1.3.
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert_eq!(read(&[], false).unwrap().accept, accept);
        for (name, value, accepted) in [
            ("upgrade", "WebSocket", true),
            ("upgrade", "SPDY/3.1", false),
            ("upgrade", "h2c, websocket", false),
            ("connection", "close", false),
            ("connection", "xupgradex", false),
            ("sec-websocket-version", "8", false),
            ("sec-websocket-version", "", false),
            ("sec-websocket-key", "", false),
            ("sec-websocket-key", "short", true),
            ("origin", "", false),
            ("origin", "null", false),
            ("origin", "https://console.example:8443", true),
            ("origin", "https://user@console.example", false),
            ("origin", "https://console.example:port", false),
            ("host", "a b", false),
        ] {
            let found = read(&[(name, value)], false);
            assert_eq!(found.is_some(), accepted, "{name}: {value}");
        }
    }

    #[test]
    fn one_protocol_is_echoed_and_a_token_never() {
        let token = format!("{TOKEN_PROTOCOL_PREFIX}dA");
        for (offer, other_credentials, echoed) in [
            ("foo".to_owned(), false, Some("foo")),
            ("foo, bar".to_owned(), false, None),
            ("foo,".to_owned(), false, None),
            (format!("{token}, foo"), false, Some("foo")),
            (format!("foo,{token}"), false, Some("foo")),
            (format!("{token}, foo"), true, None),
            (format!("{token}, foo, bar"), false, None),
            (token, false, None),
        ] {
            let found = read(&[("sec-websocket-protocol", &offer)], other_credentials);
            let protocol = found.and_then(|h| h.protocol);
            let protocol = protocol.as_ref().map(|p| p.to_str().unwrap());
            assert_eq!(protocol, echoed, "{offer}");
        }
    }
}
