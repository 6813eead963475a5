//! Learns the form of upstream's bookmarks, and asks for upstream's version.
//!
//! A bookmark's object is an empty object of its kind, in which Go prints the
//! mandatory empty fields: `"spec":{"containers":null},"status":{}`. A watch
//! that selects nothing and asks for initial events gets a bookmark at once, as
//! their end. A server without initial events sends a bookmark two seconds
//! before a watch ends, if it knows a newer version than the watch has reached.
//! A consistent list makes the server ask etcd for a newer version.

use std::time::Duration;

use apifront_source::{BodyLimit, JSON, ReadKind, ResponseBody, Source};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use kubernetes_wire::api::{GroupVersionResource, PartialObject, ResourceVersion};
use kubernetes_wire::representation::{BookmarkTemplate, Encoding};

use super::watch_decoder::{Frame, WatchDecoder};

/// The time limit of a probe. A server with initial events sends the bookmark
/// at once (WatchList, KEP-3157).
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The duration in seconds of a watch whose last bookmark is wanted, and the
/// time limit of that question. kube-apiserver checks once a second which
/// bookmarks are due, and sends none if the watch lasts two seconds or less
/// (`nextBookmarkTime` in k8s.io/apiserver `storage/cacher`).
const SHORT_WATCH: &str = "4";
const SHORT_WATCH_TIMEOUT: Duration = Duration::from_secs(8);

/// No object or namespace has this name: names contain no underscore.
const NOBODY: &str = "_";

pub(super) fn version_of(object: &[u8]) -> Option<u64> {
    let object: PartialObject = serde_json::from_slice(object).ok()?;
    ResourceVersion::parse(&object.metadata.resource_version)
        .ok()
        .map(|v| v.0)
}

/// Asks for the version of a resource, by a list of nothing or of one object.
/// The version is no older than etcd's when the question arrived. This is the
/// cheapest question for kube-apiserver: it costs four fifths of a GET. A watch
/// of nothing costs twice that, and a connection.
pub(super) async fn listed_version(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    namespaced: bool,
) -> Option<u64> {
    let path = match namespaced {
        // etcd counts all keys of a range, also those that it does not return.
        // The range of this namespace is empty.
        true => format!(
            "{}/namespaces/{NOBODY}/{}?limit=1",
            gvr.group_version().path(),
            gvr.resource
        ),
        false => format!("{}?limit=1", gvr.path()),
    };
    let accept =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let ask = async {
        let response = upstream.get(ReadKind::Probe, &path, accept).await;
        let response = response.ok().filter(|r| r.status() == StatusCode::OK)?;
        let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
        version_of(&body.await.ok()?)
    };
    tokio::time::timeout(PROBE_TIMEOUT, ask)
        .await
        .ok()
        .flatten()
}

/// Returns the form of upstream's bookmarks, and the version of the one that
/// came. `None` if upstream does not support initial events. With
/// `most_recent`, the version is no older than etcd's when the question
/// arrived.
pub(super) async fn probe(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    most_recent: bool,
) -> Option<(BookmarkTemplate, u64)> {
    let version = if most_recent { "" } else { "0" };
    let path = format!(
        "{}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &resourceVersion={version}&allowWatchBookmarks=true\
         &fieldSelector=metadata.name%3D{NOBODY}&timeoutSeconds=5",
        gvr.path()
    );
    let ask = async {
        let response = upstream.get(ReadKind::Probe, &path, JSON).await.ok()?;
        first_bookmark(response).await
    };
    tokio::time::timeout(PROBE_TIMEOUT, ask)
        .await
        .ok()
        .flatten()
}

/// Learns the form of bookmarks from a server without initial events. `version`
/// is the version of its list, and `newest` that of the newest object in it.
/// This takes three seconds.
pub(super) async fn last_bookmark(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    version: u64,
    newest: u64,
) -> Option<BookmarkTemplate> {
    // Three versions are tried, because servers differ. A server that does not
    // ask etcd for its progress knows no version after the newest object.
    // Another server may know no version before the list's. From version 0, a
    // server on which nothing is written sends no bookmark.
    let mut versions = vec![newest.saturating_sub(1), version.saturating_sub(1), 0];
    // The newest object often has the list's version.
    versions.dedup();
    let mut asked: FuturesUnordered<_> = versions
        .into_iter()
        .map(|from| {
            let ask = bookmark_after(upstream, gvr, from);
            tokio::time::timeout(SHORT_WATCH_TIMEOUT, ask)
        })
        .collect();
    while let Some(bookmark) = asked.next().await {
        if let Ok(Some((template, _))) = bookmark {
            return Some(template);
        }
    }
    None
}

async fn bookmark_after(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    from: u64,
) -> Option<(BookmarkTemplate, u64)> {
    let nobody = format!("{}?fieldSelector=metadata.name%3D{NOBODY}", gvr.path());
    let path = format!(
        "{nobody}&watch=true&resourceVersion={from}&allowWatchBookmarks=true\
         &timeoutSeconds={SHORT_WATCH}"
    );
    let response = upstream.get(ReadKind::Probe, &path, JSON).await.ok()?;
    // The watch is open now. The list only makes the server ask etcd for its
    // version.
    drop(upstream.get(ReadKind::Probe, &nobody, JSON).await);
    first_bookmark(response).await
}

/// Returns the first frame of a watch, if it is a bookmark, with its version.
async fn first_bookmark(response: http::Response<ResponseBody>) -> Option<(BookmarkTemplate, u64)> {
    if response.status() != StatusCode::OK {
        return None;
    }
    let body = response.into_body().into_stream();
    let mut frames = WatchDecoder::of_bookmarks(body, Encoding::Json);
    match frames.next().await.ok()?? {
        Frame::Bookmark(object) => Some((BookmarkTemplate::learn(&object)?, version_of(&object)?)),
        Frame::Object { .. } | Frame::Error(_) => None,
    }
}
