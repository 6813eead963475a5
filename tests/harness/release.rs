//! The release of Kubernetes that the suites run before.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::{Once, OnceLock};

/// The environment variable that names the release of kube-apiserver, such as
/// `1.32`. etcd, kubectl, sample-apiserver and kwok do not depend on it.
pub const KUBERNETES: &str = "APIFRONT_TEST_KUBERNETES";

/// A minor release such as 1.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    minor: u32,
}

impl Release {
    /// The release that `tests/kubernetes/build.sh` builds.
    pub const DEFAULT: Release = Release { minor: 37 };

    /// Returns the release that [`KUBERNETES`] names, or the default.
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
        Self::under_test().minor >= minor
    }

    /// Tells whether another release than the default is under test.
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

    /// Reports the version of the first server that started, and fails if a
    /// named release is not that server's. The line goes to stderr directly,
    /// because the test runner shows the output of failed tests only.
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

/// Reports what a test leaves out before the release under test, directly to
/// stderr: nothing is left out silently.
pub fn tell_left_out(what: &str) {
    let minor = Release::under_test().minor;
    let line = format!("left out before 1.{minor}: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[test]
fn the_default_release_is_the_one_that_is_built() {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubernetes/go.mod");
    let module = std::fs::read_to_string(module).expect("go.mod");
    let version = module
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .expect("a version of Kubernetes");
    assert!(Release::DEFAULT.is_of(version), "{version}");
}
