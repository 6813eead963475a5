//! The reflector's loop.
//!
//! ```text
//!            ┌──────────── 410, or a custom resource's watch ended early ──────┐
//!            ▼                                                                 │
//! start ─▶ List ── ok ─▶ Watch ── its time is up ─▶ Watch (from the last version)
//!            │  ▲           │
//!            │  └─ backoff ─┼─ cannot connect, broke off ─▶ backoff ─▶ Watch
//!            ▼              ▼
//!         Refused (404, 403, 405: the entry is dropped, asked again later)
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
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
use crate::representation::Form;
use crate::store::{FieldTable, Presentation, Resource, Store, field_table};
use crate::upstream::Upstream;

/// First and longest pause after a failure. Watchers keep being served
/// meanwhile; a restarted API server is found again within the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A watch is renewed after 5 to 10 minutes, as client-go does.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;

/// A watch that ends this long before its time was ended by something.
const EARLY: Duration = Duration::from_secs(30);

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
    loop {
        let upstream = upstream.load_full();
        if entry.store().is_some() {
            let series = metrics.cache.resource(&entry.gvr);
            series.reflector_state(next.as_str());
        }
        next = match next {
            Next::List => match fill(&entry, &upstream, &fields).await {
                Ok(()) => Next::Watch,
                Err(ListError::Refused { status, message })
                    if entry.store().is_none()
                        || status == StatusCode::NOT_FOUND
                        || entry.disconnected_for(Instant::now()) > FORBIDDEN_FOR =>
                {
                    tracing::info!(resource = %entry.gvr, %status, message, "not cached");
                    entry.refuse(Instant::now() + REFUSAL);
                    metrics.cache.forget(&entry.gvr);
                    Next::Stop
                }
                Err(error) => {
                    entry.disconnected(Instant::now());
                    tracing::warn!(resource = %entry.gvr, %error, "list failed");
                    restarted("list_failed");
                    pause(&mut failures).await;
                    Next::List
                }
            },
            Next::Watch => {
                let Some(store) = entry.store() else { return };
                let end = tokio::select! {
                    end = watch(&entry, &store, &upstream) => end,
                    Ok(()) = replaced.changed() => WatchEnd::Replaced,
                };
                tracing::debug!(resource = %entry.gvr, ?end, "watch ended");
                match end {
                    WatchEnd::TimeUp => {
                        failures = 0;
                        Next::Watch
                    }
                    WatchEnd::Expired => {
                        restarted("expired");
                        Next::List
                    }
                    WatchEnd::Replaced => {
                        restarted("upstream_replaced");
                        Next::List
                    }
                    WatchEnd::Refused => {
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
                        entry.disconnected(Instant::now());
                        pause(&mut failures).await;
                        Next::Watch
                    }
                }
            }
            Next::Stop => return,
        };
    }
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
    let presentation = Presentation {
        printer: printer::learn(upstream, &entry.gvr, envelope.form)
            .await
            .map(Arc::new),
        warnings,
    };
    match entry.store() {
        Some(store) => {
            store.present(presentation);
            store.replace(objects, resource_version, Instant::now());
        }
        None => {
            let bookmark = bookmark::probe(upstream, &entry.gvr, false).await;
            let resource = Resource {
                gvr: entry.gvr.clone(),
                namespaced: discovery::namespaced(upstream, &entry.gvr).await?,
                envelope,
                fields: *fields,
                bookmark: bookmark.map(|(template, _)| template),
            };
            let store = Store::new(resource, objects, resource_version);
            store.present(presentation);
            entry.fill(Arc::new(store));
        }
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
        // So it is for a moment while an API server starts, too: RBAC comes
        // later than its first answers.
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED
            if entry.disconnected_for(Instant::now()) > FORBIDDEN_FOR =>
        {
            return WatchEnd::Refused;
        }
        status => {
            tracing::warn!(resource = %entry.gvr, %status, "watch refused");
            return WatchEnd::Failed;
        }
    }
    entry.connected();
    let opened = Instant::now();
    let mut frames = Frames::new(response.into_body());
    loop {
        let frame = match frames.next().await {
            Ok(Some(frame)) => frame,
            Ok(None) if opened.elapsed() + EARLY < Duration::from_secs(seconds) => {
                return WatchEnd::Early;
            }
            Ok(None) => return WatchEnd::TimeUp,
            Err(error) => {
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
