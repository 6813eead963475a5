//! The versions that each caller wrote through apifront lately. The caller's
//! later reads show these writes in every consistency mode.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubernetes_wire::api::{GroupVersionResource, UserInfo};
use parking_lot::Mutex;

/// The least time that a write is remembered. A store that has not received the
/// write by then has lost upstream, and is not proven fresh anyway.
const WRITE_TTL: Duration = Duration::from_secs(60);

/// If the answer to a write did not tell its version, upstream answers the
/// caller's reads for this time. That is long enough, since the main watch is
/// late by milliseconds only.
const UNTOLD_TTL: Duration = Duration::from_secs(10);

/// The most entries, each of a caller and a resource, in each of the two
/// generations. An entry is 64 bytes. At the bound the older generation is
/// forgotten early.
const MAX_REMEMBERED: usize = 65_536;

/// The writes that a caller's read of a resource must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWrite {
    Nothing,
    /// All writes up to this version.
    Version(u64),
    /// A write of unknown version.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    version: u64,
    /// The number of writes whose answers are on their way to the caller.
    open: u32,
    untold_until: Option<Instant>,
}

/// Two generations of writes. The older one is dropped when the newer one is as
/// old as [`WRITE_TTL`].
#[derive(Debug)]
struct Generations {
    newer: HashMap<u64, Writes>,
    older: HashMap<u64, Writes>,
    began: Instant,
}

pub struct OwnWrites {
    generations: Mutex<Generations>,
    /// Hashes the caller. If two callers have the same hash, they wait for each
    /// other's writes, which does no harm.
    hasher: RandomState,
}

impl OwnWrites {
    pub fn new(now: Instant) -> Self {
        Self {
            generations: Mutex::new(Generations {
                newer: HashMap::new(),
                older: HashMap::new(),
                began: now,
            }),
            hasher: RandomState::new(),
        }
    }

    /// Notes that a write has succeeded and its answer is about to be passed
    /// on. Until the result is dropped, the version for the caller's reads is
    /// unknown.
    pub fn begin(
        self: &Arc<Self>,
        user: Option<&UserInfo>,
        gvr: &GroupVersionResource,
        now: Instant,
    ) -> OpenWrite {
        let key = self.key(user, gvr);
        self.change(key, now, |writes| {
            writes.open = writes.open.saturating_add(1);
        });
        OpenWrite {
            writes: self.clone(),
            key,
            version: None,
        }
    }

    pub fn wrote(
        &self,
        user: Option<&UserInfo>,
        gvr: &GroupVersionResource,
        now: Instant,
    ) -> LastWrite {
        let key = self.key(user, gvr);
        let generations = self.generations.lock();
        let both = [&generations.newer, &generations.older];
        let found: Vec<Writes> = both.iter().filter_map(|g| g.get(&key)).copied().collect();
        let untold = |w: &Writes| w.open > 0 || w.untold_until.is_some_and(|until| until > now);
        if found.iter().any(untold) {
            return LastWrite::Unknown;
        }
        match found.iter().map(|w| w.version).max() {
            None | Some(0) => LastWrite::Nothing,
            Some(version) => LastWrite::Version(version),
        }
    }

    /// Returns the hash of a caller and a resource. The API versions of a
    /// resource show the same objects, so they share a key.
    fn key(&self, user: Option<&UserInfo>, gvr: &GroupVersionResource) -> u64 {
        let user = user.map(|u| (&u.name, &u.uid));
        self.hasher.hash_one((user, &gvr.group, &gvr.resource))
    }

    fn change(&self, key: u64, now: Instant, change: impl FnOnce(&mut Writes)) {
        let mut generations = self.generations.lock();
        let age = now.saturating_duration_since(generations.began);
        let full =
            generations.newer.len() >= MAX_REMEMBERED && !generations.newer.contains_key(&key);
        if age >= WRITE_TTL || full {
            generations.older = std::mem::take(&mut generations.newer);
            generations.began = now;
        }
        // Writes of the older generation move to the newer one.
        let before = generations.older.remove(&key);
        let writes = generations.newer.entry(key).or_default();
        if let Some(before) = before {
            writes.version = writes.version.max(before.version);
            writes.open = writes.open.saturating_add(before.open);
            writes.untold_until = writes.untold_until.max(before.untold_until);
        }
        change(writes);
    }
}

/// A write whose answer is on its way.
pub struct OpenWrite {
    writes: Arc<OwnWrites>,
    key: u64,
    version: Option<u64>,
}

impl OpenWrite {
    /// Ends the write with the version in its answer. `None` if the answer does
    /// not tell it.
    pub fn close(mut self, version: Option<u64>) {
        self.version = version;
    }
}

impl Drop for OpenWrite {
    /// Notes the write's version. A write whose answer broke off was carried
    /// out, too.
    fn drop(&mut self) {
        let now = Instant::now();
        let version = self.version;
        self.writes.change(self.key, now, |writes| {
            writes.open = writes.open.saturating_sub(1);
            match version {
                Some(version) => writes.version = writes.version.max(version),
                None => writes.untold_until = now.checked_add(UNTOLD_TTL),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserInfo {
        UserInfo {
            name: name.to_owned(),
            ..UserInfo::default()
        }
    }

    fn gvr(version: &str, resource: &str) -> GroupVersionResource {
        GroupVersionResource::new("apps", version, resource)
    }

    #[test]
    fn a_caller_waits_for_its_own_writes_alone() {
        let now = Instant::now();
        let writes = Arc::new(OwnWrites::new(now));
        let (jane, joe) = (user("jane"), user("joe"));
        let deployments = gvr("v1", "deployments");
        let wrote = |who: Option<&UserInfo>, what| writes.wrote(who, &what, Instant::now());

        let open = writes.begin(Some(&jane), &deployments, now);
        assert_eq!(
            wrote(Some(&jane), gvr("v1", "deployments")),
            LastWrite::Unknown
        );
        open.close(Some(7));
        writes.begin(Some(&jane), &deployments, now).close(Some(5));
        for (who, what, expected) in [
            (Some(&jane), gvr("v1", "deployments"), LastWrite::Version(7)),
            (
                Some(&jane),
                gvr("v1beta1", "deployments"),
                LastWrite::Version(7),
            ),
            (Some(&jane), gvr("v1", "daemonsets"), LastWrite::Nothing),
            (Some(&joe), gvr("v1", "deployments"), LastWrite::Nothing),
            (None, gvr("v1", "deployments"), LastWrite::Nothing),
        ] {
            assert_eq!(wrote(who, what.clone()), expected, "{who:?} {what}");
        }
        writes.begin(None, &deployments, now).close(Some(9));
        assert_eq!(wrote(None, deployments), LastWrite::Version(9));
    }

    #[test]
    fn what_has_no_version_is_asked_for_a_while() {
        let now = Instant::now();
        let writes = Arc::new(OwnWrites::new(now));
        let pods = gvr("v1", "pods");
        writes.begin(None, &pods, now).close(Some(7));
        writes.begin(None, &pods, now).close(None);
        drop(writes.begin(None, &pods, now));
        let wrote = |after| writes.wrote(None, &pods, Instant::now() + after);
        assert_eq!(wrote(Duration::ZERO), LastWrite::Unknown);
        assert_eq!(wrote(UNTOLD_TTL), LastWrite::Version(7));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let now = Instant::now();
        let writes = Arc::new(OwnWrites::new(now));
        let name = |n: usize| gvr("v1", &n.to_string());
        writes.change(writes.key(None, &name(0)), now, |w| w.version = 1);
        for n in 1..=MAX_REMEMBERED {
            writes.change(writes.key(None, &name(n)), now, |w| w.version = 2);
        }
        assert_eq!(writes.wrote(None, &name(0), now), LastWrite::Version(1));
        for n in 1..=2 * MAX_REMEMBERED {
            writes.change(writes.key(None, &name(n)), now, |w| w.version = 3);
        }
        assert_eq!(writes.wrote(None, &name(0), now), LastWrite::Nothing);
        assert!(writes.generations.lock().newer.len() <= MAX_REMEMBERED);
        // Entries are also forgotten after some time.
        let last = 2 * MAX_REMEMBERED;
        for rounds in 1..=2 {
            let later = now + WRITE_TTL * rounds;
            writes.change(1, later, |_| {});
        }
        let later = now + WRITE_TTL * 2;
        assert_eq!(writes.wrote(None, &name(last), later), LastWrite::Nothing);
    }
}
