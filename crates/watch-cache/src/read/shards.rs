//! Finds out whether upstream serves shards of lists and watches.
//! kube-apiserver does if its feature gate `ShardedListAndWatch` is on.
//! Otherwise it ignores the selector.

use std::ptr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use apifront_source::{BodyLimit, JSON, ReadKind, Source};
use tokio::sync::Mutex;

/// The time for which an answer is believed. A new API server with another
/// setting takes as long to start.
const ANSWER_TTL: Duration = Duration::from_secs(10);

/// The time limit of the whole question, including the body.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// A list with an invalid selector. A server that reads the selector says that
/// it is invalid. Any other server lists one object.
const QUESTION: &str = "/api/v1/namespaces?limit=1&resourceVersion=0&shardSelector=junk";
const WRONG: &[u8] = b"invalid shard selector";

#[derive(Default)]
pub struct Shards(Mutex<Option<Known>>);

struct Known {
    upstream: Weak<dyn Source>,
    at: Instant,
    served: bool,
}

impl Shards {
    /// Tells whether upstream serves shards. Concurrent callers share one
    /// question.
    pub async fn are_served(&self, upstream: &Arc<dyn Source>) -> bool {
        let mut known = self.0.lock().await;
        if let Some(known) = &*known
            && known.at.elapsed() < ANSWER_TTL
            && ptr::addr_eq(Weak::as_ptr(&known.upstream), Arc::as_ptr(upstream))
        {
            return known.served;
        }
        let asked = tokio::time::timeout(ASK_TIMEOUT, ask(&**upstream)).await;
        // A server that does not answer is taken to have no shards.
        let served = asked.ok().flatten().unwrap_or(false);
        *known = Some(Known {
            upstream: Arc::downgrade(upstream),
            at: Instant::now(),
            served,
        });
        served
    }
}

async fn ask(upstream: &dyn Source) -> Option<bool> {
    let response = upstream
        .get(ReadKind::Discovery, QUESTION, JSON)
        .await
        .ok()?;
    let failed = response.status().is_server_error();
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.ok()?;
    let says = body.windows(WRONG.len()).any(|part| part == WRONG);
    Some(failed && says)
}
