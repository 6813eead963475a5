//! Tests of lists that come as the beginning of a watch.

use tokio::sync::mpsc;

use super::fake::Asked;
use super::*;

fn end(version: u64) -> String {
    let metadata = format!(
        r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#
    );
    event("BOOKMARK", &metadata)
}

#[tokio::test]
async fn the_stream_that_filled_a_store_goes_on_as_its_watch() {
    let (send, receive) = mpsc::channel(8);
    let mut receive = Some(receive);
    let fake = Fake::streaming(move |asked, nth| match (asked, nth) {
        (Asked::List, 0) => Reply::Live(receive.take().unwrap()),
        _ => Reply::Code(500, "asked too often"),
    });
    let cache = cache(&fake);
    let _filling = cache.lookup(&pods(), &Everything);
    let initial = [
        event("ADDED", &pod("b", 4)),
        event("ADDED", &pod("a", 3)),
        event("ADDED", &pod("c", 5)),
        // The server's cache catches up.
        event("MODIFIED", &pod("a", 7)),
        bookmark(7),
        event("DELETED", &pod("c", 8)),
    ];
    send.send(initial.concat()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let early = cache.lookup(&pods(), &Everything).err();
    assert_eq!(early, Some(Unavailable::Filling));
    send.send(end(9) + &event("ADDED", &pod("d", 10)))
        .await
        .unwrap();
    let (entry, store) = filled(&cache, &pods()).await;
    reaches(&store, 10).await;
    assert_eq!(keys(&store), ["a/a@7", "a/b@4", "a/d@10"]);
    send.send(bookmark(20)).await.unwrap();
    reaches(&store, 20).await;
    let mut cursor = store.position(9).unwrap();
    let added = (Change::Added, "a/d".to_owned(), 10);
    assert_eq!(events(&store, &mut cursor), [added]);
    assert_eq!(store.resource.envelope.kind, "Pod");
    assert_eq!(store.resource.envelope.list_kind, "PodList");
    assert!(store.resource.bookmark.get().is_some());
    assert_eq!(
        entry.lifecycle().disconnected_for(Instant::now()),
        Duration::ZERO
    );
    assert_eq!(fake.count(), 1);
    assert!(!fake.asked(Asked::List)[0].contains("resourceVersion="));
}

#[tokio::test]
async fn a_stream_after_lost_history_becomes_a_difference() {
    let fake = Fake::streaming(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => Reply::Stays(
            [
                event("ADDED", &pod("gone", 3)),
                event("ADDED", &pod("same", 5)),
                end(9),
                expired(),
            ]
            .concat(),
        ),
        (Asked::List, 1) => Reply::After(
            Duration::from_millis(50),
            Box::new(Reply::Stays(
                [
                    event("ADDED", &pod("new", 55)),
                    event("ADDED", &pod("same", 5)),
                    end(60),
                ]
                .concat(),
            )),
        ),
        _ => Reply::Code(500, "asked too often"),
    });
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &pods()).await;
    let mut cursor = store.position(9).unwrap();
    reaches(&store, 60).await;
    assert_eq!(
        events(&store, &mut cursor),
        [
            (Change::Deleted, "a/gone".into(), 10),
            (Change::Added, "a/new".into(), 55),
        ]
    );
    assert!(!store.progress().closed);
}

#[tokio::test]
async fn a_stream_that_fails_is_followed_by_pages() {
    let broken: [fn() -> Reply; 5] = [
        || Reply::Code(500, "etcd"),
        || Reply::Breaks(event("ADDED", &pod("x", 3))),
        || Reply::Ends(event("ADDED", &pod("x", 3))),
        || Reply::Stays(expired()),
        || Reply::Stays("nonsense\n".to_owned()),
    ];
    for (n, broken) in broken.into_iter().enumerate() {
        let fake = Fake::streaming(move |asked, nth| match (asked, nth) {
            (Asked::List, 0) => broken(),
            (Asked::List, 1) => pod_list(9, &[pod("a", 3)]),
            (Asked::List, 2) => Reply::Stays(event("ADDED", &pod("b", 12)) + &end(12)),
            (Asked::Watch, 0) => Reply::Stays(expired()),
            _ => Reply::Stays(String::new()),
        });
        let cache = cache(&fake);
        let (_, store) = filled(&cache, &pods()).await;
        // The next list is a stream again.
        reaches(&store, 12).await;
        assert_eq!(keys(&store), ["a/b@12"], "{n}");
        assert_eq!(fake.asked(Asked::List)[1], "/api/v1/pods?limit=500", "{n}");
    }
}

#[tokio::test]
async fn what_a_stream_is_refused_is_refused() {
    for code in [401, 403, 404, 405] {
        let fake = Fake::streaming(move |_, _| Reply::Code(code, "no"));
        let cache = cache(&fake);
        until("the refusal", || {
            let error = cache.lookup(&pods(), &Everything).err();
            error.filter(|e| *e == Unavailable::Refused)
        })
        .await;
        assert_eq!(fake.count(), 1, "{code}");
    }
}
