//! The steps of a random history, and the selectors of its watchers.

use proptest::prelude::*;

use super::Pod;

pub(super) const NAMESPACES: [&str; 4] = ["a", "a-b", "a.b", "a0"];
pub(super) const NAMES: [&str; 3] = ["x", "x-y", "x.y"];
pub(super) const APPS: [Option<&str>; 3] = [None, Some("1"), Some("2")];
pub(super) const NODES: [&str; 3] = ["", "n1", "n2"];

/// A step of upstream, of its connection to the store, or of a watcher.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Set {
        key: usize,
        app: usize,
        node: usize,
        skip: u64,
    },
    Delete {
        key: usize,
        skip: u64,
    },
    Bookmark {
        skip: u64,
    },
    /// The connection is lost. Nothing arrives until it is back.
    Disconnect,
    Reconnect,
    /// Upstream's history is lost, and the state is listed again.
    Resync {
        skip: u64,
    },
    /// Upstream is restored from a backup made this many changes ago.
    Restore {
        back: usize,
    },
    Begin {
        how: How,
        filter: usize,
    },
    Take {
        watcher: usize,
    },
    /// A watcher joins a group, if it has nothing to take.
    Join {
        watcher: usize,
    },
    /// The client of a watcher in a group has room from now on, or has none.
    Room {
        watcher: usize,
        has: bool,
    },
    /// A watcher's connection breaks, and it resumes.
    Resume {
        watcher: usize,
    },
}

#[derive(Clone, Debug)]
pub(super) enum How {
    InitialEvents,
    /// Begins at the version of a list that the cache answered.
    CacheVersion,
    /// Begins at the version of a list that upstream answered this many changes
    /// ago.
    UpstreamVersion {
        back: usize,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let key = 0..NAMESPACES.len() * NAMES.len();
    let skip = 0..3u64;
    let how = prop_oneof![
        Just(How::InitialEvents),
        Just(How::CacheVersion),
        (0..6usize).prop_map(|back| How::UpstreamVersion { back }),
    ];
    prop_oneof![
        8 => (key.clone(), 0..APPS.len(), 0..NODES.len(), skip.clone())
            .prop_map(|(key, app, node, skip)| Step::Set { key, app, node, skip }),
        4 => (key, skip.clone()).prop_map(|(key, skip)| Step::Delete { key, skip }),
        1 => skip.clone().prop_map(|skip| Step::Bookmark { skip }),
        2 => Just(Step::Disconnect),
        1 => Just(Step::Reconnect),
        2 => skip.prop_map(|skip| Step::Resync { skip }),
        1 => (1..5usize).prop_map(|back| Step::Restore { back }),
        3 => (how, 0..FILTERS.len()).prop_map(|(how, filter)| Step::Begin { how, filter }),
        6 => (0..8usize).prop_map(|watcher| Step::Take { watcher }),
        8 => (0..8usize).prop_map(|watcher| Step::Join { watcher }),
        3 => (0..8usize, any::<bool>())
            .prop_map(|(watcher, has)| Step::Room { watcher, has }),
        3 => (0..8usize).prop_map(|watcher| Step::Resume { watcher }),
    ]
}

/// Namespace, labels and fields, and the same condition for the model.
pub(super) type Selects = (&'static str, &'static str, &'static str, fn(&Pod) -> bool);
pub(super) const FILTERS: [Selects; 8] = [
    ("", "", "", |_| true),
    ("a", "", "", |p| p.namespace == "a"),
    ("a-b", "app", "", |p| {
        p.namespace == "a-b" && p.app.is_some()
    }),
    ("", "app=1", "", |p| p.app.as_deref() == Some("1")),
    ("", "app!=1", "", |p| p.app.as_deref() != Some("1")),
    ("", "", "spec.nodeName=n1", |p| p.node == "n1"),
    ("", "app=2", "spec.nodeName!=n1", |p| {
        p.app.as_deref() == Some("2") && p.node != "n1"
    }),
    ("a.b", "", "metadata.name=x", |p| {
        p.namespace == "a.b" && p.name == "x"
    }),
];
