//! Serves a port whose answers are all in memory, and to which no request is
//! forwarded.

use async_trait::async_trait;
use http::{Response, request};
use pingora_core::apps::http_app::ServeHttp;
use pingora_core::protocols::http::ServerSession;

/// Answers all requests of a port. The target is that of the request line.
pub(in crate::server) trait AnswersAtOnce {
    fn answer(&self, request: &request::Parts, target: &[u8]) -> Response<Vec<u8>>;
}

pub(in crate::server) struct PortApp<A>(pub(in crate::server) A);

#[async_trait]
impl<A: AnswersAtOnce + Send + Sync> ServeHttp for PortApp<A> {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let request = session.req_header();
        self.0.answer(request, request.raw_path())
    }
}
