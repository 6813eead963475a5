//! Serves the observability port: health, metrics and the cache's state over plain
//! HTTP on loopback, without authentication. It answers programs, such as Prometheus
//! through `kubectl port-forward`, and its own status page, but no foreign web pages
//! (`foreign_request.rs`). Its answers are for everybody, and name no caller and no object
//! (`open_answer.rs`).

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::ALLOW;
use http::{Method, Response, StatusCode, request};

use super::open_answer::OpenAnswer;
use crate::server::answer::own;
use crate::server::exchange::port_app::AnswersAtOnce;
use crate::server::listener::foreign_request::{self, Port};
use crate::server::state::generation::Generation;

pub(in crate::server) struct Observability {
    pub(in crate::server) current: Arc<ArcSwap<Generation>>,
}

impl AnswersAtOnce for Observability {
    fn answer(&self, request: &request::Parts, target: &[u8]) -> Response<Vec<u8>> {
        let generation = self.current.load_full();
        let answer = refuse(request, target).unwrap_or_else(|| answer(&generation, request));
        let answer = answer.into_answer();
        let mut response = Response::new(answer.body.concat());
        *response.status_mut() = answer.status;
        response
            .headers_mut()
            .insert(http::header::CONTENT_LENGTH, response_length(&answer.body));
        response.headers_mut().extend(answer.headers);
        response
    }
}

/// Refuses requests that no monitoring program would make.
fn refuse(request: &request::Parts, target: &[u8]) -> Option<OpenAnswer> {
    let authority = request.uri.authority().map(|a| a.as_str().as_bytes());
    let target = foreign_request::absolute_authority(target);
    let authorities = [authority, target].into_iter();
    if let Some(why) = foreign_request::why_refused(&request.headers, authorities, Port::Any) {
        return Some(OpenAnswer::text(StatusCode::FORBIDDEN, why));
    }
    if !matches!(request.method, Method::GET | Method::HEAD) {
        let answer = OpenAnswer::text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed");
        return Some(answer.with_header(ALLOW, "GET, HEAD"));
    }
    None
}

fn answer(generation: &Generation, request: &request::Parts) -> OpenAnswer {
    let path = request.uri.path();
    let query = request.uri.query().unwrap_or_default();
    own::open(generation, path, query)
        .unwrap_or_else(|| OpenAnswer::text(StatusCode::NOT_FOUND, "404 page not found"))
}

fn response_length(body: &[bytes::Bytes]) -> http::HeaderValue {
    http::HeaderValue::from(body.iter().map(bytes::Bytes::len).sum::<usize>())
}
