//! Finds out which optional features upstream has on: shards of lists and watches
//! (feature gate `ShardedListAndWatch`), and answers without managedFields
//! (`ManagedFieldsOptOut`). A server without them ignores what asks for them.

use std::ptr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use apifront_source::{BodyLimit, JSON, ReadKind, Source};
use http::StatusCode;
use tokio::sync::Mutex;

/// The time for which an answer is believed. A new API server with another
/// setting takes as long to start.
const ANSWER_TTL: Duration = Duration::from_secs(10);

/// The time limit of the whole question, including the body.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// A list with an invalid selector. A server that reads the selector says that
/// it is invalid. Any other server lists one object.
const INVALID_SHARD: &str = "/api/v1/namespaces?limit=1&resourceVersion=0&shardSelector=junk";
const INVALID_SHARD_ERROR: &[u8] = b"invalid shard selector";

/// A list in a form that does not exist. A server that reads the parameter does not
/// accept it. Any other server lists one object.
const ANY_NAMESPACE: &str = "/api/v1/namespaces?limit=1&resourceVersion=0";
const UNKNOWN_DROP: &str = "application/json;drop=unknown";

#[derive(Default)]
pub struct UpstreamFeatures {
    shards: Feature,
    managed_fields_opt_out: Feature,
}

impl UpstreamFeatures {
    /// Tells whether upstream serves shards (KEP-5866).
    pub async fn serves_shards(&self, upstream: &Arc<dyn Source>) -> bool {
        let ask = ask_about_shards(&**upstream);
        self.shards.is_on(upstream, ask).await
    }

    /// Tells whether upstream answers without managedFields (KEP-5958).
    pub async fn drops_managed_fields(&self, upstream: &Arc<dyn Source>) -> bool {
        let ask = ask_about_managed_fields(&**upstream);
        self.managed_fields_opt_out.is_on(upstream, ask).await
    }
}

#[derive(Default)]
struct Feature(Mutex<Option<Known>>);

struct Known {
    upstream: Weak<dyn Source>,
    at: Instant,
    is_on: bool,
}

impl Feature {
    /// Tells whether upstream has the feature. Concurrent callers share one question.
    async fn is_on(
        &self,
        upstream: &Arc<dyn Source>,
        ask: impl Future<Output = Option<bool>>,
    ) -> bool {
        let mut known = self.0.lock().await;
        if let Some(known) = &*known
            && known.at.elapsed() < ANSWER_TTL
            && ptr::addr_eq(Weak::as_ptr(&known.upstream), Arc::as_ptr(upstream))
        {
            return known.is_on;
        }
        let asked = tokio::time::timeout(ASK_TIMEOUT, ask).await;
        // A server that does not answer is taken to have no features.
        let is_on = asked.ok().flatten().unwrap_or(false);
        *known = Some(Known {
            upstream: Arc::downgrade(upstream),
            at: Instant::now(),
            is_on,
        });
        is_on
    }
}

async fn ask_about_shards(upstream: &dyn Source) -> Option<bool> {
    let response = upstream
        .get(ReadKind::Discovery, INVALID_SHARD, JSON)
        .await
        .ok()?;
    let failed = response.status().is_server_error();
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.ok()?;
    let mut parts = body.windows(INVALID_SHARD_ERROR.len());
    Some(failed && parts.any(|part| part == INVALID_SHARD_ERROR))
}

async fn ask_about_managed_fields(upstream: &dyn Source) -> Option<bool> {
    let asked = upstream.get(ReadKind::Discovery, ANY_NAMESPACE, UNKNOWN_DROP);
    Some(asked.await.ok()?.status() == StatusCode::NOT_ACCEPTABLE)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use apifront_source::{ResponseBody, SourceError};
    use futures::future::BoxFuture;
    use http::Response;
    use http_body_util::Full;

    use super::*;

    /// An API server whose feature gates are all on or all off.
    struct Server {
        is_on: bool,
        asked: AtomicUsize,
    }

    impl Source for Server {
        fn get<'a>(
            &'a self,
            _: ReadKind,
            path_and_query: &'a str,
            accept: &'a str,
        ) -> BoxFuture<'a, Result<Response<ResponseBody>, SourceError>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let (code, body) = match (self.is_on, accept) {
                (true, JSON) if path_and_query.contains("junk") => {
                    (500, r#"{"message":"invalid shard selector"}"#)
                }
                (true, UNKNOWN_DROP) => (406, "{}"),
                _ => (200, "{}"),
            };
            let mut response = Response::new(ResponseBody::new(Full::from(body)));
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            Box::pin(async { Ok(response) })
        }
    }

    #[tokio::test]
    async fn each_feature_is_asked_for_once_in_a_while() {
        let features = UpstreamFeatures::default();
        for is_on in [false, true, false] {
            let server = Arc::new(Server {
                is_on,
                asked: AtomicUsize::new(0),
            });
            let upstream: Arc<dyn Source> = server.clone();
            for _ in 0..3 {
                assert_eq!(features.serves_shards(&upstream).await, is_on);
                assert_eq!(features.drops_managed_fields(&upstream).await, is_on);
            }
            assert_eq!(server.asked.load(Ordering::Relaxed), 2);
        }
    }
}
