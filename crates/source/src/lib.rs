//! The interface through which a cache reads from API servers: it sends GETs, and asks
//! what kind of servers they are. The cache does not know how the requests are sent, or
//! with which credentials.
//!
//! ```
//! use apifront_source::{BodyLimit, JSON, ReadKind, ResponseBody, Source, SourceError};
//! use futures::future::BoxFuture;
//! use http::Response;
//! use http_body_util::Full;
//!
//! /// Answers every request with an empty object.
//! struct Empty;
//!
//! impl Source for Empty {
//!     fn get<'a>(
//!         &'a self,
//!         _: ReadKind,
//!         _path_and_query: &'a str,
//!         _accept: &'a str,
//!     ) -> BoxFuture<'a, Result<Response<ResponseBody>, SourceError>> {
//!         let body = ResponseBody::new(Full::from("{}"));
//!         Box::pin(async { Ok(Response::new(body)) })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let answer = Empty.get(ReadKind::Discovery, "/version", JSON).await.unwrap();
//! let body = answer.into_body().collect_bytes(BodyLimit::DOCUMENT).await;
//! assert_eq!(body.unwrap(), "{}");
//! # }
//! ```

// No value from the wire or a file may cause a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

mod read_kind;
mod release;
mod response_body;
mod server_identity;

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use http::Response;
use kubernetes_wire::api::Release;

pub use read_kind::ReadKind;
pub use release::{VERSION, release_in};
pub use response_body::{BodyError, BodyLimit, BodyStream, ResponseBody};
pub use server_identity::{ServerIdentity, Unidentified};

/// The error of a library, whatever it is.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The Accept header of requests for JSON.
pub const JSON: &str = "application/json";

/// Why a request has no answer. An answer with an error code is no error here.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SourceError(#[from] BoxError);

/// API servers of one cluster.
pub trait Source: Send + Sync {
    /// GETs a path. The time until the answer's head should be bounded. The time for
    /// its body should not be: the body may be a watch.
    ///
    /// The body must fail when its server is lost. Without that, a watch on a lost
    /// server would look like one without events.
    fn get<'a>(
        &'a self,
        kind: ReadKind,
        path_and_query: &'a str,
        accept: &'a str,
    ) -> BoxFuture<'a, Result<Response<ResponseBody>, SourceError>>;

    /// Asks for the release of Kubernetes. `None` if no answer tells the release. A
    /// cache asks for each resource that it lists or watches.
    fn release(&self) -> BoxFuture<'_, Option<Release>> {
        Box::pin(async {
            let answer = self.get(ReadKind::Discovery, VERSION, JSON).await;
            release_in(answer.ok()?).await
        })
    }

    /// Asks for the cluster's and the server's identity.
    fn identity(&self) -> BoxFuture<'_, Result<ServerIdentity, Unidentified>> {
        Box::pin(server_identity::ask(self))
    }

    /// Tells whether a server is ready for requests, as far as is known. When that
    /// becomes true again, requests that failed are repeated sooner.
    fn is_ready(&self) -> bool {
        true
    }

    /// Tells whether no server can be reached, as far as is known. Nothing of such a
    /// source is dropped from a cache for want of use.
    fn is_unreachable(&self) -> bool {
        false
    }
}

/// The source that is used now. Another may replace it at any time.
pub trait CurrentSource: Send + Sync {
    fn current(&self) -> Arc<dyn Source>;
}

impl<S: Source + 'static> CurrentSource for ArcSwap<S> {
    fn current(&self) -> Arc<dyn Source> {
        self.load_full()
    }
}
