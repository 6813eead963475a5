//! LIST from a store.

use std::time::Instant;

use bytes::Bytes;

use super::newest::Newest;
use crate::api::ListOptions;
use crate::read::{self, BypassReason, GzipList, ListPlan, ListVersion, Page, Selection, Shape};
use crate::representation::ListMeta;
use crate::server::compression;
use crate::store::{Part, Store};

/// What a list is answered with.
pub(super) enum Body {
    Plain(Vec<Bytes>),
    /// Long, and its client takes gzip.
    Gzip(Box<GzipList>),
}

/// The body, and the version it is of. `newest` has been found recent enough
/// for the plan.
pub(super) fn list(
    namespace: &str,
    options: ListOptions,
    plan: &ListPlan,
    store: &Store,
    newest: Newest,
    shape: &Shape,
    gzip: bool,
) -> Result<(Body, u64), BypassReason> {
    let selection = Selection::new(namespace, options, plan, &store.resource)?;
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
            let body = body(store, &page, shape, gzip)?;
            return Ok((body, cut.resource_version));
        }
        (ListVersion::Newest(_), Newest::Object(_)) => return Err(BypassReason::NotProvenFresh),
    };
    let page = read::page(&snapshot, &selection, plan);
    let body = body(store, &page, shape, gzip)?;
    if complete && !page.meta.continue_token.is_empty() {
        // Its holder will be back for the rest of this very state.
        store.retain(&snapshot, Instant::now());
    }
    Ok((body, snapshot.resource_version))
}

/// Tables and PartialObjectMetadata are made for each answer anew: there is
/// nothing to compress once for all.
fn body(store: &Store, page: &Page<'_>, shape: &Shape, gzip: bool) -> Result<Body, BypassReason> {
    if gzip && let Shape::Whole(encoding) = shape {
        let list = GzipList::new(&store.resource, page, *encoding);
        if list.is_longer_than(compression::ABOVE) {
            return Ok(Body::Gzip(Box::new(list)));
        }
    }
    read::list_body(store, page, shape).map(Body::Plain)
}
