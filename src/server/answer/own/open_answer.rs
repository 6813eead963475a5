//! Answers that anybody may get. The port without authentication gives no others.
//! Their contents have types that cannot name callers or objects.

use http::header::HeaderName;
use http::{HeaderValue, StatusCode};

use super::nameless::Nameless;
use super::status;
use crate::health::HealthResponse;
use crate::metrics::CONTENT_TYPE;
use crate::server::reply::answer::Answer;
use crate::server::state::generation::Generation;

const CANNOT_WRITE: &str = "500 the answer cannot be written";

/// An answer that any caller may have. It cannot be made from a text or bytes of
/// unknown origin.
pub(in crate::server) struct OpenAnswer(Answer);

impl OpenAnswer {
    pub(in crate::server) fn text(status: StatusCode, text: &'static str) -> Self {
        let body = vec![text.into(), "\n".into()];
        Self(Answer::new(status, "text/plain; charset=utf-8", body))
    }

    pub(in crate::server) fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        let value = HeaderValue::from_static(value);
        self.0.headers.insert(name, value);
        self
    }

    /// Answers with a report, indented for people.
    pub(super) fn report(report: &impl Nameless) -> Self {
        Self::json(serde_json::to_vec_pretty(report))
    }

    /// Answers with a report for a program.
    pub(super) fn data(report: &impl Nameless) -> Self {
        Self::json(serde_json::to_vec(report))
    }

    fn json(written: serde_json::Result<Vec<u8>>) -> Self {
        match written {
            Ok(mut body) => {
                body.push(b'\n');
                let body = vec![body.into()];
                Self(Answer::new(StatusCode::OK, "application/json", body))
            }
            Err(_) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, CANNOT_WRITE),
        }
    }

    /// Answers with the metrics. docs/metrics.md lists their labels.
    pub(super) fn metrics(generation: &Generation) -> Self {
        generation.observe_cache();
        match generation.metrics.encode() {
            Ok(text) => Self(Answer::new(StatusCode::OK, CONTENT_TYPE, vec![text])),
            Err(error) => {
                tracing::error!(%error, "the metrics cannot be written");
                Self::text(StatusCode::INTERNAL_SERVER_ERROR, CANNOT_WRITE)
            }
        }
    }

    /// Answers with the result of health checks. The type of their reasons cannot
    /// name anybody. The names of checks in the query are repeated.
    pub(super) fn health(response: HealthResponse) -> Self {
        let headers = response.headers().collect();
        let body = vec![response.body];
        Self(Answer::of_parts(response.status, headers, body))
    }

    pub(super) fn status_page() -> Self {
        Self(status::page())
    }

    /// Adds the security headers of the status page's data.
    pub(super) fn guarded(self) -> Self {
        Self(status::guarded(self.0))
    }

    pub(in crate::server) fn into_answer(self) -> Answer {
        self.0
    }
}
