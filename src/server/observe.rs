//! The observability port: health, metrics and the cache's state over plain HTTP on loopback,
//! without authentication.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::{Response, StatusCode};
use pingora_core::apps::http_app::ServeHttp;
use pingora_core::protocols::http::ServerSession;

use super::front::Front;
use super::local;
use super::respond::Answer;
use crate::api::Query;

pub(super) struct Observe {
    pub(super) front: Arc<ArcSwap<Front>>,
}

#[async_trait]
impl ServeHttp for Observe {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let front = self.front.load_full();
        let request = session.req_header();
        let path = request.uri.path();
        let query = request.uri.query().unwrap_or_default();
        let own = local::answer_health(&front, path, query)
            .or_else(|| local::answer_unasked(&front, path, &Query::parse(query)));
        let answer = match own {
            Some(answer) => answer,
            None => Answer::new(
                StatusCode::NOT_FOUND,
                "text/plain; charset=utf-8",
                vec!["404 page not found\n".into()],
            ),
        };
        let mut response = Response::new(answer.body.concat());
        *response.status_mut() = answer.status;
        response
            .headers_mut()
            .insert(http::header::CONTENT_LENGTH, response_length(&answer.body));
        response.headers_mut().extend(answer.headers);
        response
    }
}

fn response_length(body: &[bytes::Bytes]) -> http::HeaderValue {
    http::HeaderValue::from(body.iter().map(bytes::Bytes::len).sum::<usize>())
}
