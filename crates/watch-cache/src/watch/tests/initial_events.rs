//! Tests the events that a watch with a state begins with.

use super::super::{TableFrames, WatchEnd};
use super::*;

use std::time::Instant;

use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::table::{Printer, TableOptions};

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark_at_their_version() {
    let pods = ["a-b/x", "a/b", "a/x"].map(|key| {
        let (namespace, name) = key.split_once('/').unwrap();
        Pod::new(namespace, name, 3)
    });
    let listed = pods.iter().map(Pod::stored).collect();
    let (writer, store) = Store::new(resource(), listed, 7);
    let snapshot = store.snapshot();
    // The event was published between the snapshot and the watch.
    let now = Instant::now();
    writer
        .apply(false, Pod::new("a", "y", 8).item(), now)
        .unwrap();
    let mut watch = watch_all(&store, snapshot, options(everything(), HOUR));
    let seen = next(&mut watch).await.unwrap();
    assert_eq!(
        seen.iter().map(Seen::brief).collect::<Vec<_>>(),
        [
            ("ADDED", "x", 3),
            ("ADDED", "b", 3),
            ("ADDED", "x", 3),
            ("BOOKMARK", "", 7),
            ("ADDED", "y", 8)
        ]
    );
    assert_eq!(seen[0].namespace, "a-b");
    assert_eq!(
        seen.iter().map(|s| s.ends_initial).collect::<Vec<_>>(),
        [false, false, false, true, false]
    );
}

/// Rows are short, but the objects that they are made of may be long.
#[tokio::test(start_paused = true)]
async fn large_initial_objects_are_written_a_few_at_a_time() {
    let pods = (0..20).map(|n| Pod {
        app: Some("x".repeat(200 << 10)),
        ..Pod::new("a", &format!("{n:02}"), 3)
    });
    let pods = pods.map(|pod| pod.stored()).collect();
    let (_, store) = Store::new(resource(), pods, 7);
    let printer = Arc::new(Printer::builtin(&resource().gvr).unwrap().clone());
    let (version, include) = (MetaVersion::V1, IncludeObject::None);
    let table = TableOptions { version, include };
    let frames = Box::new(TableFrames::new(store.clone(), printer, table));
    let options = options(everything(), HOUR);
    let mut watch = Watch::with_initial_events(store.clone(), store.snapshot(), options, frames);
    let mut objects = 0;
    while objects < 20 {
        let (_, events) = watch.next().await.unwrap();
        // The last batch also has the bookmark.
        assert!(events <= 4, "{events}");
        objects += events;
    }
}

#[tokio::test(start_paused = true)]
async fn initial_events_come_in_batches_from_one_snapshot() {
    let node = "n".repeat(10 << 10);
    let pods = (0..200).map(|n| Pod {
        node: node.clone(),
        ..Pod::new("a", &format!("{n:03}"), 3)
    });
    let (writer, store) = Store::new(resource(), pods.map(|p| p.stored()).collect(), 7);
    let now = Instant::now();
    let mut watch = watch_all(&store, store.snapshot(), options(everything(), HOUR));
    let mut seen = next(&mut watch).await.unwrap();
    assert!(seen.len() < 20 && !watch.has_begun());
    // Changes during the initial events come after the snapshot.
    for (deleted, name, version) in [(false, "150", 8), (true, "199", 9)] {
        let pod = Pod::new("a", name, version);
        writer.apply(deleted, pod.item(), now).unwrap();
    }
    while seen.last().is_none_or(|last| last.version != 9) {
        seen.extend(next(&mut watch).await.unwrap());
    }
    let brief: Vec<_> = seen.iter().map(Seen::brief).collect();
    assert_eq!(brief.len(), 203);
    assert_eq!(brief[199], ("ADDED", "199", 3));
    assert_eq!(brief[200], ("BOOKMARK", "", 7));
    assert_eq!(brief[201], ("MODIFIED", "150", 8));
    assert_eq!(brief[202], ("DELETED", "199", 9));

    // If a watcher is slower than the history, its watch ends at once.
    let mut slow = watch_all(&store, store.snapshot(), options(everything(), HOUR));
    next(&mut slow).await.unwrap();
    let later = now + crate::store::HISTORY_AGE * 2;
    for version in 10..310 {
        let item = Pod::new("b", "x", version).item();
        let at = if version == 10 { now } else { later };
        writer.apply(false, item, at).unwrap();
    }
    let end = next(&mut slow).await.err();
    assert_eq!(end, Some(WatchEnd::FellBehind));
}

/// Most leaves have no pod of the node. The first turn of other tasks comes within them.
#[tokio::test(start_paused = true)]
async fn initial_events_are_those_of_a_node() {
    const PODS: usize = 80_000;
    let pods = (0..PODS).map(|n| Pod {
        node: format!("n{}", n % (PODS / 2)),
        ..Pod::new("a", &format!("{n:05}"), 3)
    });
    let (_writer, store) = Store::new(resource(), pods.map(|pod| pod.stored()).collect(), 7);
    for node in [0, 17, PODS / 2 - 1, PODS] {
        let filter = filter("", "", &format!("spec.nodeName=n{node}"));
        let mut watch = watch_all(&store, store.snapshot(), options(filter, HOUR));
        let mut seen = Vec::new();
        while !seen.iter().any(|seen: &Seen| seen.ends_initial) {
            seen.extend(next(&mut watch).await.unwrap());
        }
        seen.pop();
        let shown: Vec<usize> = seen.iter().map(|seen| seen.name.parse().unwrap()).collect();
        let expected: &[usize] = if node < PODS {
            &[node, node + PODS / 2]
        } else {
            &[]
        };
        assert_eq!(shown, expected);
    }
}
