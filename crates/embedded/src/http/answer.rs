//! Responses and what all of them carry.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use serde::Serialize;
use serde_json::Value;

use kubernetes_wire::api::{Reason, Status, go_json};

pub type Body = UnsyncBoxBody<Bytes, Infallible>;

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// Encoded JSON, which gets the newline Go's encoder ends with.
pub fn json_bytes(code: StatusCode, mut json: Vec<u8>) -> Response<Body> {
    json.push(b'\n');
    with_type(code, "application/json", json)
}

pub fn json<T: Serialize>(code: StatusCode, value: &T) -> Response<Body> {
    json_bytes(code, go_json::to_vec(value))
}

pub fn with_type(
    code: StatusCode,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `http.Error` and `http.NotFound` of Go.
pub fn text(code: StatusCode, message: &str) -> Response<Body> {
    let mut response = with_type(code, "text/plain; charset=utf-8", format!("{message}\n"));
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

pub fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found")
}

pub fn failure(status: &Status) -> Response<Body> {
    let mut response = with_type(status.http_status(), "application/json", status.to_json());
    if status.retry_after() > 0 {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, status.retry_after().into());
    }
    response
}

/// The `metav1.Status` of an action that makes no object of its own.
pub fn done(code: StatusCode) -> Response<Body> {
    let mut status = Status::failure(code.as_u16(), Reason::Unknown, "");
    status.status = "Success";
    with_type(code, "application/json", status.to_json())
}

/// The `metav1.Status` a DELETE answers with.
pub fn deleted(name: &str, group: &str, resource: &str, uid: &str) -> Response<Body> {
    #[derive(Serialize)]
    struct Details<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        group: &'a str,
        kind: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        uid: &'a str,
    }
    json(
        StatusCode::OK,
        &SuccessStatus {
            kind: "Status",
            api_version: "v1",
            metadata: Value::Object(serde_json::Map::new()),
            status: "Success",
            details: Details {
                name,
                group,
                kind: resource,
                uid,
            },
        },
    )
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SuccessStatus<D> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Value,
    status: &'static str,
    details: D,
}
