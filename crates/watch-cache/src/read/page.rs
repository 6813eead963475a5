//! Selects the objects that a LIST shows, and the start of its next page.
//!
//! The rules are those of kube-apiserver (k8s.io/apiserver `registry/generic`
//! `ListPredicate`, `storage/cacher` `GetList`). There is a next page if
//! candidates remain after a page. Which objects are candidates depends on the
//! index that the API server would have used.

use std::slice;
use std::sync::Arc;

use kubernetes_wire::api::dns_name::is_dns_label;
use kubernetes_wire::api::{ContinueToken, FieldSelector, LabelSelector, ListOptions};
use kubernetes_wire::representation::ListMeta;

use super::{BypassReason, ListPlan, ListVersion};
use crate::store::{Filter, KeyScope, Part, Snapshot, Store, StoredObject, Visible, indexed_field};

/// The selection of a LIST.
pub struct Selection {
    /// The namespace. Empty for a list of all namespaces or of cluster-scoped
    /// objects.
    namespace: String,
    /// The keys of continue tokens are relative to this prefix.
    prefix: String,
    filter: Filter,
    /// The list can show only the object of this name.
    name: Option<String>,
    /// Selects the objects that the API server finds by an index of its cache.
    indexed: Option<Filter>,
    everything: bool,
    /// The API server says how many objects remain: no selector is set, or in
    /// some releases only a shard selector.
    counted: bool,
    /// The shard selector as the answer repeats it. Empty if there is none.
    shard: String,
}

impl Selection {
    pub fn new(
        namespace: &str,
        options: ListOptions,
        plan: &ListPlan,
        store: &Store,
    ) -> Result<Self, BypassReason> {
        let resource = &store.resource;
        let fields = &options.field_selector;
        // If a selector narrows a list to a namespace or an object, that holds
        // for the first page only (`SelectionPredicate.MatchesSingle`).
        let first_page = options.continue_token.is_empty();
        let required = |field| fields.required(field).filter(|_| first_page);
        let namespace = match required("metadata.namespace") {
            Some(narrowed) if namespace.is_empty() && is_dns_label(narrowed) => narrowed,
            _ => namespace,
        }
        .to_owned();
        let name = required("metadata.name")
            .filter(|_| !resource.namespaced || !namespace.is_empty())
            .map(str::to_owned);
        let legacy_exact = options.resource_version_match.is_empty()
            && first_page
            && matches!(plan.version, ListVersion::Exact(_));
        if name.is_some() && legacy_exact {
            // Here the API server reads the newest state from etcd and ignores
            // the version.
            return Err(BypassReason::UnusualRequest);
        }
        let newest = matches!(plan.version, ListVersion::Newest(_));
        let indexed = indexed_field(&resource.gvr)
            .filter(|_| first_page && newest)
            .and_then(|field| {
                fields
                    .requirements
                    .iter()
                    .find(|r| r.equal && r.field == field)
            })
            .map(|requirement| FieldSelector::from_requirement(requirement.clone()));
        let shard = options.shard_selector;
        let unselected = options.label_selector.is_empty() && fields.is_empty();
        let everything = unselected && shard.is_none();
        let counted = everything || unselected && store.presentation().counts_shards;
        let filter = |labels, fields| {
            Filter::new(&namespace, labels, fields, resource)
                .map_err(|_| BypassReason::FieldSelector)
        };
        Ok(Self {
            name,
            everything,
            counted,
            shard: shard.as_ref().map(ToString::to_string).unwrap_or_default(),
            indexed: indexed
                .map(|fields| filter(LabelSelector::default(), fields))
                .transpose()?,
            filter: filter(options.label_selector, options.field_selector)?
                .of_shard(shard.map(|selector| selector.shard().clone())),
            prefix: prefix(&namespace),
            namespace,
        })
    }

    /// Tells whether the list shows this object, on any page.
    pub fn selects(&self, object: &StoredObject) -> bool {
        let is_named =
            |name: &String| object.key.name() == name && object.key.namespace() == self.namespace;
        self.name.as_ref().is_none_or(is_named) && self.filter.matches(object)
    }

    /// Returns the objects that are compared with the selectors.
    pub fn candidates<'s>(
        &self,
        snapshot: &'s Snapshot,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> {
        snapshot.candidates(&self.filter)
    }

    /// Narrows a selection of all namespaces to the visible objects. Each page
    /// shows what is visible at its time.
    #[must_use]
    pub fn of_view(mut self, visible: &Visible) -> Self {
        // If a field selector narrows a list, the API server begins later pages
        // at a wrong key, because they are not narrowed. The tokens of a view
        // need not do the same, since no other server has to understand them.
        self.prefix = String::new();
        let scope = KeyScope::Visible(match self.namespace.as_str() {
            "" => visible.clone(),
            namespace => visible.within(namespace),
        });
        if let Some(indexed) = &mut self.indexed {
            indexed.scope = scope.clone();
        }
        self.filter.scope = scope;
        self
    }
}

/// Returns the beginning of all keys in a namespace.
fn prefix(namespace: &str) -> String {
    match namespace {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    }
}

/// The objects of one answer, and its `metadata`.
pub struct Page<'s> {
    pub parts: Vec<Part<'s>>,
    pub meta: ListMeta,
}

impl<'s> Page<'s> {
    pub fn objects(&self) -> impl Iterator<Item = &'s Arc<StoredObject>> {
        self.parts.iter().flat_map(|part| objects(*part))
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

fn objects(part: Part<'_>) -> &[Arc<StoredObject>] {
    match part {
        Part::Leaf(leaf) => leaf.objects(),
        Part::Object(object) => slice::from_ref(object),
    }
}

pub fn page<'s>(snapshot: &'s Snapshot, selection: &Selection, plan: &ListPlan) -> Page<'s> {
    let mut meta = ListMeta {
        shard_selector: selection.shard.clone(),
        ..ListMeta::at(snapshot.resource_version)
    };
    if let Some(name) = &selection.name {
        let found = snapshot.get(&selection.namespace, name);
        let found = found.filter(|o| selection.filter.matches(o));
        let parts = found.map(Part::Object).into_iter().collect();
        return Page { parts, meta };
    }
    let prefix = &selection.prefix;
    let start = format!("{prefix}{}", plan.start);
    let limit = match plan.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let (parts, more) = if selection.everything {
        whole(snapshot, selection, &start, limit)
    } else {
        selected(snapshot, selection, &start, limit)
    };
    let last = parts.last().and_then(|part| objects(*part).last());
    if let Some(last) = last.filter(|_| more) {
        let key = last.key.as_str();
        let relative = key.strip_prefix(prefix).unwrap_or(key);
        let token = ContinueToken::after(snapshot.resource_version, relative);
        meta.continue_token = token.to_string();
        // The API server subtracts the limit from the number of candidates, as
        // if all objects of the page had been in the shard.
        meta.remaining_item_count = selection.counted.then(|| {
            let candidates = snapshot.count_from(&selection.filter.scope, &start);
            let rest = candidates.saturating_sub(limit);
            i64::try_from(rest).unwrap_or(i64::MAX)
        });
    }
    Page { parts, meta }
}

/// Returns at most `limit` objects, in whole leaves where possible, and whether
/// there are more.
fn whole<'s>(
    snapshot: &'s Snapshot,
    selection: &Selection,
    start: &str,
    limit: usize,
) -> (Vec<Part<'s>>, bool) {
    let mut parts = Vec::new();
    let mut room = limit;
    for part in snapshot.parts(&selection.filter.scope, start) {
        let objects = objects(part);
        let Some(left) = room.checked_sub(objects.len()) else {
            parts.extend(objects.iter().take(room).map(Part::Object));
            return (parts, true);
        };
        parts.push(part);
        room = left;
    }
    (parts, false)
}

/// Does the same as [`whole`] for the objects that the filter selects. The API
/// server does not test whether the remaining candidates match, so the last
/// page may be empty.
fn selected<'s>(
    snapshot: &'s Snapshot,
    selection: &Selection,
    start: &str,
    limit: usize,
) -> (Vec<Part<'s>>, bool) {
    let filter = &selection.filter;
    let mut parts = Vec::new();
    let mut spans = snapshot.spans(&filter.scope, start);
    let mut candidates: &[Arc<StoredObject>] = &[];
    while parts.len() < limit {
        let Some((candidate, rest)) = candidates.split_first() else {
            let Some(span) = spans.next() else {
                return (parts, false);
            };
            if filter.may_match_in(span.leaf) {
                candidates = span.objects();
            }
            continue;
        };
        candidates = rest;
        if filter.matches(candidate) {
            parts.push(Part::Object(candidate));
        }
    }
    let more = match &selection.indexed {
        Some(indexed) => {
            let rest = spans.filter(|span| indexed.may_match_in(span.leaf));
            let rest = rest.flat_map(|span| span.objects());
            candidates.iter().chain(rest).any(|o| indexed.matches(o))
        }
        None => !candidates.is_empty() || spans.next().is_some(),
    };
    (parts, more)
}

#[cfg(test)]
mod tests {

    use bytes::Bytes;
    use kubernetes_wire::api::Query;

    use super::*;
    use crate::store::tests::pods;

    /// Returns a store of pods at version 9: a/p0 … a/p5 and b/p0. Pods with
    /// odd numbers have the label `odd` and run on the node n1.
    fn pods() -> Arc<Store> {
        let resource = pods::resource();
        let keys = (0..6).map(|n| ("a", n)).chain([("b", 0)]);
        let objects = keys.map(|(namespace, n)| {
            let odd = n % 2;
            let item = format!(
                r#"{{"metadata":{{"name":"p{n}","namespace":"{namespace}","resourceVersion":"5","labels":{{"odd":"{odd}"}}}},"spec":{{"nodeName":"n{odd}"}}}}"#
            );
            StoredObject::parse(Bytes::from(item), &resource.fields).unwrap()
        });
        let objects = objects.collect();
        Store::new(resource, objects, 9).1
    }

    /// The keys of the page, the start of the next page, and the number of
    /// objects that remain.
    type Shown = (Vec<String>, Option<String>, Option<i64>);

    fn shown(namespace: &str, query: &str) -> Result<Shown, BypassReason> {
        let store = pods();
        let options = ListOptions::from_query(&Query::parse(query)).unwrap();
        let plan = super::super::list(&options)?;
        let selection = Selection::new(namespace, options, &plan, &store)?;
        let snapshot = store.snapshot();
        let page = page(&snapshot, &selection, &plan);
        let keys = page.objects().map(|o| o.key.as_str().to_owned());
        let token = ContinueToken::parse(&page.meta.continue_token).ok();
        assert!(token.as_ref().is_none_or(|t| t.resource_version == 9));
        Ok((
            keys.collect(),
            token.map(|t| t.start),
            page.meta.remaining_item_count,
        ))
    }

    #[test]
    fn a_list_is_cut_where_the_api_server_cuts_it() {
        let after = |key: &str| format!("&continue={}", ContinueToken::after(9, key));
        let gone = |start: &str| {
            let token = ContinueToken {
                resource_version: 9,
                start: start.to_owned(),
            };
            format!("&continue={token}")
        };
        let newest = "resourceVersion=1&resourceVersionMatch=NotOlderThan";
        for (namespace, query, keys, next, remaining) in [
            ("", newest.to_owned(), 7, None, None),
            ("", format!("{newest}&limit=7"), 7, None, None),
            ("", format!("{newest}&limit=8"), 7, None, None),
            ("", format!("{newest}&limit=6"), 6, Some("a/p5\0"), Some(1)),
            ("", format!("{newest}&limit=2"), 2, Some("a/p1\0"), Some(5)),
            ("a", format!("{newest}&limit=2"), 2, Some("p1\0"), Some(4)),
            ("c", format!("{newest}&limit=2"), 0, None, None),
            ("", format!("limit=5{}", after("a/p1")), 5, None, None),
            (
                "",
                format!("limit=1{}", after("a/p1")),
                1,
                Some("a/p2\0"),
                Some(4),
            ),
            ("a", format!("limit=4{}", after("p1")), 4, None, None),
            (
                "a",
                format!("limit=3{}", after("p1")),
                3,
                Some("p4\0"),
                Some(1),
            ),
            (
                "a",
                format!("limit=3{}", gone("p1-gone")),
                3,
                Some("p4\0"),
                Some(1),
            ),
            ("a", format!("limit=3{}", after("z")), 0, None, None),
            ("", after("a/p1"), 5, None, None),
            (
                "",
                format!("limit=1&resourceVersion=0{}", after("a/p1")),
                5,
                None,
                None,
            ),
            // After a/p4 there are other objects. They do not match, but the
            // API server does not know that.
            (
                "a",
                format!("{newest}&labelSelector=odd%3D0&limit=3"),
                3,
                Some("p4\0"),
                None,
            ),
            (
                "a",
                format!("{newest}&labelSelector=odd%3D1&limit=3"),
                3,
                None,
                None,
            ),
            (
                "a",
                format!("labelSelector=odd%3D0&limit=3{}", after("p4")),
                0,
                None,
                None,
            ),
            (
                "",
                format!("{newest}&labelSelector=odd%3D2&limit=1"),
                0,
                None,
                None,
            ),
            // On first pages, the API server knows from its index that they do
            // not match.
            (
                "a",
                format!("{newest}&fieldSelector=spec.nodeName%3Dn0&limit=3"),
                3,
                None,
                None,
            ),
            (
                "a",
                format!("{newest}&fieldSelector=spec.nodeName%3Dn0&limit=2"),
                2,
                Some("p2\0"),
                None,
            ),
            (
                "a",
                "resourceVersion=9&fieldSelector=spec.nodeName%3Dn0&limit=3".to_owned(),
                3,
                Some("p4\0"),
                None,
            ),
            (
                "a",
                format!("fieldSelector=spec.nodeName%3Dn0&limit=2{}", after("p0")),
                2,
                Some("p4\0"),
                None,
            ),
            // A namespace selector narrows only the first page.
            (
                "",
                format!("{newest}&fieldSelector=metadata.namespace%3Da&limit=5"),
                5,
                Some("p4\0"),
                None,
            ),
            (
                "",
                format!("{newest}&fieldSelector=metadata.namespace%3Da&limit=6"),
                6,
                None,
                None,
            ),
            (
                "",
                format!(
                    "fieldSelector=metadata.namespace%3Da&limit=6{}",
                    gone("a/p0")
                ),
                6,
                Some("a/p5\0"),
                None,
            ),
            (
                "a",
                format!("{newest}&fieldSelector=metadata.name%3Dp0&limit=1"),
                1,
                None,
                None,
            ),
            (
                "a",
                format!("{newest}&fieldSelector=metadata.name%3Dp0,metadata.name%3Dp1"),
                0,
                None,
                None,
            ),
            (
                "b",
                format!("{newest}&fieldSelector=metadata.name%3Dp1&limit=1"),
                0,
                None,
                None,
            ),
            (
                "",
                format!("{newest}&fieldSelector=metadata.name%3Dp0&limit=1"),
                1,
                Some("a/p0\0"),
                None,
            ),
            (
                "",
                format!("{newest}&fieldSelector=metadata.name%3Dp0,metadata.namespace%3Da&limit=1"),
                1,
                None,
                None,
            ),
        ] {
            let next = next.map(str::to_owned);
            let (found, start, rest) = shown(namespace, &query).unwrap();
            assert_eq!(
                (found.len(), start, rest),
                (keys, next, remaining),
                "{namespace} {query}"
            );
        }
        assert_eq!(
            shown(
                "a",
                "resourceVersion=9&limit=1&fieldSelector=metadata.name%3Dp0"
            ),
            Err(BypassReason::UnusualRequest)
        );
        let exact = "resourceVersion=9&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Dp0";
        assert_eq!(shown("a", exact).unwrap().0, ["a/p0"]);
    }

    /// Leaves without pods of the node are passed over, which changes no page.
    #[test]
    fn the_pages_of_a_node_are_those_of_a_look_at_every_pod() {
        let (_writer, store) = pods::on_nodes(900, 45);
        let snapshot = store.snapshot();
        let cases = [3, 44, 45].into_iter().flat_map(|node| {
            let limits = [0, 1, 3, 19, 20].into_iter();
            limits.flat_map(move |limit| {
                [(true, ""), (true, "b"), (false, "")].map(|(newest, of)| (node, limit, newest, of))
            })
        });
        for (node, limit, newest, namespace) in cases {
            let from = match newest {
                true => "resourceVersion=1&resourceVersionMatch=NotOlderThan".to_owned(),
                false => format!("continue={}", ContinueToken::after(5, "a/p0300")),
            };
            let query = format!("{from}&limit={limit}&fieldSelector=spec.nodeName%3Dn{node}");
            let options = ListOptions::from_query(&Query::parse(&query)).unwrap();
            let plan = super::super::list(&options).unwrap();
            let selection = Selection::new(namespace, options, &plan, &store).unwrap();
            let start = format!("{}{}", selection.prefix, plan.start);
            let most = if limit == 0 { usize::MAX } else { limit };
            let (parts, more) = selected(&snapshot, &selection, &start, most);
            let all: Vec<_> = snapshot
                .iter_from(&selection.filter.scope, &start)
                .collect();
            let is_of_node = |object: &&Arc<StoredObject>| selection.filter.matches(object);
            let expected: Vec<_> = all.iter().copied().filter(is_of_node).take(most).collect();
            let shown = parts.iter().flat_map(|part| objects(*part));
            let shown: Vec<_> = shown.map(|object| &object.key).collect();
            let keys: Vec<_> = expected.iter().map(|object| &object.key).collect();
            assert_eq!(shown, keys, "{query}");
            let is_full = expected.len() == most;
            let rest = all
                .iter()
                .skip_while(|o| is_full && o.key <= expected[most - 1].key);
            let mut rest = rest.filter(|o| selection.indexed.is_none() || is_of_node(o));
            assert_eq!(more, is_full && rest.next().is_some(), "{query}");
        }
    }
}
