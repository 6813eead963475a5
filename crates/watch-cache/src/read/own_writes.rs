//! What each caller wrote through apifront lately: its later reads show it,
//! whatever the consistency mode.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubernetes_wire::api::{GroupVersionResource, UserInfo};
use parking_lot::Mutex;

/// How long a write is remembered at least. A store that is not there by then
/// has lost upstream, and proves nothing fresh anyway.
const REMEMBERED: Duration = Duration::from_secs(60);

/// For how long a caller's reads are answered upstream's way after a write
/// whose version its answer did not tell. The main watch is late by
/// milliseconds.
const UNTOLD: Duration = Duration::from_secs(10);

/// Callers and resources remembered, of each of two generations; an entry is
/// 64 bytes. At the bound the older generation is forgotten early.
const MAX_REMEMBERED: usize = 65_536;

/// What a caller's read of a resource must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    Nothing,
    /// Everything up to this version.
    Version(u64),
    /// Something that has no known version.
    Untold,
}

#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    version: u64,
    /// Writes whose answer is on its way to the caller.
    open: u32,
    untold_until: Option<Instant>,
}

/// Two generations: the older one is dropped when the newer one is as old as
/// [`REMEMBERED`].
#[derive(Debug)]
struct Generations {
    newer: HashMap<u64, Writes>,
    older: HashMap<u64, Writes>,
    began: Instant,
}

pub struct OwnWrites {
    generations: Mutex<Generations>,
    /// Callers are known by a hash of who they are: two that share one wait for
    /// each other's writes, which is no harm.
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

    /// A write has succeeded, and its answer is about to be passed on. Until
    /// the result is dropped, the caller's reads know no version to wait for.
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
    ) -> Wrote {
        let key = self.key(user, gvr);
        let generations = self.generations.lock();
        let both = [&generations.newer, &generations.older];
        let found: Vec<Writes> = both.iter().filter_map(|g| g.get(&key)).copied().collect();
        let untold = |w: &Writes| w.open > 0 || w.untold_until.is_some_and(|until| until > now);
        if found.iter().any(untold) {
            return Wrote::Untold;
        }
        match found.iter().map(|w| w.version).max() {
            None | Some(0) => Wrote::Nothing,
            Some(version) => Wrote::Version(version),
        }
    }

    /// Versions of a resource's API are different views of the same objects.
    fn key(&self, user: Option<&UserInfo>, gvr: &GroupVersionResource) -> u64 {
        let user = user.map(|u| (&u.name, &u.uid));
        self.hasher.hash_one((user, &gvr.group, &gvr.resource))
    }

    fn change(&self, key: u64, now: Instant, change: impl FnOnce(&mut Writes)) {
        let mut generations = self.generations.lock();
        let age = now.saturating_duration_since(generations.began);
        let full =
            generations.newer.len() >= MAX_REMEMBERED && !generations.newer.contains_key(&key);
        if age >= REMEMBERED || full {
            generations.older = std::mem::take(&mut generations.newer);
            generations.began = now;
        }
        // What is still on its way moves along.
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
    /// The answer tells the version. `None` if it does not.
    pub fn close(mut self, version: Option<u64>) {
        self.version = version;
    }
}

impl Drop for OpenWrite {
    /// Answers that break off have been carried out nevertheless.
    fn drop(&mut self) {
        let now = Instant::now();
        let version = self.version;
        self.writes.change(self.key, now, |writes| {
            writes.open = writes.open.saturating_sub(1);
            match version {
                Some(version) => writes.version = writes.version.max(version),
                None => writes.untold_until = now.checked_add(UNTOLD),
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
        assert_eq!(wrote(Some(&jane), gvr("v1", "deployments")), Wrote::Untold);
        open.close(Some(7));
        writes.begin(Some(&jane), &deployments, now).close(Some(5));
        for (who, what, expected) in [
            (Some(&jane), gvr("v1", "deployments"), Wrote::Version(7)),
            (
                Some(&jane),
                gvr("v1beta1", "deployments"),
                Wrote::Version(7),
            ),
            (Some(&jane), gvr("v1", "daemonsets"), Wrote::Nothing),
            (Some(&joe), gvr("v1", "deployments"), Wrote::Nothing),
            (None, gvr("v1", "deployments"), Wrote::Nothing),
        ] {
            assert_eq!(wrote(who, what.clone()), expected, "{who:?} {what}");
        }
        writes.begin(None, &deployments, now).close(Some(9));
        assert_eq!(wrote(None, deployments), Wrote::Version(9));
    }

    #[test]
    fn what_has_no_version_is_asked_for_a_while() {
        let now = Instant::now();
        let writes = Arc::new(OwnWrites::new(now));
        let pods = gvr("v1", "pods");
        writes.begin(None, &pods, now).close(Some(7));
        writes.begin(None, &pods, now).close(None);
        // An answer that broke off.
        drop(writes.begin(None, &pods, now));
        let wrote = |after| writes.wrote(None, &pods, Instant::now() + after);
        assert_eq!(wrote(Duration::ZERO), Wrote::Untold);
        assert_eq!(wrote(UNTOLD), Wrote::Version(7));
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
        assert_eq!(writes.wrote(None, &name(0), now), Wrote::Version(1));
        for n in 1..=2 * MAX_REMEMBERED {
            writes.change(writes.key(None, &name(n)), now, |w| w.version = 3);
        }
        assert_eq!(writes.wrote(None, &name(0), now), Wrote::Nothing);
        assert!(writes.generations.lock().newer.len() <= MAX_REMEMBERED);
        // And in time.
        let last = 2 * MAX_REMEMBERED;
        for rounds in 1..=2 {
            let later = now + REMEMBERED * rounds;
            writes.change(1, later, |_| {});
        }
        let later = now + REMEMBERED * 2;
        assert_eq!(writes.wrote(None, &name(last), later), Wrote::Nothing);
    }
}
