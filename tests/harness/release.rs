//! The release of Kubernetes that the suites run before.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::{Once, OnceLock};

use super::client::Client;

/// The environment variable that names the release of kube-apiserver, such as
/// `1.32`. etcd, kubectl, sample-apiserver and kwok do not depend on it.
pub const KUBERNETES: &str = "APIFRONT_TEST_KUBERNETES";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    minor: u32,
}

impl Release {
    /// The release that `tests/kubernetes/build.sh` builds.
    pub const DEFAULT: Release = Release { minor: 37 };

    pub fn under_test() -> Self {
        static RELEASE: OnceLock<Release> = OnceLock::new();
        *RELEASE.get_or_init(|| match std::env::var(KUBERNETES) {
            Ok(text) => {
                Self::parse(&text).unwrap_or_else(|| panic!("{KUBERNETES}={text}: not like 1.32"))
            }
            Err(_) => Self::DEFAULT,
        })
    }

    /// Tells whether the release under test is 1.`minor` or newer. Expectations
    /// that hold only for some releases ask this.
    pub fn at_least(minor: u32) -> bool {
        Self::under_test().is_at_least(minor)
    }

    pub fn is_at_least(self, minor: u32) -> bool {
        self.minor >= minor
    }

    /// Tells whether watches may ask for initial events (WatchList, KEP-3157).
    /// The feature was off again in 1.33.
    pub fn has_watch_list(self) -> bool {
        self.minor == 32 || self.is_at_least(34)
    }

    /// Returns feature gates in two lists: one switches off what older API servers
    /// lack, as far as the release allows, the other switches it on.
    pub fn newer_features(self) -> (String, String) {
        let mut gates = vec!["WatchList"];
        // Without this feature, 1.32 and 1.33 send no bookmark for a resource that
        // nobody writes, and WatchList is not given before a bookmark.
        if !self.is_at_least(32) {
            gates.push("ConsistentListFromCache");
        }
        if self.is_at_least(33) {
            gates.push("ListFromCacheSnapshot");
        }
        if self.minor == 33 {
            gates.push("StreamingCollectionEncodingToJSON");
            gates.push("StreamingCollectionEncodingToProtobuf");
        }
        let all = |state: &str| {
            let gates = gates.iter().map(|gate| format!("{gate}={state}"));
            gates.collect::<Vec<_>>().join(",")
        };
        (all("false"), all("true"))
    }

    /// Returns a number that the listable resources of the release under test
    /// exceed, by default or with all alpha and beta APIs on.
    pub fn resources(all_apis: bool) -> usize {
        match (Self::at_least(36), all_apis) {
            (true, false) => 60,
            (true, true) => 80,
            (false, false) => 50,
            (false, true) => 70,
        }
    }

    pub fn is_other() -> bool {
        Self::under_test() != Self::DEFAULT
    }

    pub fn is_in(self, minors: &RangeInclusive<u32>) -> bool {
        minors.contains(&self.minor)
    }

    fn parse(text: &str) -> Option<Self> {
        let minor = text.strip_prefix("1.")?.parse().ok()?;
        Some(Self { minor })
    }

    /// Reports the version of the first server that started. Fails if a release is
    /// named and the server has another. The line goes to stderr directly, because
    /// the test runner shows only the output of failed tests.
    pub fn tell(git_version: &str) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            let line = format!("kube-apiserver before which the suites run: {git_version}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        });
        let named = std::env::var(KUBERNETES).is_ok();
        assert!(
            !named || Self::under_test().is_of(git_version),
            "{KUBERNETES} names {:?}, and kube-apiserver is {git_version}",
            Self::under_test()
        );
    }

    fn is_of(self, git_version: &str) -> bool {
        git_version.starts_with(&format!("v1.{}.", self.minor))
    }
}

/// Fails unless a server without WatchList refuses the watch at `path`, which sets
/// sendInitialEvents.
pub async fn expect_no_watch_list(client: &Client, path: &str) {
    client.get(path).await.expect_status(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: \
         sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    );
}

/// Reports what a test leaves out because of the release under test. The line goes
/// to stderr directly: nothing is left out silently.
pub fn tell_left_out(what: &str) {
    let minor = Release::under_test().minor;
    let line = format!("left out before 1.{minor}: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[test]
fn the_default_release_is_the_one_that_is_built() {
    let version = include_str!("../kubernetes/go.mod")
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .expect("a version of Kubernetes");
    assert!(Release::DEFAULT.is_of(version), "{version}");
}
