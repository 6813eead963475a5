//! A watch from a version that is older than the store's history: it gets its events from
//! upstream, is forwarded, or is answered with 410.

use std::time::Instant;

use apifront_watch_cache::reflector::{NoEarlierEvents, WantedEvents};
use apifront_watch_cache::store::{Evicted, Store};
use kubernetes_wire::api::{ListOptions, Status};

use super::located::Located;
use super::sharded;
use super::watch::Start;
use crate::flow::Admitted;
use crate::server::stage::{Granted, seats};

/// Returns how a watch from a version begins. Asks upstream for the events before
/// the store's history, if there may be any. Upstream counts and queues the question
/// itself, and a herd that returns after a restart waits for few questions: with
/// seats held meanwhile, most of it would be refused.
pub(super) async fn after(
    granted: &Granted,
    located: &Located<'_>,
    options: &ListOptions,
    version: u64,
    seats: Option<&mut Admitted>,
) -> Start {
    let Located {
        entry,
        store,
        scope,
    } = located;
    let namespace = scope.namespace;
    let forwards = !sharded::is_kept(granted);
    let evicted = store.begin(version).err();
    if evicted.is_none_or(|evicted| evicted.within_resync) {
        return Start::Version { version, forwards };
    }
    if let Some(version) = unchanged_since(namespace, options, version, store) {
        return Start::Version { version, forwards };
    }
    let asked = Instant::now();
    let cache = &granted.generation().cache;
    let earlier = match wanted_earlier(granted, namespace, options, version) {
        Some(wanted) => {
            if let Some(seats) = seats {
                seats::give_back(seats);
            }
            cache.earlier_events(entry, store, wanted).await
        }
        None => Err(NoEarlierEvents::Untold),
    };
    match earlier {
        Ok(earlier) => Start::Earlier(earlier, asked.elapsed()),
        Err(NoEarlierEvents::Untold) => Start::Version { version, forwards },
        // Forwarded, a herd that returns after a restart would stay upstream for
        // minutes. Told to list again, it is served from memory.
        Err(NoEarlierEvents::NoPlace) => Start::Version {
            version,
            forwards: false,
        },
    }
}

/// Returns the 410 for a version that is not known any more.
pub(super) fn too_old(version: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {version} ({oldest})"))
}

/// Returns the 410 for a watch after a version whose next events are not known. The watch
/// is forwarded instead if there is none.
///
/// Within a resync, upstream may still have a version. But its next events would not
/// follow from those that were sent here. For example, they could change an object whose
/// creation was never sent, or delete an object twice.
pub(super) fn refusal(version: u64, forwards: bool, evicted: Evicted) -> Option<Status> {
    let tells = evicted.within_resync || !forwards;
    tells.then(|| too_old(version, evicted.oldest))
}

/// Returns the store's version if it is known that nothing has happened since `version`,
/// which is before the store's history and not within a resync. This is so for a watch of
/// one object that exists and was last written before, such as a kubelet's watch of a
/// Secret.
fn unchanged_since(
    namespace: &str,
    options: &ListOptions,
    version: u64,
    store: &Store,
) -> Option<u64> {
    let name = options.field_selector.required("metadata.name")?;
    let is_one = store.resource.namespaced != namespace.is_empty();
    if !is_one {
        return None;
    }
    let snapshot = store.snapshot();
    let written = snapshot.get(namespace, name)?.resource_version;
    (written <= version).then_some(snapshot.resource_version)
}

/// The shortest watch, in seconds, for which upstream is asked for the events before
/// the store's history. Asking takes seconds.
const ASKS_FOR_EARLIER: i64 = 30;

/// Returns the events to ask upstream for, for a watch that begins before the store's
/// history. Returns `None` if the watch is not worth the question.
fn wanted_earlier<'a>(
    granted: &'a Granted,
    namespace: &'a str,
    options: &ListOptions,
    version: u64,
) -> Option<WantedEvents<'a>> {
    let is_long = options
        .timeout_seconds
        .is_none_or(|s| s == 0 || s >= ASKS_FOR_EARLIER);
    let is_plain = options.shard_selector.is_none() && !granted.info().is_verb_via_path();
    let query = granted.query();
    (is_long && is_plain).then_some(WantedEvents {
        caller: granted.user().map(|user| user.name.as_str()),
        namespace,
        label_selector: query.get("labelSelector"),
        field_selector: query.get("fieldSelector"),
        after: version,
    })
}
