//! The roots of all servers merged into one, and the server that owns each key's
//! document.
//!
//! A backend's group version hides upstream's of the same name. Among a backend's
//! other keys, only the key of its group is shown, and only if upstream has no such group.
//! kube-aggregator shows all other keys: if two servers have the key `version`, it
//! shows the one that it reads last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::document::Document;
use super::root::{self, Key, Root};
use super::server::Server;
use super::shown_apis::ShownApis;

pub(super) struct MergedRoot {
    shown: Arc<ShownApis>,
    upstream: Arc<Root>,
    backends: Vec<Option<Arc<Root>>>,
    pub bytes: Bytes,
    owners: BTreeMap<String, Owner>,
}

#[derive(Clone)]
pub(super) struct Owner {
    pub server: Arc<Server>,
    /// The document's hash in that server's root.
    pub hash: Option<String>,
    /// The document that was converted from v2, if the server has only v2.
    pub converted: Option<Arc<Document>>,
}

impl MergedRoot {
    /// `backends` are the roots of the shown backends, in order.
    pub(super) fn new(
        main: &Arc<Server>,
        shown: Arc<ShownApis>,
        upstream: Arc<Root>,
        backends: Vec<Option<Arc<Root>>>,
    ) -> Self {
        let mut paths = BTreeMap::new();
        let mut owners = BTreeMap::new();
        let groups = Groups::from_root(&upstream, &shown);
        for (key, url) in &upstream.paths {
            if groups.shows(key, &shown) {
                paths.insert(key.clone(), url.clone());
                owners.insert(key.clone(), owner(main, &upstream, key));
            }
        }
        for (index, version) in shown.in_order() {
            let backend = shown.backends.get(index);
            let root = backends.get(index).and_then(Option::as_ref);
            let Some((backend, root)) = backend.zip(root) else {
                continue;
            };
            if let Some(converted) = &root.converted {
                let key = root::key_of(version);
                let owner = Owner {
                    server: backend.server.clone(),
                    hash: converted.v3.hash().map(str::to_owned),
                    converted: Some(converted.v3.clone()),
                };
                paths.insert(key.clone(), root::url(&key, owner.hash.as_deref()));
                owners.insert(key, owner);
                continue;
            }
            let group = format!("apis/{}", version.group);
            for key in [root::key_of(version), group] {
                if root.paths.contains_key(&key) && !paths.contains_key(&key) {
                    let owner = owner(&backend.server, root, &key);
                    paths.insert(key.clone(), root::url(&key, owner.hash.as_deref()));
                    owners.insert(key, owner);
                }
            }
        }
        let bytes = if shown.is_plain() {
            upstream.bytes.clone()
        } else {
            root::write(paths)
        };
        Self {
            shown,
            upstream,
            backends,
            bytes,
            owners,
        }
    }

    /// Tells whether the merged root was made from exactly these parts.
    pub(super) fn is_of(
        &self,
        shown: &Arc<ShownApis>,
        upstream: &Arc<Root>,
        backends: &[Option<Arc<Root>>],
    ) -> bool {
        let same = |a: &Option<Arc<Root>>, b: &Option<Arc<Root>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        Arc::ptr_eq(&self.shown, shown)
            && Arc::ptr_eq(&self.upstream, upstream)
            && self.backends.len() == backends.len()
            && self.backends.iter().zip(backends).all(|(a, b)| same(a, b))
    }

    pub(super) fn shown(&self) -> &Arc<ShownApis> {
        &self.shown
    }

    pub(super) fn owner(&self, key: &str) -> Option<&Owner> {
        self.owners.get(key)
    }
}

fn owner(server: &Arc<Server>, root: &Root, key: &str) -> Owner {
    Owner {
        server: server.clone(),
        hash: root.hash(key).map(str::to_owned),
        converted: None,
    }
}

/// The groups of upstream's root. They show which groups have no enabled version
/// left.
struct Groups {
    versioned: BTreeSet<String>,
    enabled: BTreeSet<String>,
}

impl Groups {
    fn from_root(root: &Root, shown: &ShownApis) -> Self {
        let versions = || {
            root.paths.keys().filter_map(|key| match Key::parse(key) {
                Key::Version(version) => Some(version),
                Key::Group(_) | Key::Other => None,
            })
        };
        let enabled = versions().filter(|version| shown.runtime.is_enabled(version));
        Self {
            versioned: versions().map(|v| v.group).collect(),
            enabled: enabled.map(|v| v.group).collect(),
        }
    }

    fn shows(&self, key: &str, shown: &ShownApis) -> bool {
        match Key::parse(key) {
            Key::Version(version) => {
                shown.runtime.is_enabled(&version) && !shown.is_backends(&version)
            }
            Key::Group(group) => !self.versioned.contains(&group) || self.enabled.contains(&group),
            Key::Other => true,
        }
    }
}
