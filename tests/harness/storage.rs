//! The store of the kube-apiserver under the suites.

use std::sync::OnceLock;

/// The environment variable that names the store: `etcd`, or `kine`, which keeps the
/// data in sqlite, as k3s does.
pub const STORAGE: &str = "APIFRONT_TEST_STORAGE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Etcd,
    Kine,
}

impl Storage {
    pub fn under_test() -> Self {
        static STORE: OnceLock<Storage> = OnceLock::new();
        *STORE.get_or_init(|| match std::env::var(STORAGE).as_deref() {
            Ok("kine") => Self::Kine,
            Ok("etcd") | Err(_) => Self::Etcd,
            Ok(other) => panic!("{STORAGE}={other}: neither etcd nor kine"),
        })
    }
}
