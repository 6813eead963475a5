//! Answers requests for OpenAPI documents.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures::future::join_all;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION, RANGE,
    VARY,
};
use http::{HeaderMap, Method, StatusCode};

use super::OpenApi;
use super::accept::{self, Accepted, Encoding, Version};
use super::document::{Document, Reply, http_date};
use super::error::DocumentError;
use super::merged_root::{MergedRoot, Owner};
use super::metrics::Kind;
use super::root;
use super::server::FRESH_BACKEND;
use super::shown_apis::ShownApis;
use super::v2;
use super::v3_cache::Missing;

/// The least number of bytes that gziphandler compresses.
const GZIP_ABOVE: usize = 512;

/// A GET or HEAD request.
pub struct Request<'a> {
    pub method: &'a Method,
    /// The path, percent-decoded.
    pub path: &'a str,
    pub hash: Option<&'a str>,
    pub headers: &'a HeaderMap,
}

#[derive(Debug)]
pub enum Answered {
    /// The path is not one of OpenAPI's.
    NotAsked,
    Reply(Reply),
    /// The request is forwarded: upstream has the document, or can answer where
    /// apifront cannot.
    Forward,
    /// A backend has the document, but does not return it. The text is the
    /// reason.
    Unavailable(String),
}

impl OpenApi {
    pub async fn answer(&self, request: &Request<'_>) -> Answered {
        let (kind, answered) = if request.path == root::PATH {
            (Kind::V3Root, self.answer_root(request).await)
        } else if let Some(key) = key(request.path) {
            (Kind::V3Document, self.answer_document(request, key).await)
        } else if request.path == "/openapi/v2" {
            (Kind::V2, self.answer_v2(request).await)
        } else {
            return Answered::NotAsked;
        };
        let result = match answered {
            Answered::NotAsked => return answered,
            Answered::Reply(_) => "answered",
            Answered::Forward => "forwarded",
            Answered::Unavailable(_) => "unavailable",
        };
        self.metrics.request(kind, result);
        self.metrics.kept(self.v3_cache.bytes());
        answered
    }

    async fn answer_root(&self, request: &Request<'_>) -> Answered {
        // Upstream answers ranges of its own root. Ranges of a merged root are
        // optional (RFC 9110 §14.2).
        if request.headers.contains_key(RANGE) && self.shown.load().is_plain() {
            return Answered::Forward;
        }
        match self.merged_root(FRESH_BACKEND).await {
            Some(merged) => {
                let document = root::document(merged.bytes.clone(), http_date(Utc::now()));
                let mut reply = document.reply(request.headers);
                if reply.status == StatusCode::PRECONDITION_FAILED {
                    // Go sniffs the Content-Type from the body, and this answer has
                    // no body.
                    reply.headers.remove(CONTENT_TYPE);
                }
                Answered::Reply(reply)
            }
            None => Answered::Forward,
        }
    }

    /// Returns the merged root, or `None` while upstream's root is unknown.
    /// `max_age` is the greatest age of the backends' roots. Upstream's is confirmed
    /// for each caller.
    async fn merged_root(&self, max_age: Duration) -> Option<Arc<MergedRoot>> {
        let shown = self.shown.load_full();
        let backends = join_all(shown.backends.iter().map(|b| b.server.root(max_age)));
        let (upstream, backends) = tokio::join!(self.main.root(Duration::ZERO), backends);
        let upstream = upstream?;
        if let Some(merged) = self.root.load_full()
            && merged.is_of(&shown, &upstream, &backends)
        {
            return Some(merged);
        }
        let merged = Arc::new(MergedRoot::new(&self.main, shown, upstream, backends));
        self.root.store(Some(merged.clone()));
        Some(merged)
    }

    async fn answer_document(&self, request: &Request<'_>, key: &str) -> Answered {
        let wanted = request.hash.filter(|hash| !hash.is_empty());
        let is_wanted = |root: &Arc<MergedRoot>| match root.owner(key) {
            None => false,
            Some(owner) => wanted.is_none() || owner.hash.as_deref() == wanted,
        };
        // A document with that hash is always the same, so no server is asked again.
        let last = self.root.load_full().filter(|root| {
            wanted.is_some() && Arc::ptr_eq(root.shown(), &self.shown.load()) && is_wanted(root)
        });
        let recent = match last {
            Some(last) => Some(last),
            None => self.merged_root(FRESH_BACKEND).await,
        };
        // The caller may know a newer root.
        let newest = match recent {
            Some(recent) if !is_wanted(&recent) => self.merged_root(Duration::ZERO).await,
            recent => recent,
        };
        let Some(newest) = newest else {
            return Answered::Forward;
        };
        match newest.owner(key) {
            Some(owner) => {
                let mut answered = self.answer_owned(request, key, owner, wanted).await;
                if let Answered::Reply(reply) = &mut answered
                    && !owner.server.is_upstream()
                    && owner.converted.is_none()
                {
                    pass_on(reply);
                }
                answered
            }
            None => Answered::Reply(Reply::empty(StatusCode::NOT_FOUND)),
        }
    }

    async fn answer_owned(
        &self,
        request: &Request<'_>,
        key: &str,
        owner: &Owner,
        wanted: Option<&str>,
    ) -> Answered {
        let upstreams = owner.server.is_upstream();
        if upstreams && request.headers.contains_key(RANGE) {
            return Answered::Forward;
        }
        let encoding = match Version::V3.negotiate(request.headers) {
            Accepted::Encoding(encoding) => encoding,
            Accepted::NoClause | Accepted::Unreadable if upstreams => return Answered::Forward,
            _ => return not_acceptable(&["Accept"]),
        };
        let document = match self.v3_cache.document(owner, key, encoding).await {
            Ok(document) => document,
            Err(_) if upstreams => return Answered::Forward,
            Err(missing) => {
                return match missing.as_ref() {
                    Missing::NotFound => Answered::Reply(Reply::empty(StatusCode::NOT_FOUND)),
                    Missing::Failed(DocumentError::Status(StatusCode::NOT_ACCEPTABLE)) => {
                        not_acceptable(&["Accept"])
                    }
                    Missing::Failed(error) => Answered::Unavailable(error.to_string()),
                };
            }
        };
        let mut reply = match (wanted, document.hash()) {
            (Some(wanted), Some(hash)) if wanted != hash => moved(&document, key, hash),
            (Some(_), Some(_)) => {
                let mut reply = document.reply(request.headers);
                reply.set_immutable(Utc::now());
                reply
            }
            _ => document.reply(request.headers),
        };
        vary(&mut reply, &["Accept"]);
        Answered::Reply(reply)
    }

    async fn answer_v2(&self, request: &Request<'_>) -> Answered {
        const VARIES: [&str; 2] = ["Accept-Encoding", "Accept"];
        let shown = self.shown.load_full();
        if shown.is_plain() && request.headers.contains_key(RANGE) {
            return Answered::Forward;
        }
        let encoding = match Version::V2.negotiate(request.headers) {
            Accepted::Encoding(encoding) => encoding,
            Accepted::None => return not_acceptable(&VARIES),
            Accepted::NoClause | Accepted::Unreadable => return Answered::Forward,
        };
        let Some(document) = self.v2_document(&shown, encoding).await else {
            return Answered::Forward;
        };
        let mut reply = document.reply(request.headers);
        let compress = reply.body.len() >= GZIP_ABOVE
            && request.method == Method::GET
            && accept::wants_gzip(request.headers);
        if compress && let Some(gzip) = document.gzip().await {
            reply.body = gzip;
            let value = HeaderValue::from_static("gzip");
            reply.headers.insert(CONTENT_ENCODING, value);
        }
        vary(&mut reply, &VARIES);
        Answered::Reply(reply)
    }

    async fn v2_document(
        &self,
        shown: &Arc<ShownApis>,
        encoding: Encoding,
    ) -> Option<Arc<Document>> {
        if shown.is_plain() {
            return self.main.v2(encoding).await;
        }
        let json = Encoding::Json;
        let backends = shown.backends.iter().map(|b| b.server.v2(json));
        let (upstream, backends) = tokio::join!(self.main.v2(json), join_all(backends));
        let parts = v2::Parts {
            shown: shown.clone(),
            upstream: upstream?,
            backends,
        };
        let mut kept = self.v2.lock().await;
        let merged = match kept.as_ref().filter(|merged| merged.is_of(&parts)) {
            Some(merged) => merged.clone(),
            None => {
                let merge = move || v2::Merged::new(parts).map(Arc::new);
                let merged = tokio::task::spawn_blocking(merge).await.ok()??;
                kept.insert(merged).clone()
            }
        };
        drop(kept);
        merged.document(encoding).await
    }
}

/// Returns the key in `/openapi/v3/<key>`.
fn key(path: &str) -> Option<&str> {
    path.strip_prefix(root::PATH)?.strip_prefix('/')
}

fn vary(reply: &mut Reply, names: &[&'static str]) {
    for name in names {
        reply.headers.append(VARY, HeaderValue::from_static(name));
    }
}

fn not_acceptable(varies: &[&'static str]) -> Answered {
    let mut reply = Reply::empty(StatusCode::NOT_ACCEPTABLE);
    vary(&mut reply, varies);
    Answered::Reply(reply)
}

/// Adds the aggregator's own Cache-Control to the backend's, as kube-aggregator
/// does.
fn pass_on(reply: &mut Reply) {
    const OWN: HeaderValue = HeaderValue::from_static("no-cache, private");
    let backends = reply.headers.insert(CACHE_CONTROL, OWN);
    reply.headers.append(CACHE_CONTROL, backends.unwrap_or(OWN));
}

/// Makes the redirect to the URL with the document's current hash.
fn moved(document: &Document, key: &str, hash: &str) -> Reply {
    let mut reply = Reply::empty(StatusCode::MOVED_PERMANENTLY);
    let location = HeaderValue::from_str(&root::url(key, Some(hash))).ok();
    let headers: [(HeaderName, Option<HeaderValue>); 3] = [
        (CONTENT_TYPE, Some(document.content_type.clone())),
        (ETAG, document.etag.clone()),
        (LOCATION, location),
    ];
    for (name, value) in headers {
        reply.headers.extend(value.map(|value| (name, value)));
    }
    reply
}
