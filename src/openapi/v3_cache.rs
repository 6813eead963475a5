//! A cache of v3 documents by hash. A document is fetched from its server at its
//! first request.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use moka::future::Cache;
use moka::policy::EvictionPolicy;

use super::accept::Encoding;
use super::document::Document;
use super::error::DocumentError;
use super::merged_root::Owner;

/// The greatest size of the cache. All documents of kube-apiserver 1.36 in both
/// encodings have 24 MB. Above this size, the least recently used documents are
/// dropped, and fetched again when needed.
const MAX_BYTES: u64 = 128 << 20;
/// The memory that is counted for a document besides its bytes.
const OVERHEAD_BYTES: u32 = 1 << 10;
/// The time after which an unused document is dropped. Its hash is old, or its API
/// is gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// The time for which a document without a hash is kept, as in kube-aggregator.
const UNHASHED_SECONDS: u64 = 60;

type Name = (u64, String, Encoding, String);

pub(super) struct V3Cache {
    documents: Cache<Name, Arc<Document>>,
}

impl Default for V3Cache {
    fn default() -> Self {
        let weigh = |_: &Name, document: &Arc<Document>| {
            u32::try_from(document.bytes.len())
                .map_or(u32::MAX, |n| n.saturating_add(OVERHEAD_BYTES))
        };
        let documents = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(weigh)
            .eviction_policy(EvictionPolicy::lru())
            .time_to_idle(IDLE_TIMEOUT)
            .build();
        Self { documents }
    }
}

impl V3Cache {
    /// Returns a key's document from its owner. Callers who ask while it is being
    /// fetched wait for that fetch.
    pub(super) async fn document(
        &self,
        owner: &Owner,
        key: &str,
        encoding: Encoding,
    ) -> Result<Arc<Document>, Arc<Missing>> {
        match (&owner.converted, encoding) {
            (Some(document), Encoding::Json) => return Ok(document.clone()),
            // A converted document exists only as JSON.
            (Some(_), Encoding::Protobuf) => {
                let status = DocumentError::Status(StatusCode::NOT_ACCEPTABLE);
                return Err(Arc::new(Missing::Failed(status)));
            }
            (None, _) => {}
        }
        let hash = owner.hash.clone().unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let period = now.map_or(0, |now| now.as_secs() / UNHASHED_SECONDS);
            format!(" {period}")
        });
        let name = (owner.server.id, key.to_owned(), encoding, hash);
        let fetch = async {
            match owner.server.v3_document(key, encoding).await {
                Ok(Some(document)) => Ok(Arc::new(document)),
                Ok(None) => Err(Missing::NotFound),
                Err(error) => Err(Missing::Failed(error)),
            }
        };
        self.documents.try_get_with(name, fetch).await
    }

    pub(super) fn bytes(&self) -> u64 {
        self.documents.weighted_size()
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("its server does not have it")]
    NotFound,
    #[error(transparent)]
    Failed(DocumentError),
}
