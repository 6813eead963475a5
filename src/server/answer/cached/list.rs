//! Answers LIST from a store.

use std::sync::Arc;

use apifront_watch_cache::read::{BypassReason, GzipList, ListPlan, Shape, ShapeKind};
use apifront_watch_cache::store::{KeyScope, Store, Visible};
use bytes::Bytes;
use futures::future::Either;
use kubernetes_wire::api::ListOptions;

use super::listing::Listing;
use super::newest::Newest;
use crate::flow::HeldBytes;
use crate::server::offload::{OffloadRefusal, OffloadUser};

/// The most objects that are matched with a selector, or written anew, on a thread
/// that serves other requests. More objects take milliseconds, so `offload`
/// handles them.
const SELECTED_AT_ONCE: usize = 10_000;
const WRITTEN_AT_ONCE: usize = 500;

/// Each requirement or value of a selector costs as much as this many objects,
/// because all of them are first grouped by key.
const OBJECTS_PER_TERM: usize = 4;

/// The approximate size of an object's row or metadata. For pods it is 2 to 5 KB,
/// with the metadata that Tables have by default.
const WRITTEN_BYTES: usize = 3 << 10;

pub(super) enum Body {
    Plain(Vec<Bytes>, HeldBytes),
    /// The body is long, and its client accepts gzip.
    Gzip(Box<GzipList>),
}

/// The objects that a list may hold, by its grant.
pub(super) enum Extent {
    /// All objects of a namespace, or of the whole resource if the name is empty.
    Namespace(String),
    View(Visible),
}

pub(super) struct Wanted {
    pub(super) extent: Extent,
    pub(super) options: ListOptions,
    pub(super) plan: ListPlan,
    pub(super) shape: Shape,
    pub(super) gzip: bool,
}

impl Wanted {
    fn scope(&self) -> KeyScope {
        match &self.extent {
            Extent::Namespace(namespace) => KeyScope::from_namespace(namespace),
            Extent::View(visible) => KeyScope::Visible(visible.clone()),
        }
    }

    fn page(&self) -> usize {
        match self.plan.limit {
            0 => usize::MAX,
            limit => limit,
        }
    }
}

/// The cost of making a list, in objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    /// The objects that are matched with a selector, and the cost of the selector.
    selected: usize,
    /// The objects that are written for this answer alone. All others are references
    /// to stored objects.
    written: usize,
}

impl Cost {
    /// Returns the cost of a list of at most this number of objects.
    fn estimate(wanted: &Wanted, objects: usize) -> Self {
        let options = &wanted.options;
        let fields = options.field_selector.requirements.len();
        let terms = options.label_selector.terms().saturating_add(fields);
        let page = wanted.page().min(objects);
        Self {
            selected: match options.selects() {
                true => objects.saturating_add(terms.saturating_mul(OBJECTS_PER_TERM)),
                false => 0,
            },
            written: match wanted.shape.kind {
                // Leaves keep what was written of whole leaves.
                ShapeKind::Whole(_)
                    if wanted.shape.without_managed_fields.is_none() || !options.selects() =>
                {
                    0
                }
                ShapeKind::Whole(_) | ShapeKind::Table(..) | ShapeKind::Partial(..) => page,
            },
        }
    }

    fn is_small(self) -> bool {
        self.selected <= SELECTED_AT_ONCE && self.written <= WRITTEN_AT_ONCE
    }
}

/// Makes the body, and returns it with its version. Expensive work runs where it
/// delays no other request.
pub(super) async fn make(
    wanted: Wanted,
    store: &Arc<Store>,
    newest: Newest,
    by: OffloadUser<'_>,
) -> Result<(Body, u64), OffloadRefusal> {
    let objects = match &newest {
        Newest::State { snapshot, .. } => {
            let fields = &wanted.options.field_selector;
            snapshot.count_looked_at(&wanted.scope(), fields, &store.resource)
        }
        Newest::Page(page) => page.objects.len(),
        Newest::Object(_) => 0,
    };
    let cost = Cost::estimate(&wanted, objects);
    let selects = wanted.options.selects();
    let list = if cost.is_small() {
        let list = Listing::new(wanted, store, newest)?;
        if (!selects || list.is_selected_at_once())
            && let Some(made) = list.at_once(store)?
        {
            return Ok(made);
        }
        Either::Left(list)
    } else {
        Either::Right((wanted, newest))
    };
    let held_bytes = match &list {
        Either::Left(list) => list.bytes_to_hold(store),
        Either::Right(_) => None,
    };
    let held_bytes = held_bytes.unwrap_or(cost.written.saturating_mul(WRITTEN_BYTES));
    let mut held = HeldBytes::default();
    if held_bytes > 0 {
        held = by.hold(held_bytes).await?;
    }
    let store = store.clone();
    let make = move || {
        let list = match list {
            Either::Left(list) => list,
            Either::Right((wanted, newest)) => Listing::new(wanted, &store, newest)?,
        };
        list.body(&store, list.page(), held)
    };
    let made = by.run(make).await?;
    Ok(made.ok_or(BypassReason::Representation)??)
}

#[cfg(test)]
mod tests {
    use apifront_watch_cache::read;
    use kubernetes_wire::api::Query;
    use kubernetes_wire::negotiation::MetaVersion;
    use kubernetes_wire::representation::Encoding;

    use super::*;

    fn wanted(query: &str, shape: Shape) -> Wanted {
        let options = ListOptions::from_query(&Query::parse(query)).unwrap();
        Wanted {
            extent: Extent::Namespace(String::new()),
            plan: read::list(&options).unwrap(),
            options,
            shape,
            gzip: false,
        }
    }

    #[test]
    fn what_takes_long_is_made_aside() {
        let json = || Shape::whole(Encoding::Json);
        let metadata = || Shape::partial(MetaVersion::V1, Encoding::Json);
        let selected = "resourceVersion=0&labelSelector=a%3Db";
        for (query, shape, objects, expected) in [
            ("resourceVersion=0", json(), 150_000, true),
            ("limit=500", metadata(), 150_000, true),
            ("resourceVersion=0", metadata(), WRITTEN_AT_ONCE, true),
            ("resourceVersion=0", metadata(), WRITTEN_AT_ONCE + 1, false),
            (selected, json(), SELECTED_AT_ONCE / 2, true),
            (selected, json(), SELECTED_AT_ONCE, false),
        ] {
            let cost = Cost::estimate(&wanted(query, shape), objects);
            assert_eq!(cost.is_small(), expected, "{query} {objects}");
        }
    }

    #[test]
    fn a_page_is_as_long_as_its_limit() {
        let page = |query| wanted(query, Shape::whole(Encoding::Json)).page();
        assert_eq!(
            [page("limit=7"), page("resourceVersion=0")],
            [7, usize::MAX]
        );
    }
}
