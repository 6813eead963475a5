//! Tests when a watch sends frames and when it ends.

use super::super::{Step, TableFrames, Watch, WatchEnd};
use super::*;

use std::io::Read;
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use kubernetes_wire::api::Status;
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::error_status::watch_error;
use kubernetes_wire::representation::table::{Printer, TableOptions};

fn store_at(version: u64) -> (StoreWriter, Arc<Store>) {
    Store::new(resource(), vec![], version)
}

fn everything() -> Filter {
    filter("", "", "")
}

async fn next(watch: &mut Watch) -> Result<Vec<Seen>, WatchEnd> {
    let (bytes, events) = watch.next().await?;
    let seen = decode(&bytes);
    assert_eq!(seen.len(), events);
    Ok(seen)
}

fn apply(writer: &StoreWriter, version: u64) {
    let item = Pod::new("ns", "a", version).item();
    writer.apply(false, item, Instant::now()).unwrap();
}

/// Asserts that one frame comes, and in which second.
async fn expect(
    watch: &mut Watch,
    began: tokio::time::Instant,
    at: u64,
    expected: (&str, &str, u64),
) {
    let seen = next(watch).await.unwrap();
    assert_eq!(seen.iter().map(Seen::brief).collect::<Vec<_>>(), [expected]);
    assert_eq!(began.elapsed().as_secs(), at);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_two_seconds_before_the_end() {
    let (writer, store) = store_at(5);
    let began = tokio::time::Instant::now();
    let lasts = Duration::from_secs(150);
    let mut watch = watch_from(&store, 5, options(everything(), lasts)).unwrap();
    // Nothing happened in the first minute, so its bookmark is owed.
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(70)).await;
        writer.advance(9, Instant::now());
    });
    expect(&mut watch, began, 70, ("BOOKMARK", "", 9)).await;
    expect(&mut watch, began, 120, ("BOOKMARK", "", 9)).await;
    expect(&mut watch, began, 148, ("BOOKMARK", "", 9)).await;
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Timeout));
    assert_eq!(began.elapsed(), lasts);
}

/// If an event ends the wait for an owed bookmark, the bookmark comes after the
/// event.
#[tokio::test(start_paused = true)]
async fn an_owed_bookmark_comes_with_the_next_version() {
    let (writer, store) = store_at(5);
    let began = tokio::time::Instant::now();
    let mut watch = watch_from(&store, 5, options(everything(), Duration::from_secs(600))).unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(61)).await;
        apply(&writer, 7);
    });
    expect(&mut watch, began, 61, ("ADDED", "a", 7)).await;
    expect(&mut watch, began, 61, ("BOOKMARK", "", 7)).await;
    expect(&mut watch, began, 120, ("BOOKMARK", "", 7)).await;
}

/// A watcher that is a cache hears of each version once: by its event, or at
/// once by a bookmark.
#[tokio::test(start_paused = true)]
async fn a_cache_hears_of_each_version_at_once() {
    let (writer, store) = store_at(5);
    let began = tokio::time::Instant::now();
    let open = |bookmarks| {
        let lasts = Duration::from_secs(600);
        let options = WatchOptions {
            bookmarks,
            ..options(everything(), lasts)
        };
        watch_from(&store, 5, options).unwrap().of_a_cache()
    };
    let (mut watch, mut without) = (open(true), open(false));
    let feeding = tokio::spawn(async move {
        for (second, version) in [(1, 9), (3, 12), (3, 14)] {
            let at = began + Duration::from_secs(second);
            tokio::time::sleep_until(at).await;
            writer.advance(version, Instant::now());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        apply(&writer, 20);
        writer
    });
    expect(&mut watch, began, 1, ("BOOKMARK", "", 9)).await;
    // If two versions come at once, a bookmark for the last one is enough.
    expect(&mut watch, began, 3, ("BOOKMARK", "", 14)).await;
    expect(&mut watch, began, 4, ("ADDED", "a", 20)).await;
    expect(&mut watch, began, 60, ("BOOKMARK", "", 20)).await;
    expect(&mut watch, began, 120, ("BOOKMARK", "", 20)).await;
    assert_eq!(
        next(&mut without).await.unwrap()[0].brief(),
        ("ADDED", "a", 20)
    );
    feeding.await.unwrap().close();
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Closed));
}

/// A cache must not take the difference of two states for the history. So its
/// watch ends, and it asks again. Other watches continue.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_cache_ends_at_a_resync() {
    let (writer, store) = Store::new(resource(), vec![Pod::new("a", "x", 3).stored()], 10);
    let open = |version| watch_from(&store, version, options(everything(), HOUR)).unwrap();
    let (mut cache, mut other) = (open(10).of_a_cache(), open(10));
    let mut ahead = open(30).of_a_cache();
    writer.replace(vec![Pod::new("a", "x", 18).stored()], 20, Instant::now());
    assert_eq!(next(&mut cache).await, Err(WatchEnd::Resynced));
    assert_eq!(
        next(&mut other).await.unwrap()[0].brief(),
        ("MODIFIED", "x", 18)
    );
    // A watch that begins at the list's version, or after it, continues.
    let mut after = open(20).of_a_cache();
    apply(&writer, 31);
    for watch in [&mut after, &mut ahead] {
        assert_eq!(next(watch).await.unwrap()[0].brief(), ("ADDED", "a", 31));
    }
    // There is no gap between versions that follow each other.
    writer.replace(vec![Pod::new("a", "x", 18).stored()], 32, Instant::now());
    assert_eq!(
        next(&mut after).await.unwrap()[0].brief(),
        ("DELETED", "a", 32)
    );
}

/// Every batch of a compressed watch is whole gzip members: one for the initial
/// events, and one for each later event, which all watchers share.
#[tokio::test(start_paused = true)]
async fn compressed_batches_have_the_same_frames() {
    let pods: Vec<_> = (1..4)
        .map(|n| Pod::new("a", &n.to_string(), n).stored())
        .collect();
    let (writer, store) = Store::new(resource(), pods, 5);
    let lasts = Duration::from_secs(90);
    let open = || watch_all(&store, store.snapshot(), options(everything(), lasts));
    let mut watches = [open(), open().compressed(), open().compressed()];
    let mut read = Vec::new();
    for round in 0..3 {
        match round {
            1 => writer
                .apply(false, Pod::new("a", "9", 9).item(), Instant::now())
                .unwrap(),
            2 => writer.advance(11, Instant::now()),
            _ => {}
        }
        let mut batches = Vec::new();
        for watch in &mut watches {
            batches.push(watch.next().await.unwrap());
        }
        let [
            (plain, events),
            (first, first_events),
            (second, second_events),
        ] = &batches[..]
        else {
            panic!("three watches");
        };
        assert_eq!([events, events], [first_events, second_events]);
        assert_eq!(first.as_ptr() == second.as_ptr(), round == 1, "{round}");
        for compressed in [first, second] {
            let mut decoded = Vec::new();
            let mut decoder = MultiGzDecoder::new(&compressed[..]);
            decoder.read_to_end(&mut decoded).unwrap();
            assert_eq!(&decoded[..], &plain[..], "{round}");
        }
        read.extend(decode(plain));
    }
    let kinds: Vec<&str> = read.iter().map(|seen| seen.kind.as_str()).collect();
    let all = ["ADDED", "ADDED", "ADDED", "BOOKMARK", "ADDED", "BOOKMARK"];
    assert_eq!(kinds, all);
}

#[tokio::test(start_paused = true)]
async fn no_bookmarks_for_those_who_do_not_ask() {
    let (writer, store) = store_at(5);
    let mut quiet = options(everything(), Duration::from_secs(600));
    quiet.bookmarks = false;
    let mut watch = watch_from(&store, 5, quiet).unwrap();
    writer.advance(9, Instant::now());
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Timeout));
}

#[tokio::test(start_paused = true)]
async fn events_that_do_not_stop_neither_delay_the_end_nor_the_bookmarks() {
    let (writer, store) = store_at(5);
    let lasts = Duration::from_secs(100);
    let mut all = watch_from(&store, 5, options(everything(), lasts)).unwrap();
    let mut none = watch_from(&store, 5, options(filter("b", "", ""), lasts)).unwrap();
    let mut version = 5;
    let mut publish = || {
        version += 1;
        let item = Pod::new("a", "x", version).item();
        writer.apply(false, item, Instant::now()).unwrap();
        version
    };
    for _ in 0..99 {
        let version = publish();
        assert_eq!(next(&mut all).await.unwrap()[0].version, version);
        tokio::time::advance(Duration::from_secs(1)).await;
        if version == 5 + 60 {
            let seen = next(&mut none).await.unwrap();
            assert_eq!(seen[0].brief(), ("BOOKMARK", "", version));
        }
    }
    publish();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(next(&mut all).await, Err(WatchEnd::Timeout));
}

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

#[tokio::test(start_paused = true)]
async fn who_leaves_a_selection_is_deleted_as_it_was_at_the_new_version() {
    let mut pod = Pod::new("a", "x", 6);
    pod.app = Some("web".into());
    let (writer, store) = Store::new(resource(), vec![pod.stored()], 7);
    let selected = || options(filter("a", "app=web", ""), HOUR);
    let mut watch = watch_from(&store, 7, selected()).unwrap();
    let mut on_node =
        watch_from(&store, 7, options(filter("", "", "spec.nodeName=n"), HOUR)).unwrap();
    let now = Instant::now();
    let left = Pod {
        version: 8,
        app: Some("db".into()),
        node: "n".into(),
        ..pod.clone()
    };
    writer.apply(false, left.item(), now).unwrap();
    let seen = next(&mut watch).await.unwrap();
    assert_eq!(seen[0].brief(), ("DELETED", "x", 8));
    assert!(seen[0].line.contains(r#""app":"web""#), "{}", seen[0].line);
    assert_eq!(
        next(&mut on_node).await.unwrap()[0].brief(),
        ("ADDED", "x", 8)
    );

    let back = Pod {
        version: 9,
        node: "n".into(),
        ..pod.clone()
    };
    writer.apply(false, back.item(), now).unwrap();
    assert_eq!(
        next(&mut watch).await.unwrap()[0].brief(),
        ("ADDED", "x", 9)
    );
    assert_eq!(
        next(&mut on_node).await.unwrap()[0].brief(),
        ("MODIFIED", "x", 9)
    );

    let last = Pod {
        version: 10,
        ..back
    };
    writer.apply(true, last.item(), now).unwrap();
    let seen = next(&mut watch).await.unwrap();
    assert_eq!(seen[0].brief(), ("DELETED", "x", 10));
}

/// Otherwise each of a thousand watchers would write the object again, which
/// may have megabytes.
#[tokio::test(start_paused = true)]
async fn all_whose_selection_an_object_leaves_share_a_frame() {
    let mut pod = Pod::new("a", "x", 6);
    pod.app = Some("web".into());
    let (writer, store) = Store::new(resource(), vec![pod.stored()], 7);
    let of = |labels: &str| watch_from(&store, 7, options(filter("a", labels, ""), HOUR)).unwrap();
    let table = |labels: &str| {
        let printer = Arc::new(Printer::builtin(&resource().gvr).unwrap().clone());
        let (version, include) = (MetaVersion::V1, IncludeObject::None);
        let table = TableOptions { version, include };
        let frames = TableFrames::new(store.clone(), printer, table);
        let options = options(filter("a", labels, ""), HOUR);
        Watch::from_version(store.clone(), 7, options, Box::new(frames)).unwrap()
    };
    let mut all = [of("app=web"), of("app,app!=db"), table("app=web")];
    let left = Pod {
        version: 8,
        app: Some("db".into()),
        ..pod
    };
    writer.apply(false, left.item(), Instant::now()).unwrap();
    let mut frames = Vec::new();
    for watch in &mut all {
        frames.push(watch.next().await.unwrap().0);
    }
    assert_eq!(frames[0].as_ptr(), frames[1].as_ptr());
    for frame in frames {
        let text = std::str::from_utf8(&frame).unwrap();
        assert!(text.starts_with(r#"{"type":"DELETED""#), "{text}");
        assert!(text.contains(r#""resourceVersion":"8""#), "{text}");
    }
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
async fn a_closed_store_ends_watches_after_what_they_are_owed() {
    let (writer, store) = store_at(5);
    let mut watch = watch_from(&store, 5, options(everything(), HOUR)).unwrap();
    writer
        .apply(false, Pod::new("a", "x", 6).item(), Instant::now())
        .unwrap();
    writer.close();
    assert_eq!(
        next(&mut watch).await.unwrap()[0].brief(),
        ("ADDED", "x", 6)
    );
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Closed));
    // A watch that begins after the end ends, too.
    let mut late = watch_from(&store, 6, options(everything(), HOUR)).unwrap();
    assert_eq!(next(&mut late).await, Err(WatchEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_behind_ends() {
    let (writer, store) = store_at(5);
    let mut slow = watch_from(&store, 5, options(everything(), HOUR)).unwrap();
    let now = Instant::now();
    let later = now + crate::store::HISTORY_AGE * 2;
    for version in 6..306 {
        let at = if version < 156 { now } else { later };
        writer
            .apply(false, Pod::new("a", "x", version).item(), at)
            .unwrap();
    }
    assert_eq!(next(&mut slow).await, Err(WatchEnd::FellBehind));
    assert!(watch_from(&store, 5, options(everything(), HOUR)).is_err());
    let mut fine = watch_from(&store, 155, options(everything(), HOUR)).unwrap();
    assert_eq!(next(&mut fine).await.unwrap()[0].version, 156);
}

#[tokio::test(start_paused = true)]
async fn a_store_restored_from_a_backup_ends_its_watches() {
    let (writer, store) = store_at(50);
    let mut watch = watch_from(&store, 50, options(everything(), HOUR)).unwrap();
    writer.replace(vec![Pod::new("a", "x", 30).stored()], 40, Instant::now());
    assert_eq!(next(&mut watch).await, Err(WatchEnd::FellBehind));
    let mut again = watch_all(&store, store.snapshot(), options(everything(), HOUR));
    let seen = next(&mut again).await.unwrap();
    assert_eq!(seen[0].brief(), ("ADDED", "x", 30));
    assert_eq!(seen[1].brief(), ("BOOKMARK", "", 40));
}

/// Upstream was restored from a backup and continued. Its version is above the
/// store's, but its objects are older than those that the store served.
#[tokio::test(start_paused = true)]
async fn a_restored_upstream_that_has_caught_up_is_noticed() {
    let (writer, store) = Store::new(resource(), vec![Pod::new("a", "x", 48).stored()], 50);
    let mut watch = watch_from(&store, 50, options(everything(), HOUR)).unwrap();
    writer.replace(vec![Pod::new("a", "x", 45).stored()], 60, Instant::now());
    assert_eq!(next(&mut watch).await, Err(WatchEnd::FellBehind));
}

/// A list that upstream answered is ahead of the cache. A watch from its
/// version waits until the cache has reached it.
#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_skips_what_its_client_knows() {
    let (writer, store) = store_at(10);
    let mut watch = watch_from(&store, 13, options(everything(), HOUR)).unwrap();
    let now = Instant::now();
    writer
        .apply(false, Pod::new("a", "known", 12).item(), now)
        .unwrap();
    writer
        .apply(false, Pod::new("a", "new", 14).item(), now)
        .unwrap();
    let seen = next(&mut watch).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].brief(), ("ADDED", "new", 14));
}

/// The client listed at 13, and upstream's history was lost at 10. The versions
/// of deletions between 13 and the new list are unknown.
#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_ends_when_history_is_lost_before_it() {
    let (writer, store) = Store::new(resource(), vec![Pod::new("a", "x", 3).stored()], 10);
    let mut unsure = watch_from(&store, 13, options(everything(), HOUR)).unwrap();
    let mut sure = watch_from(&store, 10, options(everything(), HOUR)).unwrap();
    writer.replace(vec![], 20, Instant::now());
    assert_eq!(next(&mut unsure).await, Err(WatchEnd::FellBehind));
    assert_eq!(
        next(&mut sure).await.unwrap()[0].brief(),
        ("DELETED", "x", 11)
    );
    for (version, served) in [
        // A new watch is not sent what the resync found instead of the history.
        (10, false),
        (11, false),
        (13, false),
        (19, false),
        (20, true),
    ] {
        let began = watch_from(&store, version, options(everything(), HOUR));
        assert_eq!(began.is_ok(), served, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_events_do_not_add_up_in_one_batch() {
    let (writer, store) = store_at(5);
    let mut watch = watch_from(&store, 5, options(everything(), HOUR)).unwrap();
    let node = "n".repeat(50 << 10);
    for version in 6..26 {
        let pod = Pod {
            node: node.clone(),
            ..Pod::new("a", "x", version)
        };
        writer.apply(false, pod.item(), Instant::now()).unwrap();
    }
    let mut versions = Vec::new();
    while versions.len() < 20 {
        let (bytes, _) = watch.next().await.unwrap();
        assert!(bytes.len() < 120 << 10, "{}", bytes.len());
        versions.extend(decode(&bytes).iter().map(|s| s.version));
    }
    assert_eq!(versions, (6..26).collect::<Vec<_>>());
}

/// Events from before the watch say nothing about how long its client waited.
#[tokio::test(start_paused = true)]
async fn a_batch_is_as_old_as_its_oldest_event_since_the_watch_began() {
    let (writer, store) = store_at(5);
    apply(&writer, 6);
    let mut watch = watch_from(&store, 5, options(everything(), HOUR)).unwrap();
    next(&mut watch).await.unwrap();
    assert_eq!(watch.arrived(), None, "it was there before the watch");
    let first = Instant::now();
    for (version, arrives) in [(7, first), (8, first + Duration::from_secs(1))] {
        let item = Pod::new("ns", "a", version).item();
        writer.apply(false, item, arrives).unwrap();
    }
    assert_eq!(next(&mut watch).await.unwrap().len(), 2);
    assert_eq!(watch.arrived(), Some(first));
    writer.advance(9, Instant::now());
    next(&mut watch).await.unwrap();
    assert_eq!(watch.arrived(), None, "a bookmark is no event");
}

#[tokio::test(start_paused = true)]
async fn one_frame_serves_all_watchers() {
    let (writer, store) = store_at(5);
    let mut watches: Vec<_> = (0..2)
        .map(|_| watch_from(&store, 5, options(everything(), HOUR)).unwrap())
        .collect();
    writer
        .apply(false, Pod::new("a", "x", 6).item(), Instant::now())
        .unwrap();
    let (first, _) = watches[0].next().await.unwrap();
    let (second, _) = watches[1].next().await.unwrap();
    assert_eq!(first.as_ptr(), second.as_ptr());
}

#[derive(Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sleeps_through_what_it_cannot_match() {
    let (writer, store) = store_at(5);
    let now = Instant::now();
    let mut watch = watch_from(
        &store,
        5,
        options(filter("", "", "spec.nodeName=mine"), HOUR),
    )
    .unwrap();
    let woken = Arc::new(Woken::default());
    let count = || woken.0.load(std::sync::atomic::Ordering::Relaxed);
    let waker = Arc::clone(&woken).into();
    let mut context = std::task::Context::from_waker(&waker);
    let pod = |version: u64, node: &str| Pod {
        node: node.to_owned(),
        ..Pod::new("a", node, version)
    };
    {
        let mut waits = std::pin::pin!(watch.next());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        for version in 6..1000 {
            let item = pod(version, "other").item();
            writer.apply(false, item, now).unwrap();
        }
        writer.advance(1000, now);
        assert_eq!(count(), 0);
        writer.apply(false, pod(1001, "mine").item(), now).unwrap();
        assert_eq!(count(), 1);
        let std::task::Poll::Ready(Ok((bytes, 1))) = waits.as_mut().poll(&mut context) else {
            panic!("its event is there");
        };
        assert_eq!(decode(&bytes)[0].brief(), ("ADDED", "mine", 1001));
    }
    // The history has lost events, but none that this watch needs.
    let later = now + crate::store::HISTORY_AGE * 2;
    for version in 1002..1302 {
        let item = pod(version, "other").item();
        writer.apply(false, item, later).unwrap();
    }
    assert!(watch_from(&store, 1000, options(everything(), HOUR)).is_err());
    let item = pod(1302, "mine").item();
    writer.apply(false, item, later).unwrap();
    let seen = next(&mut watch).await.unwrap();
    assert_eq!(seen[0].brief(), ("MODIFIED", "mine", 1302));
    // The watch's bookmarks also tell the versions of other events.
    writer
        .apply(false, pod(1303, "other").item(), later)
        .unwrap();
    let seen = next(&mut watch).await.unwrap();
    assert_eq!(seen[0].brief(), ("BOOKMARK", "", 1303));
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

#[tokio::test(start_paused = true)]
async fn watchers_of_tables_share_the_frames_of_a_second() {
    let (writer, store) = store_at(1);
    let printer = Arc::new(Printer::builtin(&resource().gvr).unwrap().clone());
    let tables = |include| {
        let table = TableOptions {
            version: MetaVersion::V1,
            include,
        };
        let frames = TableFrames::new(store.clone(), printer.clone(), table);
        let options = options(everything(), HOUR);
        Watch::from_version(store.clone(), 1, options, Box::new(frames)).unwrap()
    };
    let mut alike = [
        tables(IncludeObject::Metadata),
        tables(IncludeObject::Metadata),
    ];
    let mut other = tables(IncludeObject::None);
    let mut shared = 0;
    for version in 2..6 {
        apply(&writer, version);
        let [first, second] = &mut alike;
        let (first, _) = first.next().await.unwrap();
        let (second, _) = second.next().await.unwrap();
        let (other, _) = other.next().await.unwrap();
        for frame in [&first, &second, &other] {
            let text = std::str::from_utf8(frame).unwrap();
            assert_eq!(text.contains("\"name\":\"Name\""), version == 2, "{text}");
        }
        assert_ne!(first, other);
        // The second may end in between.
        shared += usize::from(first.as_ptr() == second.as_ptr());
    }
    assert!(shared >= 3, "{shared}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_begin_says_so_and_ends() {
    let (_, store) = store_at(5);
    let status = Status::expired("too old resource version: 3 (5)");
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let open = |version, refusal: Option<Status>| {
            let frames = Box::new(WholeFrames::new(store.clone(), encoding));
            let options = options(everything(), HOUR);
            Watch::from_version_or(store.clone(), version, options, frames, |_| refusal)
        };
        assert!(open(3, None).is_err());
        let mut refused = open(3, Some(status.clone())).unwrap();
        assert_eq!(
            refused.next().await,
            Ok((watch_error(&status, encoding), 1))
        );
        assert_eq!(refused.next().await, Err(WatchEnd::Expired));
        let mut known = open(5, Some(status.clone())).unwrap();
        assert!(matches!(known.step(), Ok(Step::Idle)));
    }
}
