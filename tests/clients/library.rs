//! The client libraries.

use std::path::PathBuf;

use super::chosen::chosen;
use crate::harness::binaries;

/// The environment variable with the names of the libraries to run, separated
/// by spaces. Without it all run.
const CHOSEN: &str = "APIFRONT_TEST_CLIENTS";

/// The checks that every library makes.
pub const COMMON: &[&str] = &[
    "create",
    "read",
    "list",
    "replace",
    "patch json",
    "patch merge",
    "patch strategic",
    "apply",
    "apply conflict",
    "apply by force",
    "pages",
    "404",
    "409 exists",
    "409 conflict",
    "410 page",
    "410 watch",
    "422",
    "429",
    "delete",
];

/// A program in a folder of its own, which runs the scenario with one library.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    pub name: &'static str,
    /// The checks besides [`COMMON`], and the informers, whose contents must be
    /// those of a list.
    pub checks: &'static [&'static str],
    pub informers: &'static [&'static str],
    /// The least number of reads that apifront must answer from its cache, with those
    /// that are late or the first of an object ([`Reads`](super::hits::Reads)).
    pub hits: usize,
}

const LIBRARIES: &[Library] = &[
    Library {
        name: "client-go",
        checks: &["pages in JSON", "election", "WatchList is used"],
        informers: &[
            "typed JSON informer",
            "typed protobuf informer",
            "informer without WatchList",
            "dynamic informer",
            "metadata informer",
            "RetryWatcher",
        ],
        hits: 32,
    },
    Library {
        name: "controller-runtime",
        checks: &["unstructured list", "metadata list", "manager leads"],
        informers: &[
            "typed cache",
            "unstructured cache",
            "metadata cache",
            "reconciler",
        ],
        hits: 21,
    },
    Library {
        name: "fabric8",
        checks: &["streaming list"],
        informers: &["informer", "informer by pages"],
        hits: 26,
    },
    Library {
        name: "kube",
        checks: &["metadata list"],
        informers: &[
            "watcher",
            "watcher by pages",
            "watcher by WatchList",
            "metadata watcher",
        ],
        hits: 23,
    },
    kubectl("kubectl-1.35"),
    kubectl("kubectl-1.36"),
    kubectl("kubectl-1.37"),
    Library {
        name: "java",
        checks: &["generic list"],
        informers: &["informer"],
        hits: 21,
    },
    Library {
        name: "javascript",
        checks: &["object list"],
        informers: &["informer"],
        hits: 20,
    },
    Library {
        name: "python",
        checks: &["dynamic list"],
        informers: &["informer", "watch"],
        hits: 22,
    },
];

/// kubectl of one release. All make the same checks.
const fn kubectl(name: &'static str) -> Library {
    Library {
        name,
        checks: &["apply by the client", "table", "wait", "describe"],
        informers: &["watch"],
        hits: 34,
    }
}

impl Library {
    /// Returns the libraries that [`CHOSEN`] names.
    pub fn chosen() -> Vec<Self> {
        chosen(CHOSEN, LIBRARIES, |library| library.name)
    }

    /// Installs what the library needs, and returns the program to start.
    pub fn build(&self) -> PathBuf {
        binaries::client(self.name, "clients")
    }

    /// Returns the name of the user as whom the program calls.
    pub fn user(&self) -> String {
        format!("client-{}", self.name)
    }

    /// Returns all checks that the program must make.
    pub fn expected_checks(&self) -> Vec<String> {
        let named = COMMON.iter().chain(self.checks).map(ToString::to_string);
        let informers = self.informers.iter().map(|name| contents_check(name));
        named.chain(informers).collect()
    }
}

/// Returns the name of the check that an informer equals a list.
pub fn contents_check(informer: &str) -> String {
    format!("{informer} equals a list")
}
