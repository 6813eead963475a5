//! Answers LIST from a store.

use std::sync::Arc;
use std::time::Instant;

use apifront_watch_cache::read::{
    self, BypassReason, GzipList, ListPlan, ListVersion, Page, Selection, Shape,
};
use apifront_watch_cache::store::{Part, Scope, Store, Visible};
use bytes::Bytes;
use kubernetes_wire::api::ListOptions;
use kubernetes_wire::representation::ListMeta;

use super::newest::Newest;
use crate::flow::HeldBytes;
use crate::server::answer::compression;
use crate::server::answer::cpu_offload::{OffloadRefusal, OffloadUser};

/// The most objects that are matched with a selector, or written anew, on a
/// thread that serves other requests. More objects take milliseconds, so they
/// are left to `cpu_offload.rs`.
const SELECTED_AT_ONCE: usize = 10_000;
const WRITTEN_AT_ONCE: usize = 500;
/// The same for objects that are written once for all lists. Writing a large
/// pod in another encoding takes 30 us.
const MADE_AT_ONCE: usize = 100;

/// A requirement or value of a selector costs as much as this many objects,
/// because all are grouped by key first.
const OBJECTS_PER_TERM: usize = 4;

/// The rough size of an object's row or metadata. Those of pods are 2 to 5 KB
/// with the metadata that Tables have by default.
const WRITTEN_BYTES: usize = 3 << 10;

/// The body of a list.
pub(super) enum Body {
    Plain(Vec<Bytes>, HeldBytes),
    /// The body is long, and its client takes gzip.
    Gzip(Box<GzipList>),
}

/// The objects that a grant lets a list hold.
pub(super) enum Extent {
    /// All objects of a namespace, or of the resource if it is empty.
    Namespace(String),
    View(Visible),
}

/// The parameters of a list.
pub(super) struct Wanted {
    pub(super) extent: Extent,
    pub(super) options: ListOptions,
    pub(super) plan: ListPlan,
    pub(super) shape: Shape,
    pub(super) gzip: bool,
}

impl Wanted {
    /// Tells whether the list is made of what leaves keep. Compressed lists are
    /// made of other parts, by `compression.rs`.
    fn uses_leaves(&self) -> bool {
        let compressed = self.gzip && matches!(self.shape, Shape::Whole(_));
        !compressed && !self.options.selects()
    }

    fn scope(&self) -> Scope {
        match &self.extent {
            Extent::Namespace(namespace) => Scope::from_namespace(namespace),
            Extent::View(visible) => Scope::Visible(visible.clone()),
        }
    }

    /// Returns the most objects that are listed.
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
    /// Objects that are matched with a selector, and the cost of the selector.
    selected: usize,
    /// Objects that are written for this answer alone. All others are
    /// references to stored objects.
    written: usize,
    /// Objects that are written for this answer and those after it.
    made: usize,
}

impl Cost {
    /// Returns the cost of a list of at most so many objects, of which `made`
    /// must be made for all lists.
    fn of(wanted: &Wanted, objects: usize, made: usize) -> Self {
        let options = &wanted.options;
        let fields = options.field_selector.requirements.len();
        let terms = options.label_selector.terms().saturating_add(fields);
        let page = wanted.page().min(objects);
        Self {
            selected: match options.selects() {
                true => objects.saturating_add(terms.saturating_mul(OBJECTS_PER_TERM)),
                false => 0,
            },
            written: match wanted.shape {
                Shape::Whole(_) => 0,
                Shape::Table(..) | Shape::Partial(..) => page,
            },
            made,
        }
    }

    fn is_small(self) -> bool {
        self.selected <= SELECTED_AT_ONCE
            && self.written <= WRITTEN_AT_ONCE
            && self.made <= MADE_AT_ONCE
    }
}

/// Makes the body, and returns it with its version. Expensive work is done
/// where it delays no other request.
pub(super) async fn make(
    wanted: Wanted,
    store: &Arc<Store>,
    newest: Newest,
    by: OffloadUser<'_>,
) -> Result<(Body, u64), OffloadRefusal> {
    let (objects, made) = match &newest {
        Newest::State { snapshot, .. } => {
            let scope = wanted.scope();
            let made = match wanted.uses_leaves() {
                true => {
                    let parts = snapshot.parts(&scope, "");
                    read::objects_to_make(parts, wanted.page(), &wanted.shape)
                }
                false => 0,
            };
            (snapshot.count_from(&scope, ""), made)
        }
        Newest::Page(page) => (page.objects.len(), 0),
        Newest::Object(_) => (0, 0),
    };
    let cost = Cost::of(&wanted, objects, made);
    let mut held = HeldBytes::default();
    if cost.is_small() {
        return Ok(list(wanted, store, newest, held)?);
    }
    if cost.written > 0 {
        held = by.hold(cost.written.saturating_mul(WRITTEN_BYTES)).await?;
    }
    let store = store.clone();
    let make = move || list(wanted, &store, newest, held);
    let made = by.run(make).await?;
    Ok(made.ok_or(BypassReason::Representation)??)
}

/// Makes the body, and returns it with its version. `newest` is known to be
/// recent enough for the plan.
fn list(
    wanted: Wanted,
    store: &Store,
    newest: Newest,
    held: HeldBytes,
) -> Result<(Body, u64), BypassReason> {
    let Wanted {
        extent,
        options,
        plan,
        shape,
        gzip,
    } = wanted;
    let (plan, shape) = (&plan, &shape);
    let selection = match &extent {
        Extent::Namespace(namespace) => Selection::new(namespace, options, plan, store)?,
        Extent::View(visible) => Selection::new("", options, plan, store)?.of_view(visible),
    };
    let (snapshot, complete) = match (plan.version, newest) {
        (ListVersion::Exact(version), _) => {
            let snapshot = store.snapshot_at(version);
            (snapshot.ok_or(BypassReason::SnapshotGone)?, true)
        }
        (ListVersion::Newest(_), Newest::State { snapshot, complete }) => (snapshot, complete),
        (ListVersion::Newest(_), Newest::Page(cut)) => {
            let page = Page {
                parts: cut.objects.iter().map(Part::Object).collect(),
                meta: ListMeta {
                    resource_version: cut.resource_version.to_string(),
                    continue_token: cut.continue_token,
                    remaining_item_count: cut.remaining_item_count,
                    ..ListMeta::default()
                },
            };
            let body = body(store, &page, shape, gzip, held)?;
            return Ok((body, cut.resource_version));
        }
        (ListVersion::Newest(_), Newest::Object(_)) => return Err(BypassReason::NotProvenFresh),
    };
    let mut page = read::page(&snapshot, &selection, plan);
    // No server of such a release makes the tokens of shards.
    let is_sharded = !page.meta.shard_selector.is_empty();
    if !page.meta.continue_token.is_empty() && !is_sharded && store.presentation().other_lists {
        return Err(BypassReason::UnusualRequest);
    }
    // Only the lists of the API itself name their shard.
    if !matches!(shape, Shape::Whole(_)) {
        page.meta.shard_selector.clear();
    }
    let body = body(store, &page, shape, gzip, held)?;
    if complete && !page.meta.continue_token.is_empty() {
        // The client will ask for the rest of this very state.
        store.retain(&snapshot, Instant::now());
    }
    Ok((body, snapshot.resource_version))
}

/// Makes the body. Tables and PartialObjectMetadata are made anew for each
/// answer, so their compressed form is not kept.
fn body(
    store: &Store,
    page: &Page<'_>,
    shape: &Shape,
    gzip: bool,
    mut held: HeldBytes,
) -> Result<Body, BypassReason> {
    if gzip && let Shape::Whole(encoding) = shape {
        let list = GzipList::new(&store.resource, page, *encoding);
        if list.is_longer_than(compression::ABOVE) {
            return Ok(Body::Gzip(Box::new(list)));
        }
    }
    let body = read::list_body(store, page, shape)?;
    if !matches!(shape, Shape::Whole(_)) {
        held.settle(body.iter().map(Bytes::len).sum());
    }
    Ok(Body::Plain(body, held))
}

#[cfg(test)]
mod tests {
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
        let json = || Shape::Whole(Encoding::Json);
        let metadata = || Shape::Partial(MetaVersion::V1, Encoding::Json);
        let selected = "resourceVersion=0&labelSelector=a%3Db";
        for (query, shape, objects, made, expected) in [
            ("resourceVersion=0", json(), 150_000, 0, true),
            ("resourceVersion=0", json(), 150_000, MADE_AT_ONCE, true),
            (
                "resourceVersion=0",
                json(),
                150_000,
                MADE_AT_ONCE + 1,
                false,
            ),
            ("limit=100", json(), 150_000, 100, true),
            ("limit=500", json(), 150_000, 500, false),
            ("limit=500", metadata(), 150_000, 0, true),
            ("resourceVersion=0", metadata(), WRITTEN_AT_ONCE, 0, true),
            (
                "resourceVersion=0",
                metadata(),
                WRITTEN_AT_ONCE + 1,
                0,
                false,
            ),
            (selected, json(), SELECTED_AT_ONCE / 2, 0, true),
            (selected, json(), SELECTED_AT_ONCE, 0, false),
        ] {
            let cost = Cost::of(&wanted(query, shape), objects, made);
            assert_eq!(cost.is_small(), expected, "{query} {objects} {made}");
        }
    }

    #[test]
    fn a_page_is_as_long_as_its_limit() {
        let page = |query| wanted(query, Shape::Whole(Encoding::Json)).page();
        assert_eq!(
            [page("limit=7"), page("resourceVersion=0")],
            [7, usize::MAX]
        );
    }

    #[test]
    fn some_lists_are_not_made_of_leaves() {
        let mut list = wanted("resourceVersion=0", Shape::Whole(Encoding::Json));
        assert!(list.uses_leaves());
        list.gzip = true;
        assert!(!list.uses_leaves());
        list.shape = Shape::Partial(MetaVersion::V1, Encoding::Json);
        assert!(list.uses_leaves());
        let query = "resourceVersion=0&fieldSelector=spec.nodeName%3Dn";
        let selected = wanted(query, Shape::Whole(Encoding::Json));
        assert!(!selected.uses_leaves());
    }
}
