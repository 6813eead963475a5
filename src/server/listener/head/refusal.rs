//! Answers that the connection itself gives, to heads that are not accepted as
//! requests (400, 405, 414, 417, 429, 431, 501, 505). Then it ends the connection.

use std::time::Duration;

use chrono::Utc;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER};
use kubernetes_wire::api::{Reason, Status};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::server::listener::coalesce::Coalesced;

/// How long a client may take to receive the answer.
const WRITTEN_WITHIN: Duration = Duration::from_millis(500);

/// The reason why a head is not accepted as a request. If Go's server has words for
/// it, these are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum HeadRefusal {
    Malformed(&'static str),
    /// The head is over `serving.maxRequestHeaderBytes`.
    TooLarge,
    /// The target is longer than a URI may be in apifront.
    TargetTooLong,
    /// The budget for large heads is used up.
    TooManyLarge,
    /// The method asks for a tunnel.
    Connect,
    Expectation,
    TransferCoding,
    Version,
}

impl HeadRefusal {
    pub(in crate::server) fn status(self) -> Status {
        let (code, reason, text) = match self {
            Self::Malformed(text) => (StatusCode::BAD_REQUEST, Reason::BadRequest, text),
            Self::TooLarge => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                Reason::Unknown,
                "the head of the request is larger than the server takes",
            ),
            Self::TargetTooLong => (
                StatusCode::URI_TOO_LONG,
                Reason::Unknown,
                "the target of the request is longer than 65534 bytes",
            ),
            Self::TooManyLarge => (
                StatusCode::TOO_MANY_REQUESTS,
                Reason::TooManyRequests,
                "the server holds too many requests with large heads",
            ),
            Self::Connect => (
                StatusCode::METHOD_NOT_ALLOWED,
                Reason::MethodNotAllowed,
                "the server does not allow the method CONNECT",
            ),
            Self::Expectation => (
                StatusCode::EXPECTATION_FAILED,
                Reason::Unknown,
                "the server knows no expectation but 100-continue",
            ),
            Self::TransferCoding => (
                StatusCode::NOT_IMPLEMENTED,
                Reason::Unknown,
                "unsupported transfer encoding",
            ),
            Self::Version => (
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                Reason::Unknown,
                "unsupported protocol version",
            ),
        };
        let status = Status::failure(code.as_u16(), reason, text);
        match self {
            Self::TooManyLarge => status.retry_soon(),
            _ => status,
        }
    }

    pub(in crate::server::listener) async fn answer(self, mut stream: Box<Coalesced>) {
        // If this fails, the client has stopped reading and misses nothing.
        let _ = timeout(WRITTEN_WITHIN, stream.write_all(&self.message())).await;
        let _ = timeout(WRITTEN_WITHIN, stream.flush()).await;
        let _ = stream.shutdown().await;
    }

    fn message(self) -> Vec<u8> {
        let status = self.status();
        let body = status.to_json();
        let code = status.http_status();
        let mut head = format!("HTTP/1.1 {code}\r\n");
        let mut field = |name: http::HeaderName, value: &dyn std::fmt::Display| {
            head.push_str(&format!("{name}: {value}\r\n"));
        };
        field(CONTENT_TYPE, &"application/json");
        field(CONTENT_LENGTH, &body.len());
        field(DATE, &Utc::now().format("%a, %d %b %Y %H:%M:%S GMT"));
        field(CONNECTION, &"close");
        if status.retry_after() > 0 {
            field(RETRY_AFTER, &status.retry_after());
        }
        head.push_str("\r\n");
        [head.as_bytes(), &body].concat()
    }
}
