//! The feature gates of the kube-apiserver under the suites.

use std::sync::OnceLock;

/// The environment variable for kube-apiserver's feature gates. The value `all`
/// switches on all gates and all APIs.
pub const GATES: &str = "APIFRONT_TEST_GATES";

pub fn are_all_on() -> bool {
    static ALL: OnceLock<bool> = OnceLock::new();
    *ALL.get_or_init(|| match std::env::var(GATES).as_deref() {
        Ok("all") => true,
        Ok("") | Err(_) => false,
        Ok(other) => panic!("{GATES}={other}: only `all` is known"),
    })
}

/// Returns the flags for the gates. Later flags may switch single gates off again.
pub fn flags() -> Vec<String> {
    match are_all_on() {
        true => vec![
            "--feature-gates=AllAlpha=true,AllBeta=true".to_owned(),
            "--runtime-config=api/all=true".to_owned(),
        ],
        false => Vec::new(),
    }
}
