//! The WATCH cases of kube-apiserver's own storage tests that no other file covers.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::cluster::unique;
use crate::harness::eventually;
use crate::harness::objects::config_map;
use crate::harness::release::expect_no_watch_list;
use crate::harness::subject::Subject;
use crate::harness::watch::{End, Event, Watch};

conformance!(
    state_after_a_recreation,
    cluster_scoped,
    namespaces_do_not_mix,
    every_start,
    initial_events_of_one_object,
    initial_events_and_what_follows,
    bookmark_before_the_timeout,
    delayed_delivery,
);

async fn list_in(subject: &Subject, purpose: &str) -> String {
    let ns = subject.namespace(purpose).await;
    format!("/api/v1/namespaces/{ns}/configmaps")
}

async fn create(subject: &Subject, list: &str, name: &str) -> u64 {
    let body = config_map(name, json!({}), json!({}));
    let created = subject.admin.post(list, &body).await.expect(201);
    let version = created["metadata"]["resourceVersion"].as_str();
    version.and_then(|v| v.parse().ok()).expect("a version")
}

/// Waits until the server's cache has reached `version`.
async fn cached(subject: &Subject, list: &str, version: u64) {
    let path = format!("{list}?resourceVersion={version}&resourceVersionMatch=NotOlderThan");
    eventually("the cache follows", Duration::from_secs(20), || async {
        subject.admin.get(&path).await.status == 200
    })
    .await;
}

const SEND: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const DECLINE: &str = "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
const BOOKMARKS: &str = "&allowWatchBookmarks=true";

fn ends_initial_events(event: &Event) -> bool {
    event.object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
}

/// RunTestWatchFromZero: a watch does not show the earlier, deleted object.
async fn state_after_a_recreation(subject: Subject) {
    let admin = &subject.admin;
    let list = list_in(&subject, "recreated").await;
    create(&subject, &list, "a").await;
    admin.delete(&format!("{list}/a")).await.expect(200);
    let version = create(&subject, &list, "a").await;
    cached(&subject, &list, version).await;
    let mut watch = Watch::open(admin, &format!("{list}?watch=1&resourceVersion=0")).await;
    let first = watch.take(1).await;
    assert_eq!(
        (first[0].short().as_str(), first[0].version()),
        ("ADDED a", version)
    );
    admin.delete(&format!("{list}/a")).await.expect(200);
    let last = watch.take(1).await;
    assert_eq!(last[0].short(), "DELETED a");
    // RunTestWatchDeleteEventObjectHaveLatestRV.
    assert!(last[0].version() > version);
}

/// RunClusterScopedWatch.
async fn cluster_scoped(subject: Subject) {
    let admin = &subject.admin;
    let (one, two) = (unique("scoped"), unique("scoped"));
    let list = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let now = admin.get(&format!("{list}?limit=1")).await.expect(200);
    let from = now["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    let path = format!("{list}?watch=1&resourceVersion={from}&fieldSelector=metadata.name%3D{one}");
    let mut single = Watch::open(admin, &path).await;
    let path = format!("{list}?watch=1&resourceVersion={from}&labelSelector=of%3D{one}");
    let mut labelled = Watch::open(admin, &path).await;
    for name in [&two, &one] {
        let body = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"of": one}}, "rules": [],
        });
        admin.post(list, &body).await.expect(201);
    }
    for name in [&two, &one] {
        admin.delete(&format!("{list}/{name}")).await.expect(200);
    }
    let (added, deleted) = (
        |n: &str| format!("ADDED {n}"),
        |n: &str| format!("DELETED {n}"),
    );
    assert_eq!(single.take_short(2).await, [added(&one), deleted(&one)]);
    assert_eq!(
        labelled.take_short(4).await,
        [added(&two), added(&one), deleted(&two), deleted(&one)]
    );
}

/// RunNamespaceScopedWatch.
async fn namespaces_do_not_mix(subject: Subject) {
    let admin = &subject.admin;
    let short = subject.namespace("mix").await;
    let long = format!("{short}0");
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": long}});
    admin.post("/api/v1/namespaces", &body).await.expect(201);
    let list = |ns: &str| format!("/api/v1/namespaces/{ns}/configmaps");
    let now = admin.get(&list(&short)).await.expect(200);
    let from = now["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    let open = async |ns: &str, selector: &str| {
        let path = format!("{}?watch=1&resourceVersion={from}{selector}", list(ns));
        Watch::open(admin, &path).await
    };
    let mut of_short = open(&short, "").await;
    let mut of_long = open(&long, "").await;
    let mut one_of_short = open(&short, "&fieldSelector=metadata.name%3Db").await;
    let elsewhere = format!("&fieldSelector=metadata.namespace%3D{long}");
    let mut contradiction = open(&short, &elsewhere).await;
    for (ns, name) in [(&long, "a"), (&short, "b"), (&long, "b"), (&short, "c")] {
        create(&subject, &list(ns), name).await;
    }
    assert_eq!(of_short.take_short(2).await, ["ADDED b", "ADDED c"]);
    assert_eq!(of_long.take_short(2).await, ["ADDED a", "ADDED b"]);
    let one = one_of_short.take(1).await;
    assert_eq!(one[0].object["metadata"]["namespace"], json!(short));
    let none = contradiction.next_within(Duration::from_millis(300)).await;
    assert!(none.is_none(), "{none:?}");
}

/// RunWatchSemantics: checks how a watch begins for each combination of
/// options.
async fn every_start(subject: Subject) {
    let admin = &subject.admin;
    let list = list_in(&subject, "start").await;
    create(&subject, &list, "a").await;
    let version = create(&subject, &list, "b").await;
    cached(&subject, &list, version).await;
    let at = format!("&resourceVersion={version}");
    let zero = "&resourceVersion=0".to_owned();
    let unset = String::new();
    // The columns are the version, the options, whether the state comes first, and
    // whether a bookmark ends the state.
    let mut wrong = Vec::new();
    for (from, options, state, end) in [
        (&unset, String::new(), true, false),
        (&zero, String::new(), true, false),
        (&at, String::new(), false, false),
        // Since 1.34, a watch with bookmarks and no other option sends initial
        // events.
        (&unset, BOOKMARKS.to_owned(), true, true),
        (&zero, BOOKMARKS.to_owned(), true, true),
        (&at, BOOKMARKS.to_owned(), false, false),
        (&unset, format!("{SEND}{BOOKMARKS}"), true, true),
        (&zero, format!("{SEND}{BOOKMARKS}"), true, true),
        (&at, format!("{SEND}{BOOKMARKS}"), true, true),
        (&unset, SEND.to_owned(), true, false),
        (&zero, SEND.to_owned(), true, false),
        (&at, SEND.to_owned(), true, false),
        (&unset, DECLINE.to_owned(), false, false),
        (&zero, DECLINE.to_owned(), false, false),
        (&at, DECLINE.to_owned(), false, false),
        (&unset, format!("{DECLINE}{BOOKMARKS}"), false, false),
        (&at, format!("{DECLINE}{BOOKMARKS}"), false, false),
    ] {
        let path = format!("{list}?watch=1{from}{options}");
        let asks = options.contains("sendInitialEvents");
        if asks && !subject.has_watch_list() {
            expect_no_watch_list(admin, &path).await;
            continue;
        }
        let end = end && (asks || subject.release.has_watch_list());
        let mut watch = Watch::open(admin, &path).await;
        let marker = format!("m{}", wrong.len());
        let mut seen = Vec::new();
        let mut ended = false;
        // The headers may come before the server decides where the watch starts. The
        // marker may then be part of the state, or older than the starting version.
        create(&subject, &list, &marker).await;
        let mut marked = false;
        while !(marked && ended == end) {
            let Some(event) = watch.next_within(Duration::from_secs(1)).await else {
                if marked {
                    break;
                }
                let touch = json!({"data": {"again": "1"}});
                let path = format!("{list}/{marker}");
                admin
                    .patch(&path, "merge-patch+json", &touch)
                    .await
                    .expect(200);
                continue;
            };
            let event = event.expect("an event");
            ended |= ends_initial_events(&event);
            if event.name() == marker {
                marked = true;
            } else if event.kind != "BOOKMARK" {
                seen.push(event.short());
            }
        }
        let expected: &[&str] = if state { &["ADDED a", "ADDED b"] } else { &[] };
        admin.delete(&format!("{list}/{marker}")).await.expect(200);
        // The state at version 0 may be older than the deletion of an earlier
        // marker.
        seen.retain(|short| !short.contains(" m"));
        if seen != expected || ended != end {
            wrong.push(format!("{path}: {seen:?}, end {ended}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// RunWatchListMatchSingle.
async fn initial_events_of_one_object(subject: Subject) {
    let admin = &subject.admin;
    let list = list_in(&subject, "one").await;
    for name in ["a", "b", "c"] {
        create(&subject, &list, name).await;
    }
    let path = format!("{list}?watch=1{SEND}{BOOKMARKS}&fieldSelector=metadata.name%3Db");
    if !subject.has_watch_list() {
        return expect_no_watch_list(admin, &path).await;
    }
    let mut watch = Watch::open(admin, &path).await;
    let first = watch.next().await.expect("an event");
    assert_eq!(first.short(), "ADDED b");
    assert!(ends_initial_events(&watch.next().await.expect("an event")));
    admin.delete(&format!("{list}/a")).await.expect(200);
    admin.delete(&format!("{list}/b")).await.expect(200);
    assert_eq!(watch.take_short(1).await, ["DELETED b"]);
}

/// RunWatchSemanticInitialEventsExtended: a watch sends the state, a bookmark,
/// and then only events newer than the bookmark.
async fn initial_events_and_what_follows(subject: Subject) {
    let admin = &subject.admin;
    let list = list_in(&subject, "extended").await;
    let mut newest = 0;
    for name in ["a", "b"] {
        newest = create(&subject, &list, name).await;
    }
    let path = format!("{list}?watch=1{SEND}{BOOKMARKS}");
    if !subject.has_watch_list() {
        return expect_no_watch_list(admin, &path).await;
    }
    let mut watch = Watch::open(admin, &path).await;
    assert_eq!(watch.next().await.expect("an event").short(), "ADDED a");
    assert_eq!(watch.next().await.expect("an event").short(), "ADDED b");
    let bookmark = watch.next().await.expect("an event");
    assert!(ends_initial_events(&bookmark), "{}", bookmark.line);
    assert!(bookmark.version() >= newest);
    let created = create(&subject, &list, "c").await;
    let next = watch.take(1).await;
    assert_eq!(
        (next[0].short().as_str(), next[0].version()),
        ("ADDED c", created)
    );
    assert!(created > bookmark.version());
    // A watch that begins at the bookmark sees the same.
    let from = bookmark.version();
    let mut resumed = Watch::open(admin, &format!("{list}?watch=1&resourceVersion={from}")).await;
    assert_eq!(resumed.take(1).await[0].line, next[0].line);
}

/// RunTestWatchDispatchBookmarkEvents: two seconds before its timeout, a watch sends
/// a bookmark with the version that it has reached.
async fn bookmark_before_the_timeout(subject: Subject) {
    let admin = &subject.admin;
    let list = list_in(&subject, "bookmark").await;
    let version = create(&subject, &list, "a").await;
    // A bookmark tells a version that the client does not know.
    let elsewhere = list_in(&subject, "beside-bookmark").await;
    create(&subject, &elsewhere, "b").await;
    let started = Instant::now();
    let path = format!("{list}?watch=1&resourceVersion={version}&timeoutSeconds=5");
    let (with, without) = tokio::join!(
        async {
            Watch::open(admin, &format!("{path}{BOOKMARKS}"))
                .await
                .rest()
                .await
        },
        async { Watch::open(admin, &path).await.rest().await },
    );
    assert!(started.elapsed() > Duration::from_millis(4900));
    assert_eq!((without.0.len(), without.1), (0, End::Clean));
    let (events, end) = with;
    assert_eq!(end, End::Clean);
    assert!(!events.is_empty());
    for event in &events {
        assert_eq!(event.kind, "BOOKMARK");
        assert!(event.version() >= version);
        assert_eq!(event.object["kind"], "ConfigMap");
        assert!(event.object["metadata"].get("name").is_none());
    }
}

/// RunTestDelayedWatchDelivery: a client that does not read for a while loses
/// nothing.
async fn delayed_delivery(subject: Subject) {
    let list = list_in(&subject, "delayed").await;
    let version = create(&subject, &list, "a").await;
    let path = format!("{list}?watch=1&resourceVersion={version}");
    let mut watch = Watch::open(&subject.admin, &path).await;
    let mut expected = Vec::new();
    for n in 0..30 {
        let name = format!("d{n}");
        create(&subject, &list, &name).await;
        expected.push(format!("ADDED {name}"));
    }
    crate::harness::pace::lasting(Duration::from_millis(1200)).await;
    assert_eq!(watch.take_short(30).await, expected);
}
