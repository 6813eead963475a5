//! Estimates how many seats a request takes, from the work that its answer will be
//! here. The estimate is made before the answer. It uses only what the store knows
//! without looking at objects.
//!
//! The estimate needs no right to read, and reveals nothing to the caller: the width
//! of a request only changes how long other requests of its own flow wait.

use http::header::ACCEPT;
use http::request;
use kubernetes_wire::negotiation;
use kubernetes_wire::request::RequestInfo;

use super::identified::Identified;
use super::list_work::{Form, Work};
use crate::flow::{Classification, Width};
use apifront_watch_cache::store::{Snapshot, Store};
use kubernetes_wire::api::Query;

/// The most seats that kube-apiserver's estimator gives to any list.
const MAX_LIST_SEATS: u64 = 100;

const LISTS: [&str; 2] = ["list", "watch"];

/// Returns the width of a request. Only lists, and watches that begin with a list,
/// can take more than one seat. A single object is little work, and a forwarded
/// request is work for another server.
pub(super) fn estimate(
    identified: &Identified,
    request: &request::Parts,
    class: Option<&Classification>,
) -> Width {
    let (info, query) = (identified.info(), identified.query());
    let one = Width::from_seats(1);
    let Some(class) = class.filter(|class| !class.is_exempt()) else {
        return one;
    };
    if !lists_many(info, query) {
        return one;
    }
    let Some(store) = identified.generation().cache.store(&info.gvr) else {
        return one;
    };
    let most = class
        .max_seats()
        .map_or(MAX_LIST_SEATS, |most| most.min(MAX_LIST_SEATS));
    let work = work(&store, info, query, request);
    Width::from_seats(work.seats().clamp(1, most.max(1)))
}

/// Tells whether the request is answered with all objects of a scope, or with those
/// that a selector matches.
fn lists_many(info: &RequestInfo, query: &Query) -> bool {
    if !LISTS.contains(&info.verb.as_str()) || !info.is_resource_request {
        return false;
    }
    // A list of one name is a GET. So is a watch that begins with one.
    if !info.name.is_empty() || !info.subresource.is_empty() {
        return false;
    }
    info.verb == "list" || begins_with_list(query)
}

fn begins_with_list(query: &Query) -> bool {
    let version = query.get("resourceVersion").unwrap_or_default();
    query.truthy("sendInitialEvents") || matches!(version, "" | "0")
}

fn work(store: &Store, info: &RequestInfo, query: &Query, request: &request::Parts) -> Work {
    let snapshot = store.snapshot();
    let all = work_of(snapshot.len(), &snapshot, info, query, request);
    // No namespace is more work than the whole resource.
    if info.namespace.is_empty() || all.seats() == 1 {
        return all;
    }
    let objects = store.count_about(&snapshot, &info.namespace);
    work_of(objects, &snapshot, info, query, request)
}

/// Returns the work of a list of a scope with this number of objects.
fn work_of(
    objects: usize,
    snapshot: &Snapshot,
    info: &RequestInfo,
    query: &Query,
    request: &request::Parts,
) -> Work {
    let limit = query.get("limit").and_then(|limit| limit.parse().ok());
    let limit = limit.filter(|limit| *limit > 0 && info.verb == "list");
    let selects = !info.label_selector.is_empty() || !info.field_selector.is_empty();
    // kube-apiserver also assumes that a selector matches half of the objects.
    let found = match selects {
        true => objects.div_ceil(2),
        false => objects,
    };
    Work {
        objects,
        listed: limit.unwrap_or(found).min(found),
        object_bytes: (snapshot.bytes().checked_div(snapshot.len())).unwrap_or_default(),
        selects,
        form: form(request, query),
        compressed: info.verb == "list" && negotiation::accepts_gzip(&request.headers),
    }
}

/// Returns the form of the answer. The Accept header is not negotiated here, because
/// that happens when the answer is made.
fn form(request: &request::Parts, query: &Query) -> Form {
    let accept = request.headers.get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let accept = accept.unwrap_or_default();
    // If there are several clauses, the first is mostly the one that decides.
    let accept = accept.split(',').next().unwrap_or_default();
    if accept.contains("as=Table") || accept.contains("as=PartialObjectMetadata") {
        Form::Written
    } else if accept.contains("yaml") {
        Form::Yaml
    } else if query.truthy("pretty") {
        Form::Indented
    } else {
        Form::Shared
    }
}
