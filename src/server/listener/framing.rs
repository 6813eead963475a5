//! Refuses HTTP/2 requests that two HTTP parsers could read differently, and
//! requests whose heads are too large. [`super::head`] does this for HTTP/1.

use std::net::IpAddr;

use apifront_upstream::head_size;
use http::header::HOST;
use http::{Method, request};

use super::frame_meter::Http2State;
use super::head::HeadRefusal;
use super::http2_head;
use super::large_heads::{LargeHead, LargeHeads, SMALL_HEAD};

/// Checks the head of a request. Returns its share of the budget if the head is
/// large. `state` is that of the connection.
pub(in crate::server) fn check(
    request: &request::Parts,
    target: &[u8],
    state: Option<&Http2State>,
    client: Option<IpAddr>,
    max_bytes: usize,
    large: &LargeHeads,
) -> Result<Option<LargeHead>, HeadRefusal> {
    if let Some(refusal) = state.and_then(|state| http2_head::refusal(state, &request.headers)) {
        return Err(refusal);
    }
    if request.method == Method::CONNECT {
        return Err(HeadRefusal::Connect);
    }
    let of_server = target == b"*" && request.method == Method::OPTIONS;
    if !of_server && !target.starts_with(b"/") {
        return Err(HeadRefusal::Malformed("invalid request target"));
    }
    let mut hosts = request.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => return Err(HeadRefusal::Malformed("too many Host headers")),
        (Some(host), None) if !host.as_bytes().iter().all(is_host_byte) => {
            return Err(HeadRefusal::Malformed("malformed Host header"));
        }
        _ => {}
    }
    let size = head_size(target.len(), &request.headers);
    if size > max_bytes {
        return Err(HeadRefusal::TooLarge);
    }
    if size <= SMALL_HEAD {
        return Ok(None);
    }
    if let Some(held) = state.and_then(|state| state.take_held(size)) {
        return Ok(Some(held));
    }
    // Every client that connects over a network has an address.
    let client = client.unwrap_or(IpAddr::from([0; 4]));
    match large.take(client, size) {
        Some(taken) => Ok(Some(taken)),
        None => Err(HeadRefusal::TooManyLarge),
    }
}

/// Does for one byte what Go's `httpguts.ValidHostHeader` does.
pub(super) fn is_host_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(byte)
}
