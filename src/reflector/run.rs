//! The reflector's loop.
//!
//! ```text
//!            ┌──────────── 410, or a custom resource's watch ended early ──────┐
//!            ▼                                                                 │
//! start ─▶ List ── ok ─▶ Watch ── its time is up ─▶ Watch (from the last version)
//!            │  ▲           │
//!            │  └─ backoff ─┼─ cannot connect, broke off, silent ─▶ backoff ─▶ Watch
//!            ▼              ▼
//!         Refused (404, 405, 403 for long: the entry is dropped, asked again later)
//! ```
//!
//! Whatever ends a watch before its time, a pause comes before the next request,
//! and upstream counts as lost until the next watch is open.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use hyper::body::Body;
use rand::Rng;
use serde::Deserialize;
use tokio::sync::watch::Receiver;

use super::bookmark;
use super::cache::REFUSAL;
use super::discovery;
use super::entry::Entry;
use super::frames::{Frame, Frames};
use super::list::{self, ListError, Listed};
use super::printer;
use crate::metrics::{Metrics, UpstreamKind};
use crate::representation::{BookmarkTemplate, Form};
use crate::store::{FieldTable, Presentation, Resource, Store, field_table};
use crate::upstream::Upstream;

/// First and longest pause after a failure. Watchers keep being served
/// meanwhile; a restarted API server is found again within the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A watch is renewed after 5 to 10 minutes, as client-go does.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;

/// A watch that ends this long before its time was ended by something.
const EARLY: Duration = Duration::from_secs(30);

/// A watch that says nothing for this long has lost its connection without
/// notice: bookmarks come each minute. Where a server sends none, asking again
/// costs a request.
const SILENCE: Duration = Duration::from_secs(150);

/// After a watch that lasted this long the pauses start short again.
const STEADY: Duration = Duration::from_secs(30);

/// How long the questions may take whose answers only refine the cache.
const LEARN_TIMEOUT: Duration = Duration::from_secs(10);

/// A resource that stays forbidden for this long is given up, and its watchers
/// are closed.
const FORBIDDEN_FOR: Duration = Duration::from_secs(30);

/// What comes next.
enum Next {
    List,
    Watch,
    Stop,
}

impl Next {
    fn as_str(&self) -> &'static str {
        match self {
            Self::List => "listing",
            Self::Watch => "watching",
            Self::Stop => "stopped",
        }
    }
}

/// Why a watch ended.
#[derive(Debug, PartialEq, Eq)]
enum WatchEnd {
    TimeUp,
    Early,
    Expired,
    Refused,
    /// 401 or 403. So it is for a moment while an API server starts, too: RBAC
    /// comes later than its first answers.
    Forbidden,
    /// There is another upstream.
    Replaced,
    /// Upstream sent what cannot be cached: a fresh list decides.
    Unusable,
    Failed,
}

pub(super) async fn run(
    entry: Arc<Entry>,
    upstream: Arc<ArcSwap<Upstream>>,
    metrics: Arc<Metrics>,
    mut replaced: Receiver<u64>,
) {
    let fields = field_table(&entry.gvr);
    // Only what could be listed has series: it exists.
    let restarted = |reason| {
        if entry.store().is_some() {
            let series = metrics.cache.resource(&entry.gvr);
            series.reflector_restarted(reason);
        }
    };
    let mut next = Next::List;
    let mut failures = 0;
    let mut forbidden = Forbidden::default();
    loop {
        let upstream = upstream.load_full();
        if entry.store().is_some() {
            let series = metrics.cache.resource(&entry.gvr);
            series.reflector_state(next.as_str());
        }
        next = match next {
            Next::List => match fill(&entry, &upstream, &fields).await {
                Ok(()) => {
                    forbidden.clear();
                    Next::Watch
                }
                Err(ListError::Refused { status, message })
                    if entry.store().is_none()
                        || !is_forbidden(status)
                        || forbidden.too_long(Instant::now()) =>
                {
                    tracing::info!(resource = %entry.gvr, %status, message, "not cached");
                    entry.refuse(Instant::now() + REFUSAL);
                    metrics.cache.forget(&entry.gvr);
                    Next::Stop
                }
                Err(error) => {
                    if !matches!(&error, ListError::Refused { status, .. } if is_forbidden(*status))
                    {
                        forbidden.clear();
                    }
                    entry.disconnected(Instant::now());
                    tracing::warn!(resource = %entry.gvr, %error, "list failed");
                    restarted("list_failed");
                    pause(&mut failures).await;
                    Next::List
                }
            },
            Next::Watch => {
                let Some(store) = entry.store() else { return };
                let began = Instant::now();
                let end = tokio::select! {
                    end = watch(&entry, &store, &upstream) => end,
                    Ok(()) = replaced.changed() => WatchEnd::Replaced,
                };
                tracing::debug!(resource = %entry.gvr, ?end, "watch ended");
                if began.elapsed() > STEADY {
                    failures = 0;
                }
                if end != WatchEnd::TimeUp {
                    entry.disconnected(Instant::now());
                }
                if end != WatchEnd::Forbidden {
                    forbidden.clear();
                }
                match end {
                    WatchEnd::TimeUp => {
                        failures = 0;
                        Next::Watch
                    }
                    WatchEnd::Expired => {
                        restarted("expired");
                        pause(&mut failures).await;
                        Next::List
                    }
                    WatchEnd::Replaced => {
                        restarted("upstream_replaced");
                        Next::List
                    }
                    WatchEnd::Forbidden if !forbidden.too_long(Instant::now()) => {
                        restarted("watch_failed");
                        pause(&mut failures).await;
                        Next::Watch
                    }
                    WatchEnd::Refused | WatchEnd::Forbidden => {
                        tracing::info!(resource = %entry.gvr, "no longer cached");
                        entry.refuse(Instant::now() + REFUSAL);
                        metrics.cache.forget(&entry.gvr);
                        Next::Stop
                    }
                    WatchEnd::Unusable => {
                        restarted("unusable_event");
                        pause(&mut failures).await;
                        Next::List
                    }
                    // The API server ends the watches of a custom resource
                    // when its definition changes; objects may look different
                    // now without a new version.
                    WatchEnd::Early if store.resource.envelope.form == Form::Map => {
                        restarted("ended_early");
                        pause(&mut failures).await;
                        Next::List
                    }
                    WatchEnd::Early | WatchEnd::Failed => {
                        restarted("watch_failed");
                        pause(&mut failures).await;
                        Next::Watch
                    }
                }
            }
            Next::Stop => return,
        };
    }
}

/// Since when upstream has been answering nothing but 401 and 403.
#[derive(Default)]
struct Forbidden(Option<Instant>);

impl Forbidden {
    fn too_long(&mut self, now: Instant) -> bool {
        let since = *self.0.get_or_insert(now);
        now.saturating_duration_since(since) > FORBIDDEN_FOR
    }

    fn clear(&mut self) {
        self.0 = None;
    }
}

fn is_forbidden(status: StatusCode) -> bool {
    matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED)
}

async fn pause(failures: &mut u32) {
    let (first, longest) = BACKOFF;
    let doubled = first.saturating_mul(1 << (*failures).min(10));
    *failures += 1;
    let jitter = rand::rng().random_range(0.5..1.0);
    tokio::time::sleep(doubled.min(longest).mul_f64(jitter)).await;
}

/// Lists, and publishes into the store or as a new one.
async fn fill(entry: &Entry, upstream: &Upstream, fields: &FieldTable) -> Result<(), ListError> {
    let started = Instant::now();
    let Listed {
        envelope,
        resource_version,
        objects,
        warnings,
    } = list::list(upstream, &entry.gvr, fields).await?;
    let count = objects.len();
    let learn = printer::learn(upstream, &entry.gvr, envelope.form);
    let printer = tokio::time::timeout(LEARN_TIMEOUT, learn).await;
    let presentation = Presentation {
        printer: printer.ok().flatten().map(Arc::new),
        warnings,
    };
    // A definition that was deleted and made anew may have another form: for
    // its clients that is another resource.
    let known = entry.store();
    let same = known.filter(|store| {
        let before = &store.resource.envelope;
        (before.form, &before.api_version, &before.list_kind)
            == (envelope.form, &envelope.api_version, &envelope.list_kind)
    });
    if let Some(store) = same {
        store.present(presentation);
        store.replace(objects, resource_version, Instant::now());
    } else {
        let bookmark = bookmark::probe(upstream, &entry.gvr, false).await;
        let resource = Resource {
            gvr: entry.gvr.clone(),
            namespaced: discovery::namespaced(upstream, &entry.gvr).await?,
            envelope,
            fields: *fields,
            bookmark: bookmark.map_or_else(OnceLock::new, |(template, _)| template.into()),
        };
        let store = Store::new(resource, objects, resource_version);
        store.present(presentation);
        entry.fill(Arc::new(store));
    }
    tracing::info!(
        resource = %entry.gvr, objects = count, resource_version,
        took = ?started.elapsed(), "cache filled"
    );
    Ok(())
}

async fn watch(entry: &Entry, store: &Store, upstream: &Upstream) -> WatchEnd {
    let seconds = rand::rng().random_range(WATCH_SECONDS);
    let path = format!(
        "{}?watch=true&resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds={seconds}",
        entry.gvr.path(),
        store.progress().resource_version,
    );
    let response = match upstream.get(UpstreamKind::Watch, &path).await {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(resource = %entry.gvr, %error, "watch failed");
            return WatchEnd::Failed;
        }
    };
    match response.status() {
        StatusCode::OK => {}
        StatusCode::GONE => return WatchEnd::Expired,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return WatchEnd::Refused,
        status if is_forbidden(status) => return WatchEnd::Forbidden,
        status => {
            tracing::warn!(resource = %entry.gvr, %status, "watch refused");
            return WatchEnd::Failed;
        }
    }
    entry.connected();
    follow(
        entry,
        store,
        response.into_body(),
        Duration::from_secs(seconds),
    )
    .await
}

/// Applies the events of a watch that should last for `lasts`.
async fn follow<B>(entry: &Entry, store: &Store, body: B, lasts: Duration) -> WatchEnd
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let opened = tokio::time::Instant::now();
    let mut frames = Frames::new(body);
    loop {
        let frame = match tokio::time::timeout(SILENCE, frames.next()).await {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) if opened.elapsed() + EARLY < lasts => return WatchEnd::Early,
            Ok(Ok(None)) => return WatchEnd::TimeUp,
            Err(_) => {
                tracing::warn!(resource = %entry.gvr, "watch is silent");
                return WatchEnd::Failed;
            }
            Ok(Err(error)) => {
                tracing::warn!(resource = %entry.gvr, %error, "watch broke off");
                return WatchEnd::Failed;
            }
        };
        match frame {
            Frame::Object { deleted, object } => {
                let applied = store
                    .resource
                    .envelope
                    .fragment(&object)
                    .ok_or_else(|| "object without kind and apiVersion".to_owned())
                    .and_then(|item| {
                        // Its own allocation: a slice would keep the frame.
                        let item = Bytes::copy_from_slice(&item);
                        store
                            .apply(deleted, item, Instant::now())
                            .map_err(|e| e.to_string())
                    });
                if let Err(error) = applied {
                    tracing::error!(resource = %entry.gvr, error, "unusable watch event");
                    return WatchEnd::Unusable;
                }
            }
            Frame::Bookmark(object) => {
                // Where the question for one had no answer.
                if store.resource.bookmark.get().is_none()
                    && let Some(template) = BookmarkTemplate::learn(&object)
                {
                    let _ = store.resource.bookmark.set(template);
                }
                if let Some(version) = bookmark::version_of(&object) {
                    store.advance(version, Instant::now());
                }
            }
            Frame::Error(status) => return ended_by(&status, entry),
        }
    }
}

fn ended_by(status: &[u8], entry: &Entry) -> WatchEnd {
    #[derive(Deserialize)]
    struct Code {
        code: u16,
    }
    let code = serde_json::from_slice::<Code>(status).map_or(0, |s| s.code);
    if code == 410 {
        return WatchEnd::Expired;
    }
    tracing::warn!(resource = %entry.gvr, code, message = list::message(status), "watch ended by upstream");
    WatchEnd::Failed
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame as Chunk;

    use super::*;
    use crate::api::GroupVersionResource;
    use crate::representation::Envelope;

    fn entry_and_store() -> (Entry, Store) {
        let gvr = GroupVersionResource::new("", "v1", "pods");
        let resource = Resource {
            gvr: gvr.clone(),
            namespaced: true,
            envelope: Envelope::new(Form::Struct, "v1", "Pod", "PodList"),
            fields: field_table(&gvr),
            bookmark: OnceLock::new(),
        };
        let store = Store::new(resource, vec![], 5);
        (Entry::new(gvr, Instant::now()), store)
    }

    fn body(
        chunks: impl futures::Stream<Item = String>,
    ) -> impl Body<Data = Bytes, Error = std::io::Error> + Unpin {
        let chunks = chunks.map(|text| Ok::<_, std::io::Error>(Chunk::data(Bytes::from(text))));
        StreamBody::new(Box::pin(chunks))
    }

    /// A connection lost without a word, as behind a firewall, left the cache
    /// as it was for good.
    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_is_given_up() {
        let (entry, store) = entry_and_store();
        let began = tokio::time::Instant::now();
        let minutes = stream::iter(6..10).then(|version| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n")
        });
        let body = body(minutes.chain(stream::pending()));
        let end = follow(&entry, &store, body, Duration::from_secs(600)).await;
        assert_eq!(end, WatchEnd::Failed);
        assert_eq!(began.elapsed(), Duration::from_secs(4 * 60) + SILENCE);
        assert_eq!(store.progress().resource_version, 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_whose_time_is_up_is_no_failure() {
        let lasts = Duration::from_secs(300);
        for (ends_after, expected) in [
            (1, WatchEnd::Early),
            (269, WatchEnd::Early),
            (271, WatchEnd::TimeUp),
        ] {
            let (entry, store) = entry_and_store();
            let bookmark =
                "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n";
            let seconds = stream::iter(0..ends_after).then(move |_| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                bookmark.to_owned()
            });
            let end = follow(&entry, &store, body(seconds), lasts).await;
            assert_eq!(end, expected, "{ends_after}");
        }
    }

    /// The first question for a bookmark is asked once, when an API server has
    /// much to do; its failure kept watches with bookmarks out of the cache.
    #[tokio::test]
    async fn a_bookmark_is_learnt_from_the_watch_itself() {
        let (entry, store) = entry_and_store();
        let text = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"6\"},\"status\":{}}}\n";
        let body = body(stream::iter([text.to_owned()]));
        follow(&entry, &store, body, Duration::from_secs(300)).await;
        let template = store.resource.bookmark.get().unwrap();
        let learnt = template.object(7, false);
        let expected = text[28..text.len() - 2].replace("\"6\"", "\"7\"");
        assert_eq!(String::from_utf8(learnt).unwrap(), expected);
    }

    #[test]
    fn forbidden_counts_from_the_first_time() {
        let mut forbidden = Forbidden::default();
        let now = Instant::now();
        assert!(!forbidden.too_long(now));
        assert!(!forbidden.too_long(now + FORBIDDEN_FOR));
        assert!(forbidden.too_long(now + FORBIDDEN_FOR * 2));
        forbidden.clear();
        assert!(!forbidden.too_long(now + FORBIDDEN_FOR * 3));
    }
}
