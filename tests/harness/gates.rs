//! The feature gates of the kube-apiserver that the suites run before.

use std::sync::OnceLock;

/// The environment variable that switches on all feature gates and all APIs of
/// kube-apiserver if it is `all`.
pub const GATES: &str = "APIFRONT_TEST_GATES";

/// Tells whether all feature gates are on.
pub fn are_all_on() -> bool {
    static ALL: OnceLock<bool> = OnceLock::new();
    *ALL.get_or_init(|| match std::env::var(GATES).as_deref() {
        Ok("all") => true,
        Ok("") | Err(_) => false,
        Ok(other) => panic!("{GATES}={other}: only `all` is known"),
    })
}

/// Returns the flags that switch them on. Flags after them may switch single
/// gates off again.
pub fn flags() -> Vec<String> {
    match are_all_on() {
        true => vec![
            "--feature-gates=AllAlpha=true,AllBeta=true".to_owned(),
            "--runtime-config=api/all=true".to_owned(),
        ],
        false => Vec::new(),
    }
}
