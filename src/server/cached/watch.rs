//! WATCH from a store.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

use super::filter;
use crate::api::ListOptions;
use crate::read::{BypassReason, Shape, WatchPlan};
use crate::store::Store;
use crate::watch::{Encoding, JsonFrames, TransformedFrames, Watch, WatchOptions};

pub(super) fn watch(
    namespace: &str,
    options: ListOptions,
    plan: WatchPlan,
    store: Arc<Store>,
    shape: Shape,
    min_request_timeout: Duration,
) -> Result<Watch, BypassReason> {
    if options.allow_watch_bookmarks && store.resource.bookmark.get().is_none() {
        return Err(BypassReason::NoBookmark);
    }
    let lasts = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        // Spread, so that watches opened together do not end together.
        _ => min_request_timeout.mul_f64(1.0 + rand::rng().random_range(0.0..1.0)),
    };
    let bookmarks = options.allow_watch_bookmarks;
    let watch_options = WatchOptions {
        filter: filter(namespace, options, &store)?,
        bookmarks,
        lasts,
    };
    let encoding: Box<dyn Encoding> = match shape {
        Shape::Whole => Box::new(JsonFrames(store.clone())),
        Shape::Table(printer, options) => {
            Box::new(TransformedFrames::table(store.clone(), printer, options))
        }
        Shape::Partial(version) => Box::new(TransformedFrames::partial(store.clone(), version)),
    };
    let version = match plan {
        WatchPlan::From(version) => version,
        WatchPlan::FromNow => store.progress().resource_version,
        WatchPlan::InitialEvents(_) | WatchPlan::Unmarked => {
            let snapshot = store.snapshot();
            let watch = Watch::with_initial_events(store, snapshot, watch_options, encoding);
            return Ok(match plan {
                WatchPlan::Unmarked => watch.unmarked(),
                _ => watch,
            });
        }
    };
    Watch::from_version(store, version, watch_options, encoding)
        .map_err(|_| BypassReason::HistoryTooShort)
}
