//! Makes a list whose state and selection are known.

use std::sync::Arc;
use std::time::Instant;

use apifront_watch_cache::read::{
    self, BypassReason, GzipList, ListPlan, ListVersion, Page, Selection, Shape, ShapeKind,
    SharedPage,
};
use apifront_watch_cache::store::{Part, Snapshot, Store};
use bytes::Bytes;
use kubernetes_wire::representation::ListMeta;

use super::list::{Body, Extent, Wanted};
use super::newest::Newest;
use crate::flow::HeldBytes;
use crate::server::reply::compression;

/// The most bytes of objects that are written, and of labels and fields that are
/// matched, on a thread that serves other requests. Both take a few milliseconds.
/// Their number must be limited, because callers who may write objects determine
/// their size.
pub(super) const WRITTEN_AT_ONCE: usize = 1 << 20;
const SELECTED_AT_ONCE: usize = 4 << 20;

pub(super) struct Listing {
    of: Objects,
    shape: Shape,
    gzip: bool,
}

enum Objects {
    State {
        snapshot: Arc<Snapshot>,
        /// Whether the state has the whole resource.
        complete: bool,
        selection: Box<Selection>,
        plan: ListPlan,
    },
    /// A page that upstream cut.
    Page(SharedPage),
}

impl Listing {
    pub(super) fn new(wanted: Wanted, store: &Store, newest: Newest) -> Result<Self, BypassReason> {
        let Wanted {
            extent,
            options,
            plan,
            shape,
            gzip,
        } = wanted;
        let selection = match &extent {
            Extent::Namespace(namespace) => Selection::new(namespace, options, &plan, store)?,
            Extent::View(visible) => Selection::new("", options, &plan, store)?.of_view(visible),
        };
        let (snapshot, complete) = match (plan.version, newest) {
            (ListVersion::Exact(version), _) => {
                let snapshot = store.snapshot_at(version);
                (snapshot.ok_or(BypassReason::SnapshotGone)?, true)
            }
            (ListVersion::Newest(_), Newest::State { snapshot, complete }) => (snapshot, complete),
            (ListVersion::Newest(_), Newest::Page(page)) => {
                let of = Objects::Page(page);
                return Ok(Self { of, shape, gzip });
            }
            (ListVersion::Newest(_), Newest::Object(_)) => {
                return Err(BypassReason::NotProvenFresh);
            }
        };
        let of = Objects::State {
            snapshot,
            complete,
            selection: Box::new(selection),
            plan,
        };
        Ok(Self { of, shape, gzip })
    }

    /// Tells whether the texts to compare with the selector are short, all together.
    pub(super) fn is_selected_at_once(&self) -> bool {
        let Objects::State {
            snapshot,
            selection,
            ..
        } = &self.of
        else {
            return true;
        };
        let candidates = selection.candidates(snapshot);
        let mut texts = candidates.map(|object| object.selected_bytes());
        let sum = texts.try_fold(0usize, |sum, bytes| {
            let sum = sum.saturating_add(bytes);
            (sum <= SELECTED_AT_ONCE).then_some(sum)
        });
        sum.is_some()
    }

    /// Makes the body, unless objects must be written that are large all together.
    pub(super) fn at_once(&self, store: &Store) -> Result<Option<(Body, u64)>, BypassReason> {
        let page = self.page();
        // Long lists are compressed elsewhere.
        let is_compressed = self.gzip && matches!(self.shape.kind, ShapeKind::Whole(_));
        let most = WRITTEN_AT_ONCE;
        if !is_compressed && read::makes_more_than(most, &store.resource, &page, &self.shape) {
            return Ok(None);
        }
        self.body(store, page, HeldBytes::default()).map(Some)
    }

    pub(super) fn page(&self) -> Page<'_> {
        match &self.of {
            Objects::State {
                snapshot,
                selection,
                plan,
                ..
            } => read::page(snapshot, selection, plan),
            Objects::Page(cut) => Page {
                parts: cut.objects.iter().map(Part::Object).collect(),
                meta: ListMeta {
                    resource_version: cut.resource_version.to_string(),
                    continue_token: cut.continue_token.clone(),
                    remaining_item_count: cut.remaining_item_count,
                    ..ListMeta::default()
                },
            },
        }
    }

    /// Returns the bytes of objects to write for this answer alone, if they are known:
    /// of those that no leaf keeps.
    pub(super) fn bytes_to_hold(&self, store: &Store) -> Option<usize> {
        bytes_to_hold(store, &self.page(), &self.shape)
    }

    pub(super) fn body(
        &self,
        store: &Store,
        mut page: Page<'_>,
        held: HeldBytes,
    ) -> Result<(Body, u64), BypassReason> {
        let (snapshot, complete) = match &self.of {
            Objects::State {
                snapshot, complete, ..
            } => (snapshot, *complete),
            Objects::Page(cut) => {
                let body = body(store, &page, &self.shape, self.gzip, held)?;
                return Ok((body, cut.resource_version));
            }
        };
        let is_cut = !page.meta.continue_token.is_empty();
        // Servers of a release with other lists make no continue tokens of shards.
        let is_sharded = !page.meta.shard_selector.is_empty();
        if is_cut && !is_sharded && store.presentation().other_lists {
            return Err(BypassReason::UnusualRequest);
        }
        // Only lists of the API itself name their shard.
        if !matches!(self.shape.kind, ShapeKind::Whole(_)) {
            page.meta.shard_selector.clear();
        }
        let body = body(store, &page, &self.shape, self.gzip, held)?;
        if complete && is_cut {
            // The client will ask for the rest of this same state.
            store.retain(snapshot, Instant::now());
        }
        Ok((body, snapshot.resource_version))
    }
}

/// Makes the body. Tables and PartialObjectMetadata are made anew for each answer,
/// so their compressed form is not kept.
fn body(
    store: &Store,
    page: &Page<'_>,
    shape: &Shape,
    gzip: bool,
    mut held: HeldBytes,
) -> Result<Body, BypassReason> {
    if gzip && let ShapeKind::Whole(encoding) = shape.kind {
        let list = GzipList::new(&store.resource, page, encoding)
            .leaving_out(shape.without_managed_fields.clone());
        if list.is_longer_than(compression::COMPRESSED_ABOVE_BYTES) {
            return Ok(Body::Gzip(Box::new(list)));
        }
    }
    let body = read::list_body(store, page, shape)?;
    match bytes_to_hold(store, page, shape) {
        Some(bytes) => held.settle(bytes),
        None if matches!(shape.kind, ShapeKind::Whole(_)) => {}
        None => held.settle(body.iter().map(Bytes::len).sum()),
    }
    Ok(Body::Plain(body, held))
}

fn bytes_to_hold(store: &Store, page: &Page<'_>, shape: &Shape) -> Option<usize> {
    let is_known =
        shape.without_managed_fields.is_some() && matches!(shape.kind, ShapeKind::Whole(_));
    is_known.then(|| read::bytes_to_make_of_page(&store.resource, page, shape))
}
