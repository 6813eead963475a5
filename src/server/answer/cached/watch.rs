//! Answers WATCH from a store: decides which watches it cannot serve (no bookmarks, too
//! many selectors). `too_old_version.rs` decides about versions before the history.

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::cdn_loop;
use apifront_watch_cache::read::{BypassReason, Shape, ShapeKind};
use apifront_watch_cache::store::{EarlierEvents, Filter, Snapshot, Store};
use apifront_watch_cache::watch::{
    FrameWriter, MetadataFrames, TableFrames, Watch, WatchOptions, WholeFrames,
};
use http::HeaderMap;
use kubernetes_wire::api::{ListOptions, Status};
use kubernetes_wire::negotiation;

use super::{too_old_version, watch_duration};

/// The beginning of a watch.
pub(super) enum Start {
    /// The watch begins with the objects of this state as events.
    State(Arc<Snapshot>),
    /// The watch begins with the events after this version. If they are not known
    /// here, the watch is forwarded to upstream, or the client is told so.
    Version { version: u64, forwards: bool },
    /// The watch begins with events from before the store's history. It took this
    /// time to get them.
    Earlier(EarlierEvents, Duration),
    /// The client is told that the events after its version are not known.
    Expired(u64, Box<Status>),
}

/// The most requirements and values in a watch's selector. They are kept until the
/// watch ends, and take some 100 bytes each. A watch with more of them is forwarded.
const MAX_TERMS: usize = 1_000;

/// Checks whether the store can serve a watch with these options at all.
pub(super) fn check(options: &ListOptions, store: &Store) -> Result<(), BypassReason> {
    watch_duration::check(options)?;
    let fields = options.field_selector.requirements.len();
    if options.label_selector.terms().saturating_add(fields) > MAX_TERMS {
        return Err(BypassReason::TooCostly);
    }
    if options.allow_watch_bookmarks && store.resource.bookmark.get().is_none() {
        return Err(BypassReason::NoBookmark);
    }
    let presentation = store.presentation();
    let knows = presentation.initial_events || is_given(options, store);
    if wants_initial_events(options) && !knows {
        return Err(BypassReason::NoBookmark);
    }
    let marked = options.allow_watch_bookmarks && options.send_initial_events != Some(false);
    if marked && presentation.blueprint && wants_initial_events(options) {
        return Err(BypassReason::NoBookmark);
    }
    Ok(())
}

/// Tells whether the answer depends on upstream knowing initial events. If it does,
/// a watch with bookmarks from the newest state has a bookmark at their end. A
/// server that does not know them refuses the option.
fn wants_initial_events(options: &ListOptions) -> bool {
    let newest = matches!(options.resource_version.as_str(), "" | "0");
    options.send_initial_events.is_some() || (newest && options.allow_watch_bookmarks)
}

/// Tells whether a watch asks for something that upstream lacks and that is given
/// here: initial events, or a beginning at the newest version without them. Upstream
/// would refuse the option, so it has no answer from which this one could differ.
pub(super) fn is_given(options: &ListOptions, store: &Store) -> bool {
    options.send_initial_events.is_some() && store.presentation().lacks_initial_events
}

/// Tells whether a watch is compressed. It must begin with a list and have
/// bookmarks, and its client must accept gzip. A watch without options for its
/// beginning also begins with a list (apimachinery `SetListOptionsDefaults`),
/// although it does not mark the list's end.
pub(super) fn is_compressed(options: &ListOptions, headers: &HeaderMap) -> bool {
    let newest = matches!(options.resource_version.as_str(), "" | "0");
    let lists = match options.send_initial_events {
        Some(sends) => sends,
        None => newest && options.resource_version_match.is_empty(),
    };
    lists && options.allow_watch_bookmarks && negotiation::accepts_gzip(headers)
}

fn filter(namespace: &str, options: ListOptions, store: &Store) -> Result<Filter, BypassReason> {
    Filter::new(
        namespace,
        options.label_selector,
        options.field_selector,
        &store.resource,
    )
    .map(|filter| filter.of_shard(options.shard_selector.map(|s| s.shard().clone())))
    .map_err(|_| BypassReason::FieldSelector)
}

/// Compresses the watch if that was agreed, and adapts it to a client that is the
/// cache of another apifront.
pub(super) fn fitted(mut watch: Watch, compressed: bool, headers: &HeaderMap) -> Watch {
    if compressed {
        watch = watch.compressed();
    }
    if cdn_loop::is_of_a_cache(headers) {
        watch = watch.of_a_cache();
    }
    watch
}

fn frames(store: Arc<Store>, shape: Shape) -> Box<dyn FrameWriter> {
    let left_out = shape.without_managed_fields;
    match shape.kind {
        ShapeKind::Whole(encoding) => {
            Box::new(WholeFrames::new(store, encoding).leaving_out(left_out))
        }
        ShapeKind::Table(printer, options) => {
            Box::new(TableFrames::new(store, printer, options).leaving_out(left_out))
        }
        ShapeKind::Partial(version, encoding) => {
            Box::new(MetadataFrames::new(store, encoding, version).leaving_out(left_out))
        }
    }
}

pub(super) fn watch(
    namespace: &str,
    options: ListOptions,
    start: Start,
    store: Arc<Store>,
    shape: Shape,
    min_request_timeout: Duration,
) -> Result<Watch, BypassReason> {
    let watch_options = WatchOptions {
        bookmarks: options.allow_watch_bookmarks,
        lasts: watch_duration::chosen(&options, min_request_timeout),
        filter: filter(namespace, options, &store)?,
    };
    let frames = frames(store.clone(), shape);
    match start {
        Start::State(snapshot) => Ok(Watch::with_initial_events(
            store,
            snapshot,
            watch_options,
            frames,
        )),
        Start::Version { version, forwards } => {
            let refusal = |evicted| too_old_version::refusal(version, forwards, evicted);
            Watch::from_version_or(store, version, watch_options, frames, refusal)
                .map_err(|_| BypassReason::HistoryTooShort)
        }
        Start::Earlier(earlier, took) => {
            if !earlier.all(|object| watch_options.filter.matches(object)) {
                return Err(BypassReason::HistoryTooShort);
            }
            let watch_options = WatchOptions {
                lasts: watch_options.lasts.saturating_sub(took),
                ..watch_options
            };
            Watch::after_earlier(store, earlier, watch_options, frames)
                .map_err(|_| BypassReason::HistoryTooShort)
        }
        Start::Expired(version, status) => Ok(Watch::refused(
            store,
            version,
            watch_options,
            frames,
            &status,
        )),
    }
}
