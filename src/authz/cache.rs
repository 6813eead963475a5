//! Decisions remembered, by who asked what.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use moka::policy::EvictionPolicy;
use sha2::{Digest, Sha256};

use crate::api::{Attributes, UserInfo};

use super::{AuthzSettings, Decision, Verdict};

/// Decisions kept, as in the API server's webhook authorizer. The least
/// recently used goes first.
const MAX_DECISIONS: u64 = 8192;

/// Attributes are chosen by the caller. Longer ones are asked about every
/// time: the API server's `maxControlledAttrCacheSize`.
const MAX_CACHED_ATTRIBUTES_BYTES: usize = 10_000;

/// A digest, so that an entry's size is fixed whatever a caller sends.
pub type Key = [u8; 32];

#[derive(Clone)]
pub struct Entry {
    pub verdict: Arc<Verdict>,
    ttl: Duration,
}

struct ByEntry;

impl<K> Expiry<K, Entry> for ByEntry {
    fn expire_after_create(&self, _: &K, entry: &Entry, _: Instant) -> Option<Duration> {
        Some(entry.ttl)
    }
}

impl Entry {
    pub fn new(verdict: Arc<Verdict>, settings: AuthzSettings) -> Self {
        let ttl = match verdict.decision {
            Decision::Allow => settings.allow_ttl,
            Decision::Deny | Decision::NoOpinion => settings.deny_ttl,
        };
        Self { verdict, ttl }
    }

    /// For as long as a decision that allowed is believed when upstream is lost
    /// at the end of its time.
    pub fn through_an_outage(verdict: Arc<Verdict>, settings: AuthzSettings) -> Self {
        Self {
            verdict,
            ttl: settings.allow_ttl.saturating_add(settings.outage),
        }
    }
}

pub fn new() -> Cache<Key, Entry> {
    Cache::builder()
        .max_capacity(MAX_DECISIONS)
        .eviction_policy(EvictionPolicy::lru())
        .expire_after(ByEntry)
        .build()
}

/// `None` for what is not to be cached.
pub fn key(user: &UserInfo, attributes: &Attributes) -> Option<Key> {
    let parts = parts(attributes);
    if parts.iter().map(|p| p.len()).sum::<usize>() >= MAX_CACHED_ATTRIBUTES_BYTES {
        return None;
    }
    let mut digest = Parts::default();
    digest.strings(&parts);
    digest.strings(&[&user.name, &user.uid]);
    digest.strings(&user.groups);
    digest.number(user.extra.len());
    for (key, values) in &user.extra {
        digest.strings(&[key]);
        digest.strings(values);
    }
    Some(digest.0.finalize().into())
}

fn parts(attributes: &Attributes) -> Vec<&str> {
    match attributes {
        Attributes::NonResource { verb, path } => vec![verb, path],
        Attributes::Resource {
            verb,
            gvr,
            namespace,
            name,
            subresource,
            field_selector,
            label_selector,
        } => vec![
            verb,
            &gvr.group,
            &gvr.version,
            &gvr.resource,
            namespace,
            name,
            subresource,
            field_selector,
            label_selector,
        ],
    }
}

/// Every string with its length, every list with its count: no two different
/// questions have the same bytes.
#[derive(Default)]
struct Parts(Sha256);

impl Parts {
    fn number(&mut self, n: usize) {
        self.0.update((n as u64).to_be_bytes());
    }

    fn strings<S: AsRef<str>>(&mut self, strings: &[S]) {
        self.number(strings.len());
        for string in strings {
            self.number(string.as_ref().len());
            self.0.update(string.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> Attributes {
        Attributes::NonResource {
            verb: "get".into(),
            path: path.into(),
        }
    }

    #[test]
    fn no_two_questions_share_a_key() {
        let user = |name: &str, uid: &str, groups: &[&str], extra: &[(&str, &str)]| UserInfo {
            name: name.into(),
            uid: uid.into(),
            groups: groups.iter().map(|g| g.to_string()).collect(),
            extra: extra
                .iter()
                .map(|(k, v)| (k.to_string(), vec![v.to_string()]))
                .collect(),
        };
        let keys: std::collections::HashSet<_> = [
            key(&user("ab", "", &[], &[]), &path("/x")),
            key(&user("a", "b", &[], &[]), &path("/x")),
            key(&user("a", "", &["b"], &[]), &path("/x")),
            key(&user("a", "", &["b", "c"], &[]), &path("/x")),
            key(&user("a", "", &["bc"], &[]), &path("/x")),
            key(&user("a", "", &["b"], &[("c", "d")]), &path("/x")),
            key(&user("a", "", &["b"], &[("c", "e")]), &path("/x")),
            key(&user("a", "", &[], &[]), &path("/y")),
        ]
        .into_iter()
        .collect();
        assert_eq!(keys.len(), 8);
        let long = "x".repeat(MAX_CACHED_ATTRIBUTES_BYTES);
        assert_eq!(key(&UserInfo::default(), &path(&long)), None);
    }
}
