//! Reads what a cluster has stored, and stores it again later or in another etcd.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::etcd::Etcd;
use super::pace;

const ROOT: &str = "/registry/";
/// The operations in one transaction. etcd takes at most 128.
const AT_ONCE: usize = 100;
/// The keys that kube-apiserver writes on its own, all the time.
const ITS_OWN: [&str; 4] = [
    "events/default/",
    "events/kube-system/",
    "leases/kube-system/",
    "masterleases/",
];

/// The keys that hold the rights of users.
pub(crate) const RBAC: [&str; 4] = [
    "clusterrolebindings/",
    "clusterroles/",
    "rolebindings/",
    "roles/",
];

/// Stored values by key. The keys lack the prefix that all of them share.
pub(crate) struct Contents(BTreeMap<String, Stored>);

#[derive(Clone, PartialEq)]
struct Stored {
    /// In base64.
    value: String,
    /// The revision of its last write.
    revision: String,
}

impl Contents {
    /// Reads the contents once kube-apiserver has written everything that it writes
    /// after its start.
    pub(crate) async fn settled(etcd: &Etcd) -> Self {
        let mut before = Self::read(etcd, false).await;
        loop {
            pace::of_tries(Duration::from_millis(100)).await;
            let now = Self::read(etcd, false).await;
            let namespaces = now.0.keys().filter(|k| k.starts_with("namespaces/"));
            if before.0 == now.0 && namespaces.count() >= 4 {
                return now;
            }
            before = now;
        }
    }

    async fn read(etcd: &Etcd, only_keys: bool) -> Self {
        let answer = etcd.range(ROOT, only_keys).await;
        let stored = answer["kvs"].as_array().into_iter().flatten().map(|kv| {
            let key = STANDARD.decode(text(&kv["key"])).expect("base64");
            let key = String::from_utf8(key).expect("a key");
            let key = key.strip_prefix(ROOT).expect("the prefix").to_owned();
            let stored = Stored {
                value: text(&kv["value"]),
                revision: text(&kv["mod_revision"]),
            };
            (key, stored)
        });
        Self(
            stored
                .filter(|(key, _)| !ITS_OWN.iter().any(|own| key.starts_with(own)))
                .collect(),
        )
    }

    /// Returns the stored roles and bindings.
    pub(crate) async fn roles(etcd: &Etcd) -> Self {
        let mut all = Self::read(etcd, false).await;
        all.0
            .retain(|key, _| RBAC.iter().any(|resource| key.starts_with(resource)));
        all
    }

    pub(crate) async fn copy_to(&self, etcd: &Etcd) {
        let keys: Vec<String> = self.0.keys().cloned().collect();
        Self(self.0.clone()).restore(etcd, &keys).await;
    }

    /// Returns the keys that were written or deleted since the contents were read.
    pub(crate) async fn changed(&self, etcd: &Etcd) -> Vec<String> {
        let now = Self::read(etcd, true).await;
        let revision = |contents: &Self, key: &String| {
            let stored = contents.0.get(key);
            stored.map(|stored| stored.revision.clone())
        };
        let keys = self
            .0
            .keys()
            .chain(now.0.keys().filter(|k| !self.0.contains_key(*k)));
        keys.filter(|key| revision(self, key) != revision(&now, key))
            .cloned()
            .collect()
    }

    /// Restores the values of these keys.
    pub(crate) async fn restore(&mut self, etcd: &Etcd, keys: &[String]) {
        for keys in keys.chunks(AT_ONCE) {
            let operations = keys.iter().map(|key| {
                let encoded = STANDARD.encode(format!("{ROOT}{key}"));
                match self.0.get(key) {
                    Some(stored) => json!({
                        "request_put": { "key": encoded, "value": stored.value },
                    }),
                    None => json!({ "request_delete_range": { "key": encoded } }),
                }
            });
            let revision = etcd.transaction(operations.collect()).await;
            for key in keys {
                if let Some(stored) = self.0.get_mut(key) {
                    stored.revision = revision.clone();
                }
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
