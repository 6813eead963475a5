//! One server of OpenAPI documents: upstream, or a backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use super::accept::{Encoding, Version};
use super::convert;
use super::document::Document;
use super::error::DocumentError;
use super::metrics::{Kind, OpenApiMetrics};
use super::root::{self, Root};
use crate::documents::{
    DocumentServer, Fetched, Interest, Limits, Pace, Recent, Refreshed, Rhythm,
};

/// The time for which a request waits for upstream, which builds a merged document
/// in less.
const WAIT_FOR_UPSTREAM: Duration = Duration::from_secs(5);
/// The time for which a request waits for a backend. There is an answer without the
/// backend, too.
pub(super) const WAIT_FOR_BACKEND: Duration = Duration::from_millis(500);

/// The greatest age of a backend's answer: a check and the pause before it.
/// kube-aggregator asks its backends once a minute.
pub(super) const FRESH_BACKEND: Duration = Duration::from_millis(1500);

const OF_BACKENDS: Rhythm = Rhythm {
    active: Duration::from_secs(1),
    // kube-aggregator asks its backends as often.
    idle: Duration::from_secs(60),
    // Clients like kubectl ask a few times in a row, and then not at all.
    active_for: Duration::from_secs(30),
};

/// The time from the request to the last byte. kube-aggregator waits a minute, but a
/// server that needs this long for a finished document hangs.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(20);

/// The limits of a document. kube-apiserver 1.37's merged document has 2.4 MB; in a
/// cluster with a thousand CustomResourceDefinitions it has some 60 MB. A larger one
/// is the server's error: the earlier document stays, or the request is forwarded.
const DOCUMENT: Limits = Limits {
    most: 128 << 20,
    within: DOCUMENT_TIMEOUT,
};

/// The limits of a root, which has one line for each group version.
const ROOT: Limits = Limits {
    most: 4 << 20,
    within: DOCUMENT_TIMEOUT,
};

/// The next server's ID. IDs distinguish servers of the same name.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

pub(super) struct Server {
    pub id: u64,
    /// The configured name, or empty for upstream.
    pub name: String,
    pub documents: DocumentServer,
    root: Checked<Root>,
    v2_json: Checked<Document>,
    /// The v2 document in protobuf. Only upstream is asked for it: backends'
    /// documents are merged as JSON.
    v2_protobuf: Checked<Document>,
    metrics: OpenApiMetrics,
}

/// A document that is checked while callers ask for it.
struct Checked<T> {
    recent: Arc<Recent<T>>,
    interest: Interest,
}

impl<T: Send + Sync + 'static> Checked<T> {
    fn new(before: Option<&Self>, is_upstream: bool) -> Self {
        let (wait, rhythm) = match is_upstream {
            true => (WAIT_FOR_UPSTREAM, Rhythm::OF_UPSTREAM),
            false => (WAIT_FOR_BACKEND, OF_BACKENDS),
        };
        let pace = Pace {
            wait,
            // One request is in flight at a time, for all who wait.
            gap: Duration::ZERO,
            retry: Duration::from_secs(1),
            waits_for_first: false,
        };
        Self {
            recent: Recent::new(before.and_then(|b| b.recent.last()), pace),
            interest: Interest::new(rhythm),
        }
    }
}

impl Server {
    /// `before` is the earlier `Server` of this name. Its documents are kept.
    pub(super) fn new(
        name: &str,
        documents: DocumentServer,
        before: Option<&Self>,
        metrics: OpenApiMetrics,
    ) -> Self {
        let is_upstream = name.is_empty();
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            documents,
            root: Checked::new(before.map(|b| &b.root), is_upstream),
            v2_json: Checked::new(before.map(|b| &b.v2_json), is_upstream),
            v2_protobuf: Checked::new(None, is_upstream),
            metrics,
        }
    }

    pub(super) fn is_upstream(&self) -> bool {
        self.name.is_empty()
    }

    /// Returns the root, no older than `max_age` if one that recent is there soon.
    pub(super) async fn root(self: &Arc<Self>, max_age: Duration) -> Option<Arc<Root>> {
        self.root.interest.note();
        let ask = |known| self.clone().ask_root(known);
        self.root.recent.get(max_age, ask).await
    }

    /// Returns the greatest age of a document when a caller asks. Upstream's is
    /// confirmed for each caller.
    fn max_age(&self) -> Duration {
        match self.is_upstream() {
            true => Duration::ZERO,
            false => FRESH_BACKEND,
        }
    }

    /// Returns the v2 document, as fresh as [`Self::max_age`] requires if one that
    /// fresh is there soon.
    pub(super) async fn v2(self: &Arc<Self>, encoding: Encoding) -> Option<Arc<Document>> {
        let document = self.checked_v2(encoding);
        document.interest.note();
        let ask = |known| self.clone().ask_v2(encoding, known);
        document.recent.get(self.max_age(), ask).await
    }

    fn checked_v2(&self, encoding: Encoding) -> &Checked<Document> {
        match encoding {
            Encoding::Json => &self.v2_json,
            Encoding::Protobuf => &self.v2_protobuf,
        }
    }

    /// Keeps all documents of the server recent, for ever. The v2 documents are
    /// large, so they are fetched only once a caller has asked for them.
    pub(super) async fn keep(self: Arc<Self>) {
        let v2 = async |encoding| {
            let document = self.checked_v2(encoding);
            document.interest.begins().await;
            let ask = |known| self.clone().ask_v2(encoding, known);
            document.recent.keep(&document.interest, ask).await;
        };
        let ask_root = |known| self.clone().ask_root(known);
        tokio::join!(
            self.root.recent.keep(&self.root.interest, ask_root),
            v2(Encoding::Json),
            v2(Encoding::Protobuf),
        );
    }

    async fn ask_root(self: Arc<Self>, known: Option<Arc<Root>>) -> Refreshed<Root> {
        self.observe(Kind::V3Root, self.check_root(known).await)
    }

    async fn ask_v2(
        self: Arc<Self>,
        encoding: Encoding,
        known: Option<Arc<Document>>,
    ) -> Refreshed<Document> {
        self.observe(Kind::V2, self.check_v2(encoding, known).await)
    }

    fn observe<T>(&self, kind: Kind, checked: Result<Refreshed<T>, DocumentError>) -> Refreshed<T> {
        let refreshed = checked.unwrap_or_else(|error| {
            tracing::debug!(server = %self.name, document = ?kind, %error, "no OpenAPI document");
            Refreshed::Failed
        });
        self.metrics.check(&self.name, kind, refreshed.as_str());
        refreshed
    }

    async fn check_root(&self, known: Option<Arc<Root>>) -> Result<Refreshed<Root>, DocumentError> {
        let (documents, accept) = (&self.documents, "application/json");
        match documents.fetch(root::PATH, accept, None, ROOT).await? {
            Fetched::NotModified => Ok(Refreshed::Unchanged),
            Fetched::Refused(StatusCode::NOT_FOUND) if self.is_upstream() => {
                Ok(Refreshed::NotFound)
            }
            Fetched::Refused(StatusCode::NOT_FOUND) => self.check_converted(known).await,
            Fetched::Refused(status) => Err(DocumentError::Status(status)),
            Fetched::Document(_, bytes) => match known {
                Some(known) if known.bytes == bytes => Ok(Refreshed::Unchanged),
                _ => Root::parse(bytes).map(Refreshed::Changed),
            },
        }
    }

    /// Checks the v2 document of a backend without v3.
    async fn check_converted(
        &self,
        known: Option<Arc<Root>>,
    ) -> Result<Refreshed<Root>, DocumentError> {
        let known = known.as_ref().and_then(|root| root.converted.as_ref());
        let known = known.map(|converted| converted.v2.clone());
        let v2 = match self.check_v2(Encoding::Json, known).await? {
            Refreshed::Changed(v2) => v2,
            Refreshed::Unchanged => return Ok(Refreshed::Unchanged),
            Refreshed::NotFound => return Ok(Refreshed::NotFound),
            Refreshed::Failed => return Ok(Refreshed::Failed),
        };
        let bytes = v2.bytes.clone();
        let made = tokio::task::spawn_blocking(move || convert::convert(&bytes)).await;
        let made = made.ok().flatten();
        let v3 = made.ok_or_else(|| DocumentError::Content("no OpenAPI v2".to_owned()))?;
        let v3 = Document::made(v3, Version::V3.content_type(Encoding::Json));
        let root = Root::converted(Arc::new(v2), Arc::new(v3));
        Ok(Refreshed::Changed(root))
    }

    async fn check_v2(
        &self,
        encoding: Encoding,
        known: Option<Arc<Document>>,
    ) -> Result<Refreshed<Document>, DocumentError> {
        let etag = known.as_ref().and_then(|k| k.etag.as_ref()?.to_str().ok());
        let accept = Version::V2.accept(encoding);
        let (documents, path) = (&self.documents, "/openapi/v2");
        match documents.fetch(path, accept, etag, DOCUMENT).await? {
            Fetched::NotModified => Ok(Refreshed::Unchanged),
            Fetched::Refused(StatusCode::NOT_FOUND) => Ok(Refreshed::NotFound),
            Fetched::Refused(status) => Err(DocumentError::Status(status)),
            Fetched::Document(headers, bytes) => {
                check_type(&headers, &bytes, Version::V2, encoding)?;
                match known {
                    // The server sends no ETags.
                    Some(known) if known.bytes == bytes && known.etag.is_none() => {
                        Ok(Refreshed::Unchanged)
                    }
                    _ => Ok(Refreshed::Changed(Document::received(&headers, bytes))),
                }
            }
        }
    }

    /// Returns the v3 document of a key, or `None` if there is none.
    pub(super) async fn v3_document(
        &self,
        key: &str,
        encoding: Encoding,
    ) -> Result<Option<Document>, DocumentError> {
        let path = root::url(key, None);
        let accept = Version::V3.accept(encoding);
        match self.documents.fetch(&path, accept, None, DOCUMENT).await? {
            Fetched::Document(headers, bytes) => {
                check_type(&headers, &bytes, Version::V3, encoding)?;
                Ok(Some(Document::received(&headers, bytes)))
            }
            Fetched::Refused(StatusCode::NOT_FOUND) => Ok(None),
            Fetched::Refused(status) => Err(DocumentError::Status(status)),
            Fetched::NotModified => Err(DocumentError::Status(StatusCode::NOT_MODIFIED)),
        }
    }
}

/// Checks the Content-Type, because an answer of 200 may be no document.
fn check_type(
    headers: &HeaderMap,
    bytes: &[u8],
    version: Version,
    encoding: Encoding,
) -> Result<(), DocumentError> {
    let given = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let given = given.unwrap_or_default();
    let media = given.split(';').next().unwrap_or_default().trim();
    let right = match encoding {
        Encoding::Json => media == "application/json" && bytes.first() == Some(&b'{'),
        Encoding::Protobuf => {
            media == version.accept(encoding) || media == version.content_type(encoding)
        }
    };
    if right {
        Ok(())
    } else {
        Err(DocumentError::Content(format!("Content-Type {given:?}")))
    }
}
