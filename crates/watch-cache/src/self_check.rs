//! The live self-check (`cache.selfCheck`). At an interval, every cached resource is
//! compared, byte for byte, with upstream's list of the same version.
//!
//! The check is off by default, because upstream makes a whole list of each resource
//! at each interval. One resource is compared at a time, a page at a time. The
//! interval is random, which keeps several replicas apart.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_source::{BodyLimit, JSON, ReadKind, Source, SourceError};
use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::Envelope;
use kubernetes_wire::representation::list::List;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::Rng;

use crate::SelfCheckResult;
use crate::fingerprint::{Digest, FingerprintKey};
use crate::reflector::Cache;
use crate::store::{KeyScope, Snapshot, Store, StoredObject};

/// Objects per page, as in the reflector's lists.
const PAGE_SIZE: usize = 500;

/// A page that is larger, or takes longer, is not compared.
const MAX_PAGE_BYTES: usize = 256 << 20;
const PAGE_TIMEOUT: Duration = Duration::from_secs(120);

/// The pause between two resources.
const RESOURCE_DELAY: Duration = Duration::from_millis(200);

/// The time between two looks at the configuration while the check is off.
const OFF_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The result of the last comparison of a resource.
#[derive(Clone, Debug)]
pub struct Checked {
    pub result: SelfCheckResult,
    /// The reason why the comparison was skipped, or the fingerprints of the
    /// difference. The message names no object and holds no contents.
    pub message: String,
    pub version: u64,
    /// The number of objects in the compared state.
    pub objects: usize,
    pub at: Instant,
}

/// The last comparison of each resource that is cached.
pub struct SelfChecks {
    last: Mutex<HashMap<GroupVersionResource, Checked>>,
    key: FingerprintKey,
}

impl SelfChecks {
    /// `key` makes the fingerprints of differences.
    pub fn new(key: FingerprintKey) -> Self {
        let last = Mutex::default();
        Self { last, key }
    }

    pub fn last(&self, gvr: &GroupVersionResource) -> Option<Checked> {
        self.last.lock().get(gvr).cloned()
    }

    /// Compares at each interval, forever. `interval` is called anew each time;
    /// zero turns the check off.
    pub async fn run(&self, cache: &Cache, interval: impl Fn() -> Duration) {
        loop {
            let interval = interval();
            if interval.is_zero() {
                tokio::time::sleep(OFF_LOOK_INTERVAL).await;
                continue;
            }
            // Replicas that started together must not list together.
            let jitter = rand::rng().random_range(0.75..1.25);
            tokio::time::sleep(interval.mul_f64(jitter)).await;
            self.round(cache).await;
        }
    }

    /// Compares every cached resource once.
    async fn round(&self, cache: &Cache) {
        let entries = cache.entries();
        let cached: HashMap<_, _> = entries.iter().map(|e| (&e.gvr, e)).collect();
        self.retain(|gvr| cached.get(gvr).is_some_and(|e| e.store().is_some()));
        for entry in &entries {
            let Some(store) = entry.store() else { continue };
            let connected = entry.lifecycle().disconnected_for(Instant::now()).is_zero();
            let snapshot = store.snapshot();
            let upstream = entry.upstream();
            let compared = match connected {
                true => compare(&*upstream, &entry.gvr, &store, &snapshot).await,
                false => Err(Skipped::Disconnected),
            };
            let checked = judge(&entry.gvr, &snapshot, compared, &self.key);
            cache.observer().self_checked(&entry.gvr, checked.result);
            self.last.lock().insert(entry.gvr.clone(), checked);
            tokio::time::sleep(RESOURCE_DELAY).await;
        }
    }

    fn retain(&self, cached: impl Fn(&GroupVersionResource) -> bool) {
        self.last.lock().retain(|gvr, _| cached(gvr));
    }
}

/// The reason why nothing could be compared.
#[derive(Debug, thiserror::Error)]
enum Skipped {
    #[error("upstream's watch is not open")]
    Disconnected,
    #[error("the version is not kept any more")]
    Evicted,
    #[error("upstream answers {0}")]
    Answer(http::StatusCode),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the list broke off: {0}")]
    Body(String),
    /// Only the place is shown: the parser's own message may quote contents.
    #[error("the answer is not a list: line {}, column {}", .0.line(), .0.column())]
    Json(#[from] serde_json::Error),
    /// Upstream ignores `resourceVersionMatch=Exact`.
    #[error("upstream lists version {0:?}")]
    Version(String),
    #[error("the comparison ended: {0}")]
    Ended(#[from] tokio::task::JoinError),
}

/// The first object that differs.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    key: String,
    /// The digest of each side's bytes. `None` if the side has no object with the
    /// key.
    cached: Option<Digest>,
    upstream: Option<Digest>,
}

/// Returns the result of a comparison, and logs it.
fn judge(
    gvr: &GroupVersionResource,
    snapshot: &Snapshot,
    compared: Result<Option<Difference>, Skipped>,
    fingerprints: &FingerprintKey,
) -> Checked {
    let version = snapshot.resource_version;
    let (result, message) = match compared {
        Ok(None) => (SelfCheckResult::Match, String::new()),
        Ok(Some(Difference {
            key,
            cached,
            upstream,
        })) => {
            let side = |side: Option<Digest>| {
                side.map_or_else(String::new, |digest| fingerprints.fingerprint(&digest))
            };
            let (cached, upstream) = (side(cached), side(upstream));
            tracing::error!(
                resource = %gvr, resource_version = version, key, cached, upstream,
                "the cache differs from upstream"
            );
            let message = format!("{cached:?} cached, {upstream:?} upstream");
            (SelfCheckResult::Mismatch, message)
        }
        Err(skipped) => {
            tracing::debug!(resource = %gvr, %skipped, "not compared with upstream");
            (SelfCheckResult::Skipped, skipped.to_string())
        }
    };
    Checked {
        result,
        message,
        version,
        objects: snapshot.len(),
        at: Instant::now(),
    }
}

/// Compares the cache's answer to an exact list of the snapshot's version with
/// upstream's answer.
async fn compare(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    store: &Arc<Store>,
    snapshot: &Snapshot,
) -> Result<Option<Difference>, Skipped> {
    let version = snapshot.resource_version;
    let mut first = Some(format!(
        "?resourceVersion={version}&resourceVersionMatch=Exact&limit={PAGE_SIZE}"
    ));
    let mut next = String::new();
    let mut listed = Vec::new();
    while let Some(query) = first.take().or_else(|| continued(&next)) {
        let body = page(upstream, &format!("{}{query}", gvr.path())).await?;
        let read_for = store.clone();
        let page = aside(move || Page::read(&body, &read_for)).await??;
        if page.resource_version != version.to_string() {
            return Err(Skipped::Version(page.resource_version));
        }
        listed.extend(page.items);
        next = page.continue_token;
    }
    // Clients would get the same state: it is still kept, or made again from the
    // history.
    let state = store.snapshot_at(version).ok_or(Skipped::Evicted)?;
    let store = store.clone();
    aside(move || difference(&state, &listed, &store.resource.envelope)).await
}

/// Runs work that may take seconds, on a thread that serves no requests.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Skipped> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

fn continued(token: &str) -> Option<String> {
    let token = utf8_percent_encode(token, NON_ALPHANUMERIC);
    let query = format!("?limit={PAGE_SIZE}&continue={token}");
    (token.to_string() != "").then_some(query)
}

async fn page(upstream: &dyn Source, path: &str) -> Result<Bytes, Skipped> {
    let response = upstream.get(ReadKind::SelfCheck, path, JSON).await?;
    let status = response.status();
    if !status.is_success() {
        return Err(Skipped::Answer(status));
    }
    let bound = BodyLimit::new(MAX_PAGE_BYTES, PAGE_TIMEOUT);
    let body = response.into_body().collect_bytes(bound).await;
    body.map_err(|e| Skipped::Body(e.to_string()))
}

/// A page of upstream's list, without the objects.
struct Page {
    resource_version: String,
    continue_token: String,
    /// Digests instead of objects: a large resource must not be in memory twice.
    items: Vec<(String, Digest)>,
}

impl Page {
    fn read(body: &[u8], store: &Store) -> Result<Self, serde_json::Error> {
        // The bytes of a page are bounded, so its items need no bound.
        let list = List::from_json(body, usize::MAX)?;
        Ok(Self {
            items: list
                .items
                .iter()
                .map(|item| listed_item(item, store))
                .collect(),
            resource_version: list.resource_version,
            continue_token: list.continue_token,
        })
    }
}

/// Returns the key and the digest of an item of upstream's list.
fn listed_item(item: &[u8], store: &Store) -> (String, Digest) {
    let parsed = StoredObject::parse(Bytes::copy_from_slice(item), &store.resource.fields);
    let key = parsed.map_or_else(|_| "unusable".to_owned(), |o| o.key.as_str().to_owned());
    (key, Digest::from_contents(item))
}

/// Returns the first difference, in the order of lists.
fn difference(
    state: &Snapshot,
    listed: &[(String, Digest)],
    envelope: &Envelope,
) -> Option<Difference> {
    let mut listed = listed.iter();
    let mut cached = state.iter(&KeyScope::All);
    loop {
        let ours = cached.next().map(|o| {
            // An object that cannot be written equals nothing.
            let item = o.json(envelope).unwrap_or_default();
            (o.key.as_str(), Digest::from_contents(&item))
        });
        let theirs = listed.next().map(|(key, digest)| (key.as_str(), *digest));
        if ours == theirs && ours.is_some() {
            continue;
        }
        // The smaller of the two keys is missing on the other side.
        let key = match (ours, theirs) {
            (Some((a, _)), Some((b, _))) => a.min(b),
            (Some((key, _)), None) | (None, Some((key, _))) => key,
            (None, None) => return None,
        };
        let of_key = |side: Option<(&str, Digest)>| {
            let side = side.filter(|(k, _)| *k == key);
            side.map(|(_, digest)| digest)
        };
        return Some(Difference {
            key: key.to_owned(),
            cached: of_key(ours),
            upstream: of_key(theirs),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use crate::store::{Resource, field_table};
    use kubernetes_wire::representation::{Envelope, Form};

    use super::*;

    fn item(name: &str, data: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"a","uid":"u","resourceVersion":"1"}},"data":{{"k":"{data}"}}}}"#
        )
    }

    fn store(items: &[String]) -> Arc<Store> {
        let gvr = GroupVersionResource::new("", "v1", "configmaps");
        let resource = Resource {
            gvr: gvr.clone(),
            namespaced: true,
            envelope: Envelope::new(Form::Struct, "v1", "ConfigMap", "ConfigMapList"),
            fields: field_table(&gvr),
            bookmark: OnceLock::new(),
        };
        let parse = |item: &String| {
            StoredObject::parse(Bytes::from(item.clone()), &resource.fields).unwrap()
        };
        let objects = items.iter().map(parse).collect();
        Store::new(resource, objects, 5).1
    }

    #[test]
    fn the_first_difference_is_found() {
        let (a, b, c) = (item("a", "1"), item("b", "1"), item("c", "1"));
        let other = item("b", "2");
        let all = [a.clone(), b.clone(), c.clone()];
        for (listed, expected) in [
            (vec![&a, &b, &c], None),
            (vec![&a, &other, &c], Some(("a/b", true, true))),
            (vec![&a, &c], Some(("a/b", true, false))),
            (vec![&a, &b], Some(("a/c", true, false))),
            (vec![&b, &a, &c], Some(("a/a", true, false))),
        ] {
            let store = store(&all);
            let listed: Vec<_> = listed
                .iter()
                .map(|item| listed_item(item.as_bytes(), &store))
                .collect();
            let found = difference(&store.snapshot(), &listed, &store.resource.envelope);
            let found = found
                .as_ref()
                .map(|d| (d.key.as_str(), d.cached.is_some(), d.upstream.is_some()));
            assert_eq!(found, expected);
        }
        let store = store(&all[..2]);
        let listed: Vec<_> = all
            .iter()
            .map(|item| listed_item(item.as_bytes(), &store))
            .collect();
        let found = difference(&store.snapshot(), &listed, &store.resource.envelope).unwrap();
        assert_eq!((found.key.as_str(), found.cached), ("a/c", None));
    }

    /// A short value could be guessed from its SHA-256, and a parser's message may
    /// quote contents.
    #[test]
    fn messages_hold_no_contents_and_nothing_to_guess_them_from() {
        let gvr = GroupVersionResource::new("", "v1", "configmaps");
        let key = FingerprintKey::random().unwrap();
        let (ours, theirs) = (item("a", "1"), item("a", "2"));
        let store = store(std::slice::from_ref(&ours));
        let listed = [listed_item(theirs.as_bytes(), &store)];
        let found = difference(&store.snapshot(), &listed, &store.resource.envelope);
        let message = |compared| judge(&gvr, &store.snapshot(), compared, &key).message;
        let differs = message(Ok(found));
        let fingerprint = |text: &str| key.fingerprint(&Digest::from_contents(text.as_bytes()));
        let (ours, theirs) = (fingerprint(&ours), fingerprint(&theirs));
        assert_eq!(differs, format!("{ours:?} cached, {theirs:?} upstream"));
        let junk = List::from_json(br#"{"metadata":"secret","items":[]}"#, 9);
        let skipped = message(Err(junk.map(drop).unwrap_err().into()));
        assert!(!skipped.contains("secret"), "{skipped}");
    }

    #[tokio::test]
    async fn what_takes_long_is_done_elsewhere() {
        let here = std::thread::current().id();
        let there = aside(|| std::thread::current().id()).await.unwrap();
        assert_ne!(here, there);
    }
}
