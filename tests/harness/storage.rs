//! The store behind the kube-apiserver that the suites run before.

use std::sync::OnceLock;

/// The environment variable that names the store: `etcd`, or `kine`, which
/// keeps in sqlite what k3s stores.
pub const STORAGE: &str = "APIFRONT_TEST_STORAGE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Etcd,
    Kine,
}

impl Storage {
    /// Returns the store that [`STORAGE`] names, or etcd.
    pub fn under_test() -> Self {
        static STORE: OnceLock<Storage> = OnceLock::new();
        *STORE.get_or_init(|| match std::env::var(STORAGE).as_deref() {
            Ok("kine") => Self::Kine,
            Ok("etcd") | Err(_) => Self::Etcd,
            Ok(other) => panic!("{STORAGE}={other}: neither etcd nor kine"),
        })
    }
}
