//! Tests of the main watch: its events, its ends, and the state after them.

use kubernetes_wire::api::Labels;
use tokio::sync::mpsc;

use super::fake::Asked;
use super::*;
use crate::reflector::{NoEarlierEvents, WantedEvents};

fn live() -> (mpsc::Sender<String>, impl FnMut() -> Reply) {
    let (send, receive) = mpsc::channel(8);
    let mut receive = Some(receive);
    let first = move || Reply::Live(receive.take().unwrap());
    (send, first)
}

#[tokio::test]
async fn events_and_bookmarks_reach_the_store_however_they_are_cut() {
    let (send, mut first) = live();
    let fake = Fake::start(move |asked, _| match asked {
        Asked::List => pod_list(9, &[pod("a", 3)]),
        Asked::Watch => first(),
    });
    let cache = cache(&fake);
    let (entry, store) = filled(&cache, &pods()).await;
    let mut cursor = store.snapshot().cursor;
    let text = [
        event("ADDED", &pod("b", 10)),
        event("MODIFIED", &pod("a", 12)),
        // The same event comes twice. The second changes nothing.
        event("MODIFIED", &pod("a", 12)),
        event("DELETED", &pod("b", 13)),
        // The object was never in the store, so only the version advances.
        event("DELETED", &pod("c", 14)),
        bookmark(20),
    ]
    .concat();
    for piece in text.as_bytes().chunks(7) {
        send.send(String::from_utf8(piece.to_vec()).unwrap())
            .await
            .unwrap();
    }
    reaches(&store, 20).await;
    assert_eq!(
        events(&store, &mut cursor),
        [
            (Change::Added, "a/b".into(), 10),
            (Change::Modified, "a/a".into(), 12),
            (Change::Deleted, "a/b".into(), 13),
        ]
    );
    assert_eq!(keys(&store), ["a/a@12"]);
    assert_eq!(
        entry.lifecycle().disconnected_for(Instant::now()),
        Duration::ZERO
    );
    assert!(fake.asked(Asked::Watch)[0].contains("resourceVersion=9&"));
}

/// The main watch brings its first bookmark after a minute. A short watch
/// brings its last bookmark soon.
#[tokio::test]
async fn the_bookmark_of_an_older_server_is_learnt_from_a_short_watch() {
    let fake = Fake::old(|asked, _| match asked {
        Asked::List => pod_list(9, &[]),
        Asked::Watch => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (_entry, store) = filled(&cache, &pods()).await;
    until("a bookmark", || store.resource.bookmark.get().map(|_| ())).await;
    let presentation = store.presentation();
    assert!(!presentation.initial_events && presentation.lacks_initial_events);
}

#[tokio::test]
async fn lost_history_becomes_a_difference_and_watchers_stay() {
    // The 410 comes as a status code and as an event.
    let endings: [fn() -> Reply; 2] = [
        || Reply::Code(410, "too old resource version: 9 (50)"),
        || Reply::Stays(expired()),
    ];
    for ending in endings {
        let fake = Fake::start(move |asked, nth| match (asked, nth) {
            (Asked::List, 0) => pod_list(9, &[pod("gone", 3), pod("new", 4), pod("same", 5)]),
            (Asked::List, _) => pod_list(60, &[pod("born", 10), pod("new", 55), pod("same", 5)]),
            // The delay gives the test time to take its cursor.
            (Asked::Watch, 0) => Reply::After(Duration::from_millis(50), Box::new(ending())),
            (Asked::Watch, _) => Reply::Stays(String::new()),
        });
        let cache = cache(&fake);
        let (entry, store) = filled(&cache, &pods()).await;
        let mut cursor = store.snapshot().cursor;
        reaches(&store, 60).await;
        assert_eq!(
            events(&store, &mut cursor),
            [
                (Change::Added, "a/born".into(), 10),
                (Change::Deleted, "a/gone".into(), 11),
                (Change::Modified, "a/new".into(), 55),
            ]
        );
        assert!(!store.progress().closed);
        assert!(Arc::ptr_eq(&store, &entry.store().unwrap()));
        until("the next watch", || {
            fake.asked(Asked::Watch).get(1).cloned()
        })
        .await;
        assert!(fake.asked(Asked::Watch)[1].contains("resourceVersion=60&"));
        assert_eq!(fake.count(), 4);
    }
}

/// An upstream that always answers 410 must not be asked as fast as it can
/// answer.
#[tokio::test]
async fn a_history_that_is_always_lost_is_no_hot_loop() {
    let endings: [fn() -> Reply; 2] = [|| Reply::Code(410, "too old"), || Reply::Ends(expired())];
    for ending in endings {
        let fake = Fake::start(move |asked, _| match asked {
            Asked::List => pod_list(9, &[]),
            Asked::Watch => ending(),
        });
        let cache = cache(&fake);
        let (entry, store) = filled(&cache, &pods()).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(fake.count() <= 12, "asked {} times", fake.count());
        assert!(entry.lifecycle().disconnected_for(Instant::now()) > Duration::ZERO);
        assert!(!store.progress().closed);
    }
}

#[tokio::test]
async fn a_watch_that_breaks_goes_on_from_its_last_version() {
    let endings: [fn() -> Reply; 6] = [
        || Reply::Breaks(event("ADDED", &pod("b", 10))),
        || Reply::Ends(event("ADDED", &pod("b", 10))),
        || Reply::Ends(event("ADDED", &pod("b", 10)) + "nonsense\n"),
        || Reply::Ends(event("ADDED", &pod("b", 10)) + "{\"type\":\"ADD"),
        || Reply::Ends(event("ADDED", &pod("b", 10)) + "{\"type\":\"ODD\",\"object\":{}}\n"),
        || {
            let error = "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd\"}}\n";
            Reply::Stays(event("ADDED", &pod("b", 10)) + error)
        },
    ];
    for (n, ending) in endings.into_iter().enumerate() {
        let fake = Fake::start(move |asked, nth| match (asked, nth) {
            (Asked::List, _) => pod_list(9, &[]),
            (Asked::Watch, 0) => ending(),
            (Asked::Watch, 1) => Reply::Code(503, "starting"),
            (Asked::Watch, _) => Reply::Stays(event("ADDED", &pod("c", 11))),
        });
        let cache = cache(&fake);
        let (entry, store) = filled(&cache, &pods()).await;
        reaches(&store, 11).await;
        assert_eq!(keys(&store), ["a/b@10", "a/c@11"], "{n}");
        let asked = fake.asked(Asked::Watch);
        assert_eq!(asked.len(), 3, "{n}");
        assert!(
            asked[1].contains("resourceVersion=10&"),
            "{n}: {}",
            asked[1]
        );
        assert_eq!(fake.asked(Asked::List).len(), 1, "{n}");
        assert_eq!(
            entry.lifecycle().disconnected_for(Instant::now()),
            Duration::ZERO
        );
    }
}

#[tokio::test]
async fn watches_that_end_at_once_are_begun_with_pauses() {
    let fake = Fake::start(|asked, _| match asked {
        Asked::List => pod_list(9, &[]),
        Asked::Watch => Reply::Ends(String::new()),
    });
    let cache = cache(&fake);
    filled(&cache, &pods()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(fake.count() <= 7, "asked {} times", fake.count());
}

#[tokio::test]
async fn an_event_that_cannot_be_kept_has_everything_listed() {
    let fake = Fake::start(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => pod_list(9, &[]),
        (Asked::List, _) => pod_list(30, &[pod("b", 20)]),
        (Asked::Watch, 0) => Reply::Stays(event("ADDED", r#"{"metadata":{"name":"b"}}"#)),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &pods()).await;
    reaches(&store, 30).await;
    assert_eq!(keys(&store), ["a/b@20"]);
    assert!(!store.progress().closed);
}

/// An API server ends watches like this when a CustomResourceDefinition
/// changes.
#[tokio::test]
async fn a_custom_resources_watch_that_ends_early_has_everything_listed() {
    let other = widget("a", 3).replace("\"uid\"", "\"labels\":{\"x\":\"y\"},\"uid\"");
    let fake = Fake::start(move |asked, nth| match (asked, nth) {
        (Asked::List, 0) => widget_list(9, &[widget("a", 3)]),
        (Asked::List, _) => widget_list(15, std::slice::from_ref(&other)),
        (Asked::Watch, 0) => Reply::Ends(String::new()),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &widgets()).await;
    reaches(&store, 15).await;
    let snapshot = store.snapshot();
    let object = snapshot.get("a", "a").unwrap();
    assert_eq!(object.labels().value_of("x"), Some("y"));
    assert!(!store.progress().closed);
}

/// The definition was deleted and created again with another kind.
#[tokio::test]
async fn another_kind_of_the_same_name_is_another_resource() {
    let fake = Fake::start(move |asked, nth| match (asked, nth) {
        (Asked::List, 0) => widget_list(9, &[widget("a", 3)]),
        (Asked::List, _) => {
            let Reply::Body(list) = widget_list(15, &[widget("a", 12)]) else {
                unreachable!()
            };
            Reply::Body(list.replace("Widget", "Gadget"))
        }
        (Asked::Watch, 0) => Reply::Ends(String::new()),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (entry, store) = filled(&cache, &widgets()).await;
    until("the end of the old store", || {
        store.progress().closed.then_some(())
    })
    .await;
    assert_eq!(entry.store().unwrap().resource.envelope.kind, "Gadget");
}

/// An API server answers before RBAC is ready.
#[tokio::test]
async fn a_moment_of_forbidden_does_not_drop_the_store() {
    let fake = Fake::start(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => pod_list(9, &[]),
        (Asked::List, 1) => Reply::Code(403, "not yet"),
        (Asked::List, _) => pod_list(40, &[]),
        (Asked::Watch, 0) => Reply::Breaks(String::new()),
        (Asked::Watch, 1) => Reply::Code(403, "not yet"),
        (Asked::Watch, 2) => Reply::Code(401, "not yet"),
        (Asked::Watch, 3) => Reply::Code(410, "too old"),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (entry, store) = filled(&cache, &pods()).await;
    reaches(&store, 40).await;
    assert!(!store.progress().closed);
    assert!(Arc::ptr_eq(&store, &entry.store().unwrap()));
}

#[tokio::test]
async fn a_resource_that_is_gone_closes_its_watchers() {
    let fake = Fake::start(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => pod_list(9, &[]),
        (Asked::Watch, 0) => Reply::Ends(String::new()),
        _ => Reply::Code(404, "the server could not find the requested resource"),
    });
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &pods()).await;
    let mut progress = store.subscribe();
    let closed = progress.wait_for(|p| p.closed);
    tokio::time::timeout(Duration::from_secs(5), closed)
        .await
        .unwrap()
        .unwrap();
    let refused = cache.lookup(&pods(), &Everything).err();
    assert_eq!(refused, Some(Unavailable::Refused));
    assert_eq!(fake.count(), 3);
}

/// The first short watch ends before the server has learnt of a newer version, as on a
/// busy machine.
#[tokio::test]
async fn earlier_events_are_asked_for_again_if_nothing_was_told() {
    for (tells_at, questions) in [(1, 1), (2, 2), (3, 2)] {
        let fake = Fake::start(move |asked, before| match (asked, before) {
            (Asked::List, _) => pod_list(9, &[pod("a", 3)]),
            // The main watch.
            (Asked::Watch, 0) => Reply::Stays(String::new()),
            (Asked::Watch, n) if n >= tells_at => Reply::Stays(bookmark(9)),
            (Asked::Watch, _) => Reply::Ends(String::new()),
        });
        let cache = cache(&fake);
        let (entry, store) = filled(&cache, &pods()).await;
        until("the main watch", || {
            (!fake.asked(Asked::Watch).is_empty()).then_some(())
        })
        .await;
        let wanted = WantedEvents {
            caller: None,
            namespace: "",
            label_selector: None,
            field_selector: None,
            after: 5,
        };
        let told = cache.earlier_events(&entry, &store, wanted).await;
        let expected = match tells_at {
            3 => Err(NoEarlierEvents::Untold),
            _ => Ok(9),
        };
        assert_eq!(told.map(|events| events.version()), expected);
        let asked = fake.asked(Asked::Watch);
        assert_eq!(asked.len() - 1, questions, "{asked:?}");
    }
}
