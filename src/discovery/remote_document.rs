//! A discovery document of a server, which is kept recent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName};
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::metrics::DiscoveryMetrics;
use crate::documents::{DocumentServer, FetchError, Fetched, Limits, Pace, Recent, Refreshed};

/// The greatest age of a document when a caller asks: zero. A caller who has seen at
/// upstream that a definition is established must find it here, too.
pub(super) const MAX_AGE: Duration = Duration::ZERO;

const PACE: Pace = Pace {
    // After this time the caller gets the last document. An API server answers in
    // milliseconds.
    wait: Duration::from_secs(2),
    // One request is in flight at a time, for all who wait.
    gap: Duration::ZERO,
    retry: Duration::from_millis(500),
    waits_for_first: true,
};

/// The time that kube-aggregator gives a server for its discovery document. After
/// that the server has failed, and is asked again later.
pub(super) const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of upstream's document. A custom resource takes some 600 bytes,
/// so there is room for 50,000.
const LIMITS: Limits = Limits {
    most: 32 << 20,
    within: DOCUMENT_TIMEOUT,
};

/// The name of the API server in metrics.
pub(super) const UPSTREAM: &str = "upstream";

/// The number of the next new document. Each different document gets its own number,
/// by which values that are derived from documents name their inputs.
static NUMBER: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(super) struct Document {
    pub(super) body: Bytes,
    pub(super) etag: Option<String>,
    pub(super) number: u64,
}

/// The conditions that a document must meet to be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) accept: &'static str,
    /// The Content-Type of the document, without spaces.
    pub(super) content_type: &'static str,
    /// Whether the API server itself writes the document. If so, a 5xx means that
    /// the API server is in trouble, and the last document stays. Otherwise a server
    /// behind the aggregator may write it. Then a 5xx is the answer, and that
    /// server's documents are not kept, because it negotiates in its own way.
    pub(super) own: bool,
}

/// The server that is asked for the document.
pub(super) struct Server {
    /// The server's name in metrics.
    pub(super) name: String,
    pub(super) documents: DocumentServer,
    pub(super) metrics: DiscoveryMetrics,
}

impl Server {
    /// Tells whether this process itself is the server.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.documents, DocumentServer::Own(_))
    }
}

pub(super) struct RemoteDocument {
    path: String,
    wanted: Wanted,
    recent: Arc<Recent<Document>>,
}

impl RemoteDocument {
    pub(super) fn new(path: &str, wanted: Wanted) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            wanted,
            recent: Recent::new(None, PACE),
        })
    }

    /// Returns the last document, whatever its age.
    pub(super) fn last(&self) -> Option<Arc<Document>> {
        self.recent.last()
    }

    /// Returns the time at which the document was last known to be current.
    pub(super) fn confirmed(&self) -> Option<Instant> {
        self.recent.confirmed()
    }

    /// Returns a document that is no older than `max_age`, if there is one soon,
    /// else the last document. `None` if there is none.
    pub(super) async fn get(
        self: &Arc<Self>,
        server: &Arc<Server>,
        max_age: Duration,
    ) -> Option<Arc<Document>> {
        let ask = |known| self.clone().ask(server.clone(), known);
        self.recent.get(max_age, ask).await
    }

    /// Requests the document again, unless a request is in flight or has just
    /// failed.
    pub(super) fn refresh(self: &Arc<Self>, server: &Arc<Server>) {
        let ask = |known| self.clone().ask(server.clone(), known);
        self.recent.refresh(ask);
    }

    /// Forgets the document, because another API server replaced this one.
    pub(super) fn forget(&self) {
        self.recent.forget();
    }

    async fn ask(
        self: Arc<Self>,
        server: Arc<Server>,
        known: Option<Arc<Document>>,
    ) -> Refreshed<Document> {
        let etag = known.as_ref().and_then(|d| d.etag.as_deref());
        let (documents, accept) = (&server.documents, self.wanted.accept);
        let fetched = documents.fetch(&self.path, accept, etag, LIMITS).await;
        let refreshed = self.read(fetched, known.as_deref());
        server.metrics.refreshed(&server.name, &refreshed);
        refreshed
    }

    /// Decides what an answer means for the known document.
    fn read(
        &self,
        fetched: Result<Fetched, FetchError>,
        known: Option<&Document>,
    ) -> Refreshed<Document> {
        match fetched {
            Ok(Fetched::NotModified) => Refreshed::Unchanged,
            Ok(Fetched::Document(headers, body)) if self.is_wanted(&headers) => {
                let etag = text(&headers, ETAG);
                if known.is_some_and(|old| old.body == body && old.etag == etag) {
                    return Refreshed::Unchanged;
                }
                Refreshed::Changed(Document {
                    body,
                    etag,
                    number: NUMBER.fetch_add(1, Ordering::Relaxed),
                })
            }
            Ok(Fetched::Refused(code))
                if self.wanted.own
                    && (code.is_server_error() || code == StatusCode::TOO_MANY_REQUESTS) =>
            {
                tracing::debug!(path = self.path, %code, "discovery refused");
                Refreshed::Failed
            }
            Err(error) => {
                tracing::debug!(path = self.path, %error, "discovery failed");
                Refreshed::Failed
            }
            Ok(_) if known.is_none() => Refreshed::Unchanged,
            Ok(_) => Refreshed::NotFound,
        }
    }

    fn is_wanted(&self, headers: &HeaderMap) -> bool {
        let content_type = text(headers, CONTENT_TYPE).unwrap_or_default();
        // An aggregator adds its own Cache-Control header to that of the server
        // behind it.
        let aggregated = headers.get_all(CACHE_CONTROL).iter().count() > 1;
        content_type.replace(' ', "") == self.wanted.content_type
            && (self.wanted.own || !aggregated)
    }
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}
