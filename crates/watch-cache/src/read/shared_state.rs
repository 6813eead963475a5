//! Turns a list of names and versions into the objects themselves.
//!
//! ```text
//! listed at R ─▶ in memory? ── all ─▶ the state at R
//!                    │ ▲
//!                    ▼ └─ the main watch brings them (CATCH_UP)
//!                 missing ── few ──▶ read one by one, at R ─▶ the state at R
//!                    └────── many ─▶ listed whole, at R ────▶ the state at R
//! ```
//!
//! The state that is built here answers only the callers that asked for it.
//! Only the main watch changes the store and its order of events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kubernetes_wire::api::{FieldSelector, LabelSelector};

use super::BypassReason;
use super::shared_listing::{Listed, Listing};
use super::shared_plan::ListQuery;
use crate::store::{Filter, ObjectKey, Snapshot, Store, StoredObject};

/// The time that the main watch may take to bring objects that upstream has
/// already listed. The watch is either late by milliseconds, or lost.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The most objects that are fetched one by one for a read. If more are
/// missing, the main watch is far behind, and all objects are listed, once for
/// all waiting callers.
const MAX_FETCHED: usize = 32;

const FETCHED_AT_A_TIME: usize = 8;

/// Upstream's answer as stored objects.
#[derive(Clone, Debug)]
pub enum SharedState {
    /// The requested state, at the snapshot's version. Objects in the snapshot
    /// that were not requested may have any version.
    Whole {
        snapshot: Arc<Snapshot>,
        /// The snapshot holds all objects of the resource at its version.
        complete: bool,
    },
    Page(SharedPage),
}

/// One page, cut by upstream.
#[derive(Clone, Debug)]
pub struct SharedPage {
    pub resource_version: u64,
    pub continue_token: String,
    pub remaining_item_count: Option<i64>,
    pub objects: Vec<Arc<StoredObject>>,
}

impl SharedState {
    pub fn resource_version(&self) -> u64 {
        match self {
            Self::Whole { snapshot, .. } => snapshot.resource_version,
            Self::Page(page) => page.resource_version,
        }
    }
}

/// Reads objects as they were at a version.
pub(super) trait Fetch: Sync {
    fn fetch(
        &self,
        listed: &Listed,
        version: u64,
    ) -> impl Future<Output = Option<StoredObject>> + Send;

    /// Reads all objects that `read` selects.
    fn fetch_all(
        &self,
        read: &ListQuery,
        version: u64,
    ) -> impl Future<Output = Option<Vec<StoredObject>>> + Send;
}

/// Returns the objects of a listing. `read` is the query that was listed.
pub(super) async fn resolve(
    mut listing: Listing,
    read: &ListQuery,
    store: &Store,
    fetch: &impl Fetch,
) -> Result<SharedState, BypassReason> {
    let filter = filter(read, store)?;
    // The code that follows needs the order of keys. All known servers list in
    // that order.
    if !listing.items.is_sorted_by(|a, b| a.key < b.key) {
        listing.items.sort_by(|a, b| a.key.cmp(&b.key));
    }
    let version = listing.resource_version;
    let page = read.limit > 0;
    let mut base = base(store, version);
    let mut found = compare(&base, &filter, &listing.items, page);
    let latest = found.missing.iter().map(|listed| listed.resource_version);
    if let Some(latest) = latest.max() {
        reached(store, latest).await;
        base = self::base(store, version);
        found = compare(&base, &filter, &listing.items, page);
    }
    let fetched = fetch_missing(&found.missing, read, version, fetch).await?;
    if page {
        return self::page(listing, &base, fetched);
    }
    if !listing.continue_token.is_empty() {
        // The query did not ask for a page.
        return Err(BypassReason::NotProvenFresh);
    }
    let is_base = base.resource_version == version && fetched.is_empty() && found.gone.is_empty();
    let snapshot = if is_base {
        base
    } else {
        let mut built = base.with(version, fetched, found.gone);
        built.cursor = store
            .begin(version)
            .map_err(|_| BypassReason::HistoryTooShort)?;
        Arc::new(built)
    };
    let selects = !read.label_selector.is_empty() || !read.field_selector.is_empty();
    Ok(SharedState::Whole {
        snapshot,
        complete: read.namespace.is_empty() && !selects,
    })
}

fn page(
    listing: Listing,
    base: &Snapshot,
    fetched: Vec<Arc<StoredObject>>,
) -> Result<SharedState, BypassReason> {
    let object = |listed: &Listed| {
        let new = fetched.iter().find(|object| object.key == listed.key);
        new.or_else(|| get(base, listed)).cloned()
    };
    let objects: Option<Vec<_>> = listing.items.iter().map(object).collect();
    Ok(SharedState::Page(SharedPage {
        resource_version: listing.resource_version,
        continue_token: listing.continue_token,
        remaining_item_count: listing.remaining_item_count,
        objects: objects.ok_or(BypassReason::NotProvenFresh)?,
    }))
}

fn get<'s>(snapshot: &'s Snapshot, listed: &Listed) -> Option<&'s Arc<StoredObject>> {
    let found = snapshot.get(listed.key.namespace(), listed.key.name());
    found.filter(|object| listed.is(object))
}

fn filter(read: &ListQuery, store: &Store) -> Result<Filter, BypassReason> {
    let labels = LabelSelector::parse(&read.label_selector);
    let fields = FieldSelector::parse(&read.field_selector);
    Filter::new(
        &read.namespace,
        labels.map_err(|_| BypassReason::InvalidOptions)?,
        fields.map_err(|_| BypassReason::InvalidOptions)?,
        &store.resource,
    )
    .map_err(|_| BypassReason::FieldSelector)
}

/// Returns the nearest state in memory: the state at `version` if the store has
/// it, or else the newest.
fn base(store: &Store, version: u64) -> Arc<Snapshot> {
    let current = store.snapshot();
    if current.resource_version <= version {
        return current;
    }
    store.snapshot_at(version).unwrap_or(current)
}

/// The listed objects that a snapshot lacks, and the objects of the snapshot
/// that are not listed.
struct Difference<'l> {
    missing: Vec<&'l Listed>,
    gone: Vec<ObjectKey>,
}

/// Compares a snapshot with a listing, both in the order of keys. If the
/// listing is a page, no objects are `gone`.
fn compare<'l>(
    base: &Snapshot,
    filter: &Filter,
    listed: &'l [Listed],
    page: bool,
) -> Difference<'l> {
    let mut found = Difference {
        missing: Vec::new(),
        gone: Vec::new(),
    };
    if page {
        let missing = listed.iter().filter(|listed| get(base, listed).is_none());
        found.missing.extend(missing);
        return found;
    }
    let mut listed = listed.iter().peekable();
    for object in base.candidates(filter).filter(|o| filter.matches(o)) {
        while let Some(new) = listed.next_if(|l| l.key < object.key) {
            found.missing.push(new);
        }
        match listed.next_if(|l| l.key == object.key) {
            Some(same) if same.is(object) => {}
            Some(other) => found.missing.push(other),
            None => found.gone.push(object.key.clone()),
        }
    }
    found.missing.extend(listed);
    found
}

async fn reached(store: &Store, version: u64) {
    let mut progress = store.subscribe();
    let wait = progress.wait_for(|p| p.closed || p.resource_version >= version);
    // The comparison after this shows whether the version was reached.
    let _ = tokio::time::timeout(CATCH_UP, wait).await;
}

async fn fetch_missing(
    missing: &[&Listed],
    read: &ListQuery,
    version: u64,
    fetch: &impl Fetch,
) -> Result<Vec<Arc<StoredObject>>, BypassReason> {
    if missing.len() > MAX_FETCHED {
        let all = fetch.fetch_all(read, version).await;
        let all = all.ok_or(BypassReason::NotProvenFresh)?;
        let missing: HashMap<_, _> = missing.iter().map(|l| (&l.key, *l)).collect();
        let is_missing = |o: &StoredObject| missing.get(&o.key).is_some_and(|l| l.is(o));
        let found: Vec<_> = all.into_iter().filter(is_missing).map(Arc::new).collect();
        return (found.len() == missing.len())
            .then_some(found)
            .ok_or(BypassReason::NotProvenFresh);
    }
    let mut fetched = Vec::with_capacity(missing.len());
    for some in missing.chunks(FETCHED_AT_A_TIME) {
        let fetches = some.iter().map(|listed| fetch_one(listed, version, fetch));
        fetched.extend(join_all(fetches).await);
    }
    let all: Option<Vec<_>> = fetched.into_iter().collect();
    all.ok_or(BypassReason::NotProvenFresh)
}

async fn fetch_one(listed: &Listed, version: u64, fetch: &impl Fetch) -> Option<Arc<StoredObject>> {
    let object = fetch.fetch(listed, version).await?;
    (object.key == listed.key && listed.is(&object)).then(|| Arc::new(object))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use parking_lot::Mutex;

    use super::*;
    use crate::store::tests::pods;
    use crate::store::{KeyScope, StoreWriter};

    fn item(name: &str, version: u64, label: &str) -> Bytes {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"u","resourceVersion":"{version}","labels":{{"l":"{label}"}}}}}}"#
        )
        .into()
    }

    fn written(objects: &[(&str, u64)], version: u64) -> (StoreWriter, Arc<Store>) {
        let resource = pods::resource();
        let object = |(name, version): &(&str, u64)| {
            StoredObject::parse(item(name, *version, "x"), &resource.fields).unwrap()
        };
        let objects = objects.iter().map(object).collect();
        Store::new(resource, objects, version)
    }

    fn store(objects: &[(&str, u64)], version: u64) -> Arc<Store> {
        written(objects, version).1
    }

    fn apply(writer: &StoreWriter, deleted: bool, name: &str, version: u64) {
        let item = item(name, version, "x");
        writer.apply(deleted, item, Instant::now()).unwrap();
    }

    fn listing(version: u64, items: &[(&str, u64)]) -> Listing {
        let listed = |(name, version): &(&str, u64)| Listed {
            key: ObjectKey::new("n", name),
            uid: "u".into(),
            resource_version: *version,
        };
        Listing {
            resource_version: version,
            items: items.iter().map(listed).collect(),
            ..Listing::default()
        }
    }

    /// Knows every version, or none, and records the questions.
    #[derive(Default)]
    struct Upstream {
        empty: bool,
        asked: Mutex<Vec<String>>,
    }

    impl Fetch for Upstream {
        async fn fetch(&self, listed: &Listed, version: u64) -> Option<StoredObject> {
            let name = listed.key.name();
            self.asked.lock().push(format!("{name}@{version}"));
            let item = item(name, listed.resource_version, "x");
            let pods = pods::resource().fields;
            (!self.empty).then(|| StoredObject::parse(item, &pods).unwrap())
        }

        async fn fetch_all(&self, _: &ListQuery, version: u64) -> Option<Vec<StoredObject>> {
            self.asked.lock().push(format!("all@{version}"));
            let pods = pods::resource().fields;
            let object = |n: usize| {
                let item = item(&format!("x{n:02}"), 6, "x");
                StoredObject::parse(item, &pods).unwrap()
            };
            (!self.empty).then(|| (0..=MAX_FETCHED).map(object).collect())
        }
    }

    fn shown(state: &SharedState) -> (u64, Vec<String>) {
        let SharedState::Whole { snapshot, .. } = state else {
            panic!("a page");
        };
        let object = |o: &Arc<StoredObject>| format!("{}@{}", o.key.name(), o.resource_version);
        let objects = snapshot.iter(&KeyScope::All).map(object).collect();
        (snapshot.resource_version, objects)
    }

    async fn at(store: &Store, listing: Listing, upstream: &Upstream) -> (u64, Vec<String>) {
        let state = resolve(listing, &ListQuery::default(), store, upstream).await;
        shown(&state.unwrap())
    }

    fn names(objects: &[&str]) -> Vec<String> {
        objects.iter().map(|o| (*o).to_owned()).collect()
    }

    #[tokio::test]
    async fn nothing_happened_since() {
        let store = store(&[("a", 3), ("b", 4)], 5);
        let upstream = Upstream::default();
        let state = at(&store, listing(9, &[("a", 3), ("b", 4)]), &upstream).await;
        assert_eq!(state, (9, names(&["a@3", "b@4"])));
        // The answer does not move the main watch's version.
        assert_eq!(store.progress().resource_version, 5);
        assert!(upstream.asked.lock().is_empty());
    }

    /// The answer has earlier versions of the store's objects.
    #[tokio::test]
    async fn the_store_is_ahead() {
        let (writer, store) = written(&[("a", 3), ("b", 4), ("d", 5)], 5);
        apply(&writer, false, "a", 6);
        apply(&writer, false, "a", 8);
        apply(&writer, true, "b", 9);
        apply(&writer, false, "c", 10);
        let upstream = Upstream::default();
        let then = listing(7, &[("a", 6), ("b", 4), ("d", 5)]);
        let state = resolve(then, &ListQuery::default(), &store, &upstream).await;
        let state = state.unwrap();
        assert_eq!(shown(&state), (7, names(&["a@6", "b@4", "d@5"])));
        let SharedState::Whole { snapshot, complete } = state else {
            panic!("a page");
        };
        assert!(complete);
        let mut cursor = snapshot.cursor;
        let after: Vec<_> = store.read(&mut cursor, 9).unwrap();
        let after: Vec<_> = after.iter().map(|e| e.resource_version).collect();
        assert_eq!(after, [8, 9, 10]);
        assert!(upstream.asked.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_store_is_behind_and_comes() {
        let (writer, store) = written(&[("a", 3), ("b", 4)], 5);
        let began = tokio::time::Instant::now();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            apply(&writer, false, "a", 6);
            apply(&writer, false, "c", 7);
            // This change is later than the list.
            apply(&writer, false, "a", 9);
        });
        let upstream = Upstream::default();
        // The store does not know the deletion yet.
        let state = at(&store, listing(8, &[("a", 6), ("c", 7)]), &upstream).await;
        assert_eq!(state, (8, names(&["a@6", "c@7"])));
        assert_eq!(began.elapsed(), Duration::from_millis(20));
        assert!(upstream.asked.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_read_at_its_version() {
        let store = store(&[("a", 3)], 5);
        let upstream = Upstream::default();
        let state = at(&store, listing(8, &[("a", 6), ("c", 7)]), &upstream).await;
        assert_eq!(state, (8, names(&["a@6", "c@7"])));
        assert_eq!(*upstream.asked.lock(), ["a@8", "c@8"]);
        assert_eq!(store.snapshot().len(), 1);

        let gone = Upstream {
            empty: true,
            ..Upstream::default()
        };
        let read = ListQuery::default();
        let missing = resolve(listing(8, &[("a", 6)]), &read, &store, &gone).await;
        assert_eq!(missing.unwrap_err(), BypassReason::NotProvenFresh);
        let many: Vec<_> = (0..=MAX_FETCHED).map(|n| format!("x{n:02}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), 6)).collect();
        let all = resolve(listing(8, &many), &read, &store, &upstream).await;
        assert_eq!(shown(&all.unwrap()).1.len(), MAX_FETCHED + 1);
        assert_eq!(upstream.asked.lock().last().unwrap(), "all@8");
        let missing = resolve(listing(8, &many), &read, &store, &gone).await;
        assert_eq!(missing.unwrap_err(), BypassReason::NotProvenFresh);
    }

    /// The name and the version are equal, but the uid differs. The object
    /// belongs to another cluster's history.
    #[tokio::test(start_paused = true)]
    async fn an_equal_version_of_another_object_is_not_it() {
        let store = store(&[("a", 3)], 5);
        let mut listing = listing(8, &[("a", 3)]);
        for item in &mut listing.items {
            item.uid = "other".into();
        }
        let read = ListQuery::default();
        let found = resolve(listing, &read, &store, &Upstream::default()).await;
        assert_eq!(found.unwrap_err(), BypassReason::NotProvenFresh);
    }

    /// Objects that were not requested must not be shown.
    #[tokio::test]
    async fn a_narrow_read_is_right_within_its_bounds() {
        let store = store(&[("a", 3), ("b", 4), ("c", 5)], 5);
        let read = ListQuery {
            field_selector: "metadata.name!=c".to_owned(),
            ..ListQuery::default()
        };
        let upstream = Upstream::default();
        let state = resolve(listing(8, &[("a", 3)]), &read, &store, &upstream).await;
        let state = state.unwrap();
        assert_eq!(shown(&state), (8, names(&["a@3", "c@5"])));
        assert!(matches!(
            state,
            SharedState::Whole {
                complete: false,
                ..
            }
        ));
    }

    #[tokio::test]
    async fn a_page_is_upstreams() {
        let store = store(&[("a", 3), ("b", 4), ("c", 5)], 5);
        let read = ListQuery {
            limit: 2,
            ..ListQuery::default()
        };
        let cut = Listing {
            continue_token: "token".to_owned(),
            remaining_item_count: Some(1),
            ..listing(8, &[("a", 3), ("b", 4)])
        };
        let upstream = Upstream::default();
        let state = resolve(cut.clone(), &read, &store, &upstream).await;
        let SharedState::Page(page) = state.unwrap() else {
            panic!("no page");
        };
        assert_eq!((page.resource_version, page.objects.len()), (8, 2));
        assert_eq!(page.continue_token, "token");
        assert_eq!(page.remaining_item_count, Some(1));
        // The query has no limit, so a page does not answer it.
        let read = ListQuery::default();
        assert!(resolve(cut, &read, &store, &upstream).await.is_err());
    }
}
