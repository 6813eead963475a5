//! Builds responses.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use kubernetes_wire::{
    api::{GroupResource, Status, go_json, status::Details},
    negotiation::{ErrorEncoding, MediaType},
    representation::error_status::encode_status,
};
use serde::Serialize;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

pub(crate) fn empty(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(Vec::new()));
    *response.status_mut() = code;
    response
}

pub(crate) fn with_type(
    code: StatusCode,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = empty(code);
    *response.body_mut() = full(bytes);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a 200 with a body that is sent piece by piece.
pub(crate) fn stream(
    content_type: &'static str,
    pieces: impl futures::Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    use futures::StreamExt;

    let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    let mut response = with_type(StatusCode::OK, content_type, Vec::new());
    *response.body_mut() = StreamBody::new(frames).boxed_unsync();
    response
}

/// Makes a response of complete JSON, with its newline.
pub(crate) fn ready(json: Vec<u8>) -> Response<Body> {
    with_type(StatusCode::OK, MediaType::Json.as_str(), json)
}

/// Makes a response of JSON, and adds the newline that Go's encoder writes.
pub(crate) fn json_bytes(code: StatusCode, mut json: Vec<u8>) -> Response<Body> {
    json.push(b'\n');
    with_type(code, MediaType::Json.as_str(), json)
}

pub(crate) fn json<T: Serialize>(code: StatusCode, value: &T) -> Response<Body> {
    json_bytes(code, go_json::to_vec(value))
}

/// Makes a text response like Go's `http.Error` and `http.NotFound`.
pub(crate) fn text(code: StatusCode, message: &str) -> Response<Body> {
    let mut response = with_type(code, "text/plain; charset=utf-8", format!("{message}\n"));
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

pub(crate) fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found")
}

pub(crate) fn failure(status: &Status, encoding: ErrorEncoding) -> Response<Body> {
    let (content_type, body) = encode_status(status, encoding);
    let mut response = with_type(status.http_status(), content_type, body);
    if status.retry_after() > 0 {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, status.retry_after().into());
    }
    response
}

/// Makes the Status response of an action that has no object of its own.
pub(crate) fn done(code: StatusCode) -> Response<Body> {
    success(code, &Status::success(code.as_u16()))
}

pub(crate) fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Response<Body> {
    let details = Details {
        uid: uid.to_owned(),
        ..Details::named(resource, name)
    };
    success(StatusCode::OK, &Status::success(0).with_details(details))
}

fn success(code: StatusCode, status: &Status) -> Response<Body> {
    with_type(code, MediaType::Json.as_str(), status.to_json())
}
