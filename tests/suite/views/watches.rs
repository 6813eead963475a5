//! A watch of a view sends only events of its namespaces, and each change of the
//! rights.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, Method};
use kubernetes_wire::api::Status;
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::error_status::watch_error;
use serde_json::{Value, json};

use super::world::{MAPS, SOON, World, all, key, keys, list_and_watch, shown, told, version};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::watch::{End, MEDIA_TYPES, Watch};
use crate::websocket_watch::{handshake, open};

/// The time in which no event may come.
const QUIET: Duration = Duration::from_millis(1_500);

#[tokio::test]
async fn a_watch_follows_bindings_and_roles() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(4, |_| {}).await;
    let [first, second, third, hidden] = &world.namespaces[..] else {
        panic!("four namespaces");
    };
    world.grant(first).await;
    let client = world.client();
    world.settled(&client, &[first]).await;
    let (list, mut watch) = list_and_watch(&world, &client).await;
    assert_eq!(keys(&list).len(), 3);
    world.put_map(hidden, "a", "secret").await;
    world.put_map(second, "a", "secret").await;
    world.put_map(first, "a", "second").await;
    let mut events = told(&mut watch, 1).await;
    // The list may be older than the change that made its version.
    while events[0] != format!("MODIFIED {first}/a") {
        events = told(&mut watch, 1).await;
    }
    // This is a RoleBinding for the user.
    world.grant(second).await;
    assert_eq!(told(&mut watch, 3).await, all("ADDED", second));
    // This is a RoleBinding for a group.
    world.bind(third, &world.role, "Group", &world.group).await;
    assert_eq!(told(&mut watch, 3).await, all("ADDED", third));
    world.put_map(third, "b", "second").await;
    assert_eq!(told(&mut watch, 1).await, [format!("MODIFIED {third}/b")]);
    // Lost objects are deleted, and send no more events.
    world.revoke(second).await;
    assert_eq!(told(&mut watch, 3).await, all("DELETED", second));
    world.put_map(second, "b", "unheard").await;
    world.put_map(hidden, "b", "unheard").await;
    world.put_map(first, "b", "heard").await;
    assert_eq!(told(&mut watch, 1).await, [format!("MODIFIED {first}/b")]);
    // The role loses the verb, and with it everything is lost.
    world.put_role(&["list"]).await;
    let mut lost = told(&mut watch, 6).await;
    lost.sort();
    let mut expected = [all("DELETED", first), all("DELETED", third)].concat();
    expected.sort();
    assert_eq!(lost, expected);
    world.put_map(first, "c", "unheard").await;
    world.put_map(third, "c", "unheard").await;
    assert!(watch.next_within(QUIET).await.is_none());
    world.put_role(&["list", "watch"]).await;
    assert_eq!(told(&mut watch, 6).await.len(), 6);
}

#[tokio::test]
async fn namespaces_come_and_go() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(1, |_| {}).await;
    let first = &world.namespaces[0];
    world.grant(first).await;
    let client = world.client();
    world.settled(&client, &[first]).await;
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let mut watch = Watch::open(&client, &path).await;
    assert_eq!(told(&mut watch, 3).await, all("ADDED", first));
    let mark = watch.next().await.expect("a bookmark");
    assert_eq!(mark.kind, "BOOKMARK");
    let ended = &mark.object["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!(*ended, json!("true"));
    let fresh = world.cluster.namespace("view-fresh").await;
    world.put_map(&fresh, "x", "first").await;
    world.grant(&fresh).await;
    assert_eq!(told(&mut watch, 1).await, [format!("ADDED {fresh}/x")]);
    world.put_map(&fresh, "x", "second").await;
    let changed = watch.take(1).await.remove(0);
    assert_eq!(shown(&changed), format!("MODIFIED {fresh}/x"));
    assert!(changed.version() > mark.version(), "{changed:?} {mark:?}");
    // No controllers run here, so the objects are removed one by one.
    let objects = format!("/api/v1/namespaces/{fresh}/configmaps");
    world
        .admin()
        .delete(&format!("{objects}/x"))
        .await
        .expect(200);
    assert_eq!(told(&mut watch, 1).await, [format!("DELETED {fresh}/x")]);
    world.revoke(&fresh).await;
    world.put_map(first, "a", "second").await;
    assert_eq!(told(&mut watch, 1).await, [format!("MODIFIED {first}/a")]);
}

#[tokio::test]
async fn a_watch_from_before_the_present_set_lists_anew() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |_| {}).await;
    let [first, second] = &world.namespaces[..] else {
        panic!("two namespaces");
    };
    world.grant(first).await;
    world.grant(second).await;
    let client = world.client();
    world.settled(&client, &[first, second]).await;
    let (list, watch) = list_and_watch(&world, &client).await;
    drop(watch);
    // A watch can resume from the version while the set stays the same.
    let path = format!("{MAPS}?watch=1&resourceVersion={}", version(&list));
    drop(Watch::open(&client, &path).await);
    world.revoke(second).await;
    eventually("the end of the set", SOON, || async {
        refusal(&client, &path).await.is_some()
    })
    .await;
    let expired = refusal(&client, &path).await.expect("a refusal");
    let message = expired["message"].as_str().expect("a message");
    let begins = format!("too old resource version: {} (", version(&list));
    assert!(message.starts_with(&begins), "{message}");
    let (list, mut watch) = list_and_watch(&world, &client).await;
    assert!(
        keys(&list)
            .iter()
            .all(|key| key.starts_with(&format!("{first}/")))
    );
    world.put_map(first, "b", "heard").await;
    loop {
        let event = watch.take(1).await.remove(0);
        assert!(key(&event.object).starts_with(first), "{}", shown(&event));
        if shown(&event) == format!("MODIFIED {first}/b") {
            break;
        }
    }
    // No view remembers this version.
    let old = format!("{MAPS}?watch=1&resourceVersion=1");
    assert!(refusal(&client, &old).await.is_some());
}

/// Returns the Status that refuses a watch because its version is too old.
async fn refusal(client: &Client, path: &str) -> Option<Value> {
    let mut watch = Watch::open(client, path).await;
    if !watch.is_refused(QUIET).await {
        return None;
    }
    let event = watch.next().await.expect("an event");
    assert_eq!(event.object["reason"], "Expired", "{}", event.line);
    assert_eq!(watch.next().await.err(), Some(End::Clean));
    Some(event.object)
}

/// Returns the part of the refusal of version 1 that may differ between two servers,
/// namely the oldest version that they know, and the refusal without it.
fn split_refusal(text: &str) -> (String, String) {
    let (before, rest) = text.split_once("version: 1 (").expect("the oldest version");
    let (oldest, after) = rest.split_once(')').expect("the oldest version");
    (oldest.to_owned(), format!("{before}version: 1 (){after}"))
}

/// Returns the headers that do not depend on the server, the time or the user.
fn head(answer: &Answer) -> BTreeMap<String, String> {
    let values = |name: &HeaderName| -> Vec<_> { answer.headers.get_all(name).iter().collect() };
    let hop = ["connection", "date"];
    let names = answer
        .headers
        .keys()
        .filter(|name| !hop.contains(&name.as_str()));
    let own = names.filter(|name| !name.as_str().starts_with("x-apifront"));
    own.map(|name| {
        let value = match name.as_str().starts_with("x-kubernetes-pf-") {
            true => String::new(),
            false => format!("{:?}", values(name)),
        };
        (name.to_string(), value)
    })
    .collect()
}

#[tokio::test]
async fn a_version_that_is_too_old_is_refused_as_kube_apiserver_refuses_it() {
    skip_under_oracle!("kube-apiserver has no views");
    let mut cluster = Cluster::start(&[]).await;
    // A restarted kube-apiserver has no history from before its start.
    cluster.restart_apiserver().await;
    let world = World::before(Box::leak(Box::new(cluster)), 1, |_| {}).await;
    let [first] = &world.namespaces[..] else {
        panic!("a namespace");
    };
    world.grant(first).await;
    world.settled(&world.client(), &[first]).await;
    let old = format!("{MAPS}?watch=1&resourceVersion=1");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let direct = world.admin().over(protocol);
        let client = world.client().over(protocol);
        for accept in MEDIA_TYPES {
            let headers = [("accept", accept), ("audit-id", "same"), DEBUG];
            let theirs = direct.send(Method::GET, &old, &headers, "").await;
            let ours = client.send(Method::GET, &old, &headers, "").await;
            assert!(ours.is_hit(), "{accept}: {}", ours.text());
            assert_eq!(theirs.status, ours.status, "{accept}");
            assert_eq!(theirs.status, 200, "{accept}");
            assert_eq!(head(&theirs), head(&ours), "{accept}");
            let encoding = match accept.contains("protobuf") {
                true => Encoding::Protobuf,
                false => Encoding::Json,
            };
            for (whose, body) in [("kube-apiserver", &theirs.body), ("apifront", &ours.body)] {
                let (oldest, _) = split_refusal(&String::from_utf8_lossy(body));
                let message = format!("too old resource version: 1 ({oldest})");
                let frame = watch_error(&Status::expired(message), encoding);
                assert_eq!(*body, frame, "{accept}: {whose}");
            }
        }
    }
    let mut said = Vec::new();
    for client in [world.admin(), world.client()] {
        let mut connection = open(&client, &handshake(&old, &[])).await;
        let bytes = connection.read_reply(QUIET).await;
        assert!(bytes.ends_with(&[0x88, 2, 3, 0xe8]), "the close frame");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let begins = text.find("{").expect("an event");
        assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
        said.push(split_refusal(&text[begins..]).1);
    }
    assert_eq!(said[0], said[1]);
}

#[tokio::test]
async fn forms_and_selectors_of_watches() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |_| {}).await;
    let [first, second] = &world.namespaces[..] else {
        panic!("two namespaces");
    };
    world.grant(first).await;
    let client = world.client();
    world.settled(&client, &[first]).await;
    let selected = format!("{MAPS}?watch=1&labelSelector=app%3Db");
    let mut watch = Watch::open(&client, &selected).await;
    assert_eq!(told(&mut watch, 1).await, [format!("ADDED {first}/b")]);
    let tables = client
        .clone()
        .with_header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut table = Watch::open(&tables, &selected).await;
    let row = |event: &crate::harness::watch::Event| {
        let row = &event.object["rows"][0];
        format!("{} {}", event.kind, key(&row["object"]))
    };
    assert_eq!(row(&table.take(1).await[0]), format!("ADDED {first}/b"));
    world.grant(second).await;
    assert_eq!(told(&mut watch, 1).await, [format!("ADDED {second}/b")]);
    assert_eq!(row(&table.take(1).await[0]), format!("ADDED {second}/b"));
    world.revoke(second).await;
    assert_eq!(told(&mut watch, 1).await, [format!("DELETED {second}/b")]);
    assert_eq!(row(&table.take(1).await[0]), format!("DELETED {second}/b"));
}

/// A version does not show which apifront gave it, nor what that one showed.
#[tokio::test]
async fn an_apifront_does_not_go_on_from_what_another_showed() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(1, |_| {}).await;
    let first = &world.namespaces[0];
    world.grant(first).await;
    let here = world.client();
    world.settled(&here, &[first]).await;
    let front = Apifront::start(&world.cluster, |config| {
        config["views"] = json!({ "users": [world.tenant] });
    })
    .await;
    let there = front.client(Some(&world.certificate()));
    world.settled(&there, &[first]).await;
    let (_, mut watch) = list_and_watch(&world, &here).await;
    // Both know their sets, and begin watches from their own lists.
    drop(list_and_watch(&world, &there).await);
    world.put_map(first, "b", "second").await;
    let event = loop {
        let event = watch.take(1).await.remove(0);
        if shown(&event) == format!("MODIFIED {first}/b") {
            break event;
        }
    };
    let path = format!("{MAPS}?watch=1&resourceVersion={}", event.version());
    assert!(refusal(&there, &path).await.is_some());
    drop(list_and_watch(&world, &there).await);
    drop(watch);
    front.stop().await;
}
