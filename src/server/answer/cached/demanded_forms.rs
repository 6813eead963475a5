//! Notes the forms in which whole resources are listed, so that they can be made
//! ahead (`make_ahead.rs`).

use apifront_watch_cache::read;
use apifront_watch_cache::reflector::{Cache, Entry};
use apifront_watch_cache::store::ListForm;
use http::HeaderMap;
use kubernetes_wire::api::{GroupVersionResource, Query};
use kubernetes_wire::negotiation::{IncludeObject, Negotiation, Offer, Representation, negotiate};

use super::plan::Plan;
use crate::server::reply::compression;

/// Notes a list that the cache may answer.
pub(super) fn note(
    entry: &Entry,
    representation: Representation,
    request: (&HeaderMap, &Query),
    plan: &Plan,
) {
    for form in forms(representation, request, plan) {
        entry.usage().demand().ask(form);
    }
}

/// Notes a list that came before the resource was in the cache. The encodings of the
/// resource are not known yet, so forms in other encodings are later left out.
/// `has_rule` tells whether it would be answered without managedFields.
pub(super) fn note_early(
    cache: &Cache,
    gvr: &GroupVersionResource,
    (headers, query): (&HeaderMap, &Query),
    plan: &Plan,
    has_rule: bool,
) {
    let negotiated = negotiate(headers, query, Offer::BUILT_IN);
    if let Negotiation::Accepted(mut accepted) = negotiated {
        accepted.drops_managed_fields = has_rule;
        cache.demand(gvr, &forms(accepted, (headers, query), plan));
    }
}

/// Returns the forms of a list without selectors. Other lists are not made of whole
/// leaves.
fn forms(
    representation: Representation,
    (headers, query): (&HeaderMap, &Query),
    plan: &Plan,
) -> Vec<ListForm> {
    let Plan::List(options, _) = plan else {
        return Vec::new();
    };
    if options.selects() || !representation.transform.suits(true) {
        return Vec::new();
    }
    let include = IncludeObject::from_query(query).unwrap_or_default();
    let gzip = compression::is_of_parts(representation, headers);
    read::list_forms(representation, include, gzip)
}
