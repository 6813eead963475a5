//! The roles and bindings that kube-apiserver writes, one by one, into an etcd
//! without them. That is a fifth of the cost of its start. They are the same in all
//! clusters, so the later clusters of a process get them before their API servers
//! start.

use std::sync::OnceLock;

use super::contents::Contents;
use super::etcd::Etcd;
use super::storage::Storage;

static KNOWN: OnceLock<Contents> = OnceLock::new();

/// Tells whether an API server with these flags writes the same roles as one without
/// flags, and the store can take them. Some roles belong to features that a gate
/// switches on, and kine does not know the transactions that store roles.
fn are_usual(flags: &[String]) -> bool {
    let has_gates = flags.iter().any(|f| f.starts_with("--feature-gates"));
    !has_gates && Storage::under_test() == Storage::Etcd
}

/// Stores the roles, if they are known, in an etcd that nobody uses yet.
pub(crate) async fn give(etcd: &mut Etcd, flags: &[String]) {
    if let (true, Some(roles)) = (are_usual(flags), KNOWN.get()) {
        etcd.wait_ready().await;
        roles.copy_to(etcd).await;
    }
}

/// Remembers the roles of a cluster that has just become ready. kube-apiserver is
/// ready when it has written them.
pub(crate) async fn learn(etcd: &Etcd, flags: &[String]) {
    if are_usual(flags) && KNOWN.get().is_none() {
        // Clusters that start at the same time learn the same roles.
        let _ = KNOWN.set(Contents::roles(etcd).await);
    }
}
