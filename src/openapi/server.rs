//! One server of documents: upstream, or a backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, IF_NONE_MATCH};

use super::accept::{Encoding, Version};
use super::convert;
use super::document::Document;
use super::fetch::{self, FetchError, Fetched, MAX_DOCUMENT, MAX_ROOT};
use super::metrics::{Check, Kind, OpenApiMetrics};
use super::root::{self, Root};
use super::watched::{Found, Watched};

/// How long a request waits for upstream: longer than it takes to build a
/// merged document anew.
const WAIT_FOR_UPSTREAM: Duration = Duration::from_secs(5);
/// And for a backend, without which there is an answer, too.
const WAIT_FOR_BACKEND: Duration = Duration::from_millis(500);

/// Tells servers apart that have, or had, the same name.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

pub struct Server {
    pub id: u64,
    /// Empty for upstream.
    pub name: String,
    pub upstream: Arc<ArcSwap<Upstream>>,
    pub root: Watched<Root>,
    pub v2_json: Watched<Document>,
    /// Of backends, JSON alone is merged.
    pub v2_protobuf: Watched<Document>,
}

impl Server {
    /// `before` is what knew the same server so far.
    pub fn new(name: &str, upstream: Arc<ArcSwap<Upstream>>, before: Option<&Self>) -> Self {
        let wait = if name.is_empty() {
            WAIT_FOR_UPSTREAM
        } else {
            WAIT_FOR_BACKEND
        };
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            upstream,
            root: Watched::new(before.and_then(|b| b.root.known()), wait),
            v2_json: Watched::new(before.and_then(|b| b.v2_json.known()), wait),
            v2_protobuf: Watched::new(None, wait),
        }
    }

    pub fn is_upstream(&self) -> bool {
        self.name.is_empty()
    }

    pub fn v2(&self, encoding: Encoding) -> &Watched<Document> {
        match encoding {
            Encoding::Json => &self.v2_json,
            Encoding::Protobuf => &self.v2_protobuf,
        }
    }

    /// Keeps all of its documents recent, for ever. v2 is large: nobody's
    /// until somebody asks for it.
    pub async fn keep(&self, metrics: &OpenApiMetrics) {
        let observe = |kind: Kind| {
            move |found: &Result<Found<()>, FetchError>| self.observe(metrics, kind, found)
        };
        let v2 = async |encoding| {
            let document = self.v2(encoding);
            document.wanted().await;
            let check = |known| self.check_v2(encoding, known);
            document.keep(check, observe(Kind::V2)).await;
        };
        tokio::join!(
            self.root
                .keep(|known| self.check_root(known), observe(Kind::V3Root)),
            v2(Encoding::Json),
            v2(Encoding::Protobuf),
        );
    }

    fn observe(&self, metrics: &OpenApiMetrics, kind: Kind, found: &Result<Found<()>, FetchError>) {
        let check = match found {
            Ok(Found::Changed(())) => Check::Changed,
            Ok(Found::Unchanged) => Check::Unchanged,
            Ok(Found::Nothing) => Check::NotFound,
            Err(error) => {
                tracing::debug!(server = %self.name, document = ?kind, %error, "no OpenAPI document");
                Check::Failed
            }
        };
        metrics.check(&self.name, kind, check);
    }

    async fn check_root(&self, known: Option<Arc<Root>>) -> Result<Found<Root>, FetchError> {
        let upstream = self.upstream.load_full();
        let json = [(ACCEPT, "application/json")];
        match fetch::get(&upstream, root::PATH, &json, MAX_ROOT).await? {
            Fetched::NotModified => Ok(Found::Unchanged),
            Fetched::NotFound if self.is_upstream() => Ok(Found::Nothing),
            Fetched::NotFound => self.check_converted(known).await,
            Fetched::Document(_, bytes) => match known {
                Some(known) if known.bytes == bytes => Ok(Found::Unchanged),
                _ => Root::parse(bytes).map(Found::Changed),
            },
        }
    }

    /// What a backend without v3 has instead.
    async fn check_converted(&self, known: Option<Arc<Root>>) -> Result<Found<Root>, FetchError> {
        let known = known.as_ref().and_then(|root| root.converted.as_ref());
        let known = known.map(|converted| converted.v2.clone());
        let v2 = match self.check_v2(Encoding::Json, known).await? {
            Found::Unchanged => return Ok(Found::Unchanged),
            Found::Nothing => return Ok(Found::Nothing),
            Found::Changed(v2) => v2,
        };
        let bytes = v2.bytes.clone();
        let made = tokio::task::spawn_blocking(move || convert::convert(&bytes)).await;
        let made = made.ok().flatten();
        let v3 = made.ok_or_else(|| FetchError::Content("no OpenAPI v2".to_owned()))?;
        let v3 = Document::made(v3, Version::V3.content_type(Encoding::Json));
        Ok(Found::Changed(Root::converted(Arc::new(v2), Arc::new(v3))))
    }

    async fn check_v2(
        &self,
        encoding: Encoding,
        known: Option<Arc<Document>>,
    ) -> Result<Found<Document>, FetchError> {
        let upstream = self.upstream.load_full();
        let etag = known.as_ref().and_then(|k| k.etag.as_ref()?.to_str().ok());
        let mut headers = vec![(ACCEPT, Version::V2.accept(encoding))];
        headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
        match fetch::get(&upstream, "/openapi/v2", &headers, MAX_DOCUMENT).await? {
            Fetched::NotModified => Ok(Found::Unchanged),
            Fetched::NotFound => Ok(Found::Nothing),
            Fetched::Document(headers, bytes) => {
                check_type(&headers, &bytes, Version::V2, encoding)?;
                match known {
                    // A server without ETags.
                    Some(known) if known.bytes == bytes && known.etag.is_none() => {
                        Ok(Found::Unchanged)
                    }
                    _ => Ok(Found::Changed(Document::received(&headers, bytes))),
                }
            }
        }
    }

    /// The v3 document of a key, `None` when there is none.
    pub async fn v3_document(
        &self,
        key: &str,
        encoding: Encoding,
    ) -> Result<Option<Document>, FetchError> {
        let upstream = self.upstream.load_full();
        let accept = [(ACCEPT, Version::V3.accept(encoding))];
        let path = root::url(key, None);
        match fetch::get(&upstream, &path, &accept, MAX_DOCUMENT).await? {
            Fetched::Document(headers, bytes) => {
                check_type(&headers, &bytes, Version::V3, encoding)?;
                Ok(Some(Document::received(&headers, bytes)))
            }
            Fetched::NotFound => Ok(None),
            Fetched::NotModified => Err(FetchError::Status(http::StatusCode::NOT_MODIFIED)),
        }
    }
}

/// Whatever answers 200 at that path is not therefore a document.
fn check_type(
    headers: &HeaderMap,
    bytes: &[u8],
    version: Version,
    encoding: Encoding,
) -> Result<(), FetchError> {
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
        Err(FetchError::Content(format!("Content-Type {given:?}")))
    }
}
