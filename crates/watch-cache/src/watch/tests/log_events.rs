//! Tests which events of the log a watch sends, and in which frames.

use super::super::TableFrames;
use super::*;

use std::io::Read;
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::table::{Printer, TableOptions};

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
