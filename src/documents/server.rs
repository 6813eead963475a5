//! A server of documents: API servers, or this process itself.

use std::sync::Arc;

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;

use super::fetch::{FetchError, Fetched, Limits, fetch};
use super::own_documents::OwnDocuments;

#[derive(Clone)]
pub enum DocumentServer {
    /// API servers. Requests to them carry apifront's own identity.
    Remote(Arc<ArcSwap<Upstream>>),
    /// This process. Nothing is sent, and the documents are there from the start.
    Own(Arc<OwnDocuments>),
}

impl DocumentServer {
    /// Requests the document at `path`. `etag` is that of the known document.
    pub async fn fetch(
        &self,
        path: &str,
        accept: &str,
        etag: Option<&str>,
        limits: Limits,
    ) -> Result<Fetched, FetchError> {
        match self {
            Self::Remote(upstream) => {
                fetch(&upstream.load_full(), path, accept, etag, limits).await
            }
            Self::Own(documents) => Ok(documents.fetch(path)),
        }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Remote(a), Self::Remote(b)) => Arc::ptr_eq(a, b),
            (Self::Own(a), Self::Own(b)) => Arc::ptr_eq(a, b),
            (Self::Remote(_), Self::Own(_)) | (Self::Own(_), Self::Remote(_)) => false,
        }
    }
}
