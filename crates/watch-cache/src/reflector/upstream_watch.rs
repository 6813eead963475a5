//! The main watch: opens it and applies its events.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_source::{ReadKind, Source};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use http_body::Body;
use kubernetes_wire::representation::BookmarkTemplate;

use super::definition::{self, DefinitionState};
use super::entry::Entry;
use super::memory_pool::MemoryPool;
use super::store_slot::OwnedStore;
use super::watch_decoder::{Frame, Object, WatchDecoder};
use super::watch_list::{Opened, lifetime};
use super::{fill, freshness_probe, list, source_encoding};
use crate::store::{Change, KeyScope, MalformedObject, Presentation, Store, StoreWriter};

/// A watch that ends this much before its time was ended for a reason.
const EARLY_END_MARGIN: Duration = Duration::from_secs(30);

/// The longest silence of a watch. Bookmarks come each minute, so a silent
/// watch has lost its connection without notice. If a server sends no
/// bookmarks, a new watch costs one request.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(150);

/// The number of attempts to get a bookmark. Each takes three seconds.
const BOOKMARK_TRIES: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum UpstreamWatchEnd {
    TimeUp,
    /// The watch ended before its time, or the resource's definition has
    /// changed.
    Early,
    Expired,
    Refused,
    /// The resource can be listed but not watched.
    NotWatchable,
    /// 401 or 403. An API server may send these for a moment while it starts,
    /// since it answers before RBAC is ready.
    Forbidden,
    /// Another upstream replaced this one.
    Replaced,
    /// Upstream has another release than the one that the list came from.
    OtherRelease,
    /// Upstream sent an object that cannot be cached. The resource is listed
    /// again.
    Unusable,
    /// The watch failed. The duration is the pause that upstream asked for.
    Failed(Option<Duration>),
}

pub(super) fn is_forbidden(status: StatusCode) -> bool {
    matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED)
}

pub(super) async fn watch(
    entry: &Entry,
    upstream: &dyn Source,
    defined: &DefinitionState,
    memory: &Arc<MemoryPool>,
) -> UpstreamWatchEnd {
    let Some(from) = entry.store().map(|s| s.progress().resource_version) else {
        return UpstreamWatchEnd::Refused;
    };
    // Another release may write and print objects differently.
    let release = fill::release(upstream).await;
    if release.is_some() && release != entry.provenance().release() {
        return UpstreamWatchEnd::OtherRelease;
    }
    let mut opened = match open(entry, upstream, from, memory).await {
        Ok(opened) => opened,
        Err(end) => return end,
    };
    if let Some(OwnedStore { store, writer }) = entry.owned().as_deref() {
        warn(store, writer, std::mem::take(&mut opened.warnings));
    }
    // A definition that changed while no watch was open has not ended a watch.
    if !matches!(defined, DefinitionState::Elsewhere) {
        let now = definition::read(upstream, &entry.gvr).await;
        if defined.is_voided_by(&now) {
            return UpstreamWatchEnd::Early;
        }
    }
    follow(entry, opened).await
}

pub(super) async fn open(
    entry: &Entry,
    upstream: &dyn Source,
    from: u64,
    memory: &Arc<MemoryPool>,
) -> Result<Opened, UpstreamWatchEnd> {
    let lasts = lifetime();
    let path = format!(
        "{}?watch=true&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds={}",
        entry.gvr.path(),
        lasts.as_secs(),
    );
    let accept = source_encoding::accept(&entry.gvr, entry.provenance().reads_json());
    let response = match upstream.get(ReadKind::Watch, &path, accept).await {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(resource = %entry.gvr, %error, "watch failed");
            return Err(UpstreamWatchEnd::Failed(None));
        }
    };
    match response.status() {
        StatusCode::OK => {}
        StatusCode::GONE => return Err(UpstreamWatchEnd::Expired),
        StatusCode::NOT_FOUND => return Err(UpstreamWatchEnd::Refused),
        StatusCode::METHOD_NOT_ALLOWED => return Err(UpstreamWatchEnd::NotWatchable),
        status if is_forbidden(status) => return Err(UpstreamWatchEnd::Forbidden),
        status => {
            tracing::warn!(resource = %entry.gvr, %status, "watch refused");
            let after = list::retry_after(response.headers());
            return Err(UpstreamWatchEnd::Failed(after));
        }
    }
    Ok(Opened {
        at: tokio::time::Instant::now(),
        lasts,
        warnings: list::warnings(response.headers()),
        frames: {
            let encoding = source_encoding::encoding(response.headers());
            WatchDecoder::new(
                response.into_body().into_stream(),
                encoding,
                memory.begin(0),
            )
        },
    })
}

/// Updates the store's warnings. Another API server or release may warn of
/// other deprecations.
pub(super) fn warn(store: &Store, writer: &StoreWriter, warnings: Vec<HeaderValue>) {
    let shown = store.presentation();
    if shown.warnings != warnings {
        writer.present(Presentation {
            warnings,
            ..Presentation::clone(&shown)
        });
    }
}

/// Applies the events of a watch until it ends.
///
/// The store is only borrowed from the entry, so any holder of it is a reader
/// ([`Entry::is_read`]).
pub(super) async fn follow<B>(entry: &Entry, opened: Opened<B>) -> UpstreamWatchEnd
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    entry.connected();
    let _interrupted = Interrupted(entry);
    let Opened {
        mut frames,
        at,
        lasts,
        ..
    } = opened;
    loop {
        let frame = match tokio::time::timeout(SILENCE_TIMEOUT, frames.next()).await {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) if at.elapsed().saturating_add(EARLY_END_MARGIN) < lasts => {
                return UpstreamWatchEnd::Early;
            }
            Ok(Ok(None)) => return UpstreamWatchEnd::TimeUp,
            Err(_) => {
                tracing::warn!(resource = %entry.gvr, "watch is silent");
                return UpstreamWatchEnd::Failed(None);
            }
            Ok(Err(error)) => {
                tracing::warn!(resource = %entry.gvr, %error, "watch broke off");
                return UpstreamWatchEnd::Failed(None);
            }
        };
        let owned = entry.owned();
        let Some(owned) = owned.as_deref() else {
            return UpstreamWatchEnd::Refused;
        };
        let OwnedStore { store, writer } = owned;
        match frame {
            Frame::Object { change, object } => {
                if let Err(error) = apply(owned, change, &object) {
                    entry.provenance().judge(&error);
                    tracing::error!(resource = %entry.gvr, %error, "unusable watch event");
                    return UpstreamWatchEnd::Unusable;
                }
                let version = store.progress().resource_version;
                entry.heard(version, true, Instant::now());
            }
            Frame::Bookmark(object) => {
                // An earlier request for a bookmark may have had no answer.
                if store.resource.bookmark.get().is_none()
                    && let Some(template) = BookmarkTemplate::learn(&object)
                {
                    let _ = store.resource.bookmark.set(template);
                }
                if let Some(version) = freshness_probe::version_of(&object) {
                    writer.advance(version, Instant::now());
                    entry.heard(version, false, Instant::now());
                }
            }
            Frame::Error(status) => return ended_by(&status, entry),
        }
    }
}

/// Learns the form of bookmarks from a server without initial events, which
/// showed none when it was listed. The next bookmark on the main watch would
/// come only after a minute.
pub(super) async fn learn_bookmark(entry: &Entry, upstream: &dyn Source) {
    let is_unknown = |store: &Arc<Store>| store.resource.bookmark.get().is_none();
    for _ in 0..BOOKMARK_TRIES {
        let Some(store) = entry.store().filter(is_unknown) else {
            return;
        };
        let version = store.progress().resource_version;
        let snapshot = store.snapshot();
        let objects = snapshot.iter(&KeyScope::All);
        let newest = objects.map(|o| o.resource_version).max();
        // The reflector must not count as a reader ([`Entry::is_read`]).
        drop((store, snapshot));
        let newest = newest.unwrap_or(version);
        let learnt = freshness_probe::last_bookmark(upstream, &entry.gvr, version, newest);
        if let Some(template) = learnt.await
            && let Some(store) = entry.store()
        {
            let _ = store.resource.bookmark.set(template);
        }
    }
    entry.found_bookmarkless();
}

/// Notes the end of a watch on drop, because the watch itself is dropped when
/// upstream was replaced.
struct Interrupted<'e>(&'e Entry);

impl Drop for Interrupted<'_> {
    fn drop(&mut self) {
        self.0.freshness().interrupted();
    }
}

pub(super) fn apply(
    to: &OwnedStore,
    change: Change,
    object: &Object,
) -> Result<(), MalformedObject> {
    let object = object.stored(&to.store.resource)?;
    to.writer
        .apply_object(change == Change::Deleted, object, Instant::now());
    Ok(())
}

pub(super) fn ended_by(status: &[u8], entry: &Entry) -> UpstreamWatchEnd {
    let code = list::code_of(status);
    if code == 410 {
        return UpstreamWatchEnd::Expired;
    }
    tracing::warn!(resource = %entry.gvr, code, message = list::message(status), "watch ended by upstream");
    UpstreamWatchEnd::Failed(None)
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use http_body::Frame as Chunk;
    use http_body_util::StreamBody;
    use kubernetes_wire::api::GroupVersionResource;
    use kubernetes_wire::representation::Encoding;

    use super::*;
    use crate::store::tests::pods;

    fn entry_and_store() -> (Entry, Arc<Store>) {
        let gvr = GroupVersionResource::new("", "v1", "pods");
        let (writer, store) = Store::new(pods::resource(), vec![], 5);
        let entry = Entry::with_silent_upstream(gvr, Instant::now());
        entry.fill(writer, store.clone());
        (entry, store)
    }

    fn opened<B: Body<Data = Bytes, Error: Display> + Unpin>(body: B, lasts: u64) -> Opened<B> {
        Opened {
            frames: WatchDecoder::new(body, Encoding::Json, MemoryPool::unlimited().begin(0)),
            at: tokio::time::Instant::now(),
            lasts: Duration::from_secs(lasts),
            warnings: vec![],
        }
    }

    fn body(
        chunks: impl futures::Stream<Item = String>,
    ) -> impl Body<Data = Bytes, Error = std::io::Error> + Unpin {
        let chunks = chunks.map(|text| Ok::<_, std::io::Error>(Chunk::data(Bytes::from(text))));
        StreamBody::new(Box::pin(chunks))
    }

    /// A connection may be lost without notice, for example behind a firewall.
    /// The cache must not stay at its last state then.
    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_is_given_up() {
        let (entry, store) = entry_and_store();
        let began = tokio::time::Instant::now();
        let minutes = stream::iter(6..10).then(|version| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n")
        });
        let body = body(minutes.chain(stream::pending()));
        let end = follow(&entry, opened(body, 600)).await;
        assert_eq!(end, UpstreamWatchEnd::Failed(None));
        assert_eq!(
            began.elapsed(),
            Duration::from_secs(4 * 60) + SILENCE_TIMEOUT
        );
        assert_eq!(store.progress().resource_version, 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_whose_time_is_up_is_no_failure() {
        for (ends_after, expected) in [
            (1, UpstreamWatchEnd::Early),
            (269, UpstreamWatchEnd::Early),
            (271, UpstreamWatchEnd::TimeUp),
        ] {
            let (entry, _store) = entry_and_store();
            let bookmark =
                "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n";
            let seconds = stream::iter(0..ends_after).then(move |_| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                bookmark.to_owned()
            });
            let end = follow(&entry, opened(body(seconds), 300)).await;
            assert_eq!(end, expected, "{ends_after}");
        }
    }

    /// A bookmark is asked for only a few times, perhaps while an API server is
    /// busy. If that fails, the main watch still brings one.
    #[tokio::test]
    async fn a_bookmark_is_learnt_from_the_watch_itself() {
        let (entry, store) = entry_and_store();
        let text = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"6\"},\"status\":{}}}\n";
        let body = body(stream::iter([text.to_owned()]));
        follow(&entry, opened(body, 300)).await;
        let template = store.resource.bookmark.get().unwrap();
        let learnt = template.object(7, false);
        let expected = text[28..text.len() - 2].replace("\"6\"", "\"7\"");
        assert_eq!(String::from_utf8(learnt).unwrap(), expected);
    }
}
