//! WatchList (KEP-3157): a watch that begins with the state.

use std::time::Duration;

use futures::future::join_all;
use http::Method;
use serde_json::json;

use super::{JSON, LISTS, SEND, World};
use crate::harness::client::{Answer, Client};
use crate::harness::expect::DEBUG;
use crate::harness::media_types::{PARTIAL, PROTOBUF_WATCH, TABLE};
use crate::harness::objects::config_map;
use crate::harness::release::{Release, expect_no_watch_list, tell_left_out};
use crate::harness::watch::{Event, Watch};
use crate::harness::{ages_have_ticked, apifront::Apifront, eventually};

const DECLINE: &str = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
const SOON: Duration = Duration::from_secs(30);
/// The number of tries, since ages in Tables tick between two answers.
const TRIES: usize = 6;

/// The streams equal those of a server with the feature, except for the version of
/// the last bookmark, which each cache has for itself.
#[tokio::test]
async fn initial_events_are_those_of_a_server_with_the_feature() {
    skip_under_oracle!("the upstream lacks the feature");
    let world = World::alone().await;
    let (old, newer, front) = (world.old(), world.newer(), world.front.admin_client());
    let mut accepted = vec![JSON, PARTIAL];
    if Release::at_least(34) {
        // Before 1.34 objects are written differently: their protobuf comes from the
        // upstream, and the old store has no order that determines the first row.
        accepted.extend([TABLE, PROTOBUF_WATCH]);
    }
    let empty = "/apis/apps/v1/daemonsets";
    let mut compared = 0;
    for list in LISTS.into_iter().chain([empty]) {
        // The upstream answers until the resource is in memory and its columns are
        // known.
        for accept in [JSON, PARTIAL, TABLE] {
            let headers = [("accept", accept), DEBUG];
            let path = format!("{list}?resourceVersion=0");
            eventually("the resource in memory", SOON, || async {
                let answer = front.send(Method::GET, &path, &headers, "").await;
                answer.is_hit() || answer.header("x-apifront-cache").contains("representation")
            })
            .await;
        }
        let all = newer.get(list).await.expect(200);
        let version = super::version_of(&all);
        let is_custom = list.contains("widgets");
        let mut paths = Vec::new();
        for query in [
            format!("{SEND}&timeoutSeconds=1"),
            format!("{SEND}&timeoutSeconds=1&resourceVersion=0"),
            format!("{SEND}&timeoutSeconds=1&labelSelector=parity%3Dodd"),
            format!("{SEND}&timeoutSeconds=1&fieldSelector=metadata.name%3Dobject-1"),
            format!("{SEND}&timeoutSeconds=1").replace("&allowWatchBookmarks=true", ""),
        ] {
            let path = format!("{list}?{query}");
            if version == 0 {
                continue;
            }
            if query.contains("metadata.name") && is_custom && !Release::at_least(32) {
                // 1.31 sends no object here, although its list has it.
                tell_left_out(&path);
                continue;
            }
            expect_no_watch_list(&old, &path).await;
            // Custom resources have no protobuf.
            let accepted = accepted
                .iter()
                .filter(|a| **a != PROTOBUF_WATCH || !is_custom);
            paths.extend(accepted.map(|accept| (path.clone(), *accept)));
        }
        // Most of the time passes while the watches are open.
        let asked = paths.iter();
        let asked = asked.map(|(path, accept)| same(&newer, &front, path, accept));
        compared += join_all(asked).await.len();
    }
    println!("compared: {compared} answers, {compared} of them from the cache");
}

async fn same(newer: &Client, front: &Client, path: &str, accept: &str) {
    let headers = [("accept", accept)];
    let debug = [("accept", accept), DEBUG];
    for turn in 1.. {
        let (theirs, ours) = tokio::join!(
            newer.send(Method::GET, path, &headers, ""),
            front.send(Method::GET, path, &debug, ""),
        );
        assert_eq!(
            ours.status,
            200,
            "{path} as {accept}: not given: {} {:?}",
            ours.text(),
            ours.headers
        );
        assert!(ours.is_hit(), "{path} as {accept}: {:?}", ours.headers);
        assert_eq!(ours.header("content-type"), theirs.header("content-type"));
        let (theirs, ours) = (events(&theirs, accept), events(&ours, accept));
        if theirs == ours {
            let marked = path.contains("allowWatchBookmarks");
            let ends = ours.last().is_some_and(|last| last.contains("END"));
            assert_eq!(ends, marked, "{path} as {accept}: {ours:?}");
            return;
        }
        assert!(
            turn < TRIES,
            "{path} as {accept}\n- {theirs:#?}\n+ {ours:#?}"
        );
        ages_have_ticked().await;
    }
}

/// Returns the events. A bookmark appears without its version, and with `END` before
/// it if it ends the initial events.
fn events(answer: &Answer, accept: &str) -> Vec<String> {
    if accept == PROTOBUF_WATCH {
        // The version is the only number among the bytes of the last frame.
        let text = answer.body.escape_ascii().to_string();
        let end = text.contains("initial-events-end");
        let (before, last) = text.rsplit_once("BOOKMARK").unwrap_or((&text, ""));
        let last: String = last.chars().filter(|c| !c.is_ascii_digit()).collect();
        let mark = if end { "END" } else { "" };
        return vec![format!("{before}{last}{mark}")];
    }
    let text = answer.text();
    let mut lines: Vec<String> = text.lines().map(masked).collect();
    if !Release::at_least(34) {
        // The store of older releases has no order.
        lines.sort();
    }
    lines
}

fn masked(line: &str) -> String {
    if !line.starts_with(r#"{"type":"BOOKMARK""#) {
        return line.to_owned();
    }
    let event: serde_json::Value = serde_json::from_str(line).expect("an event");
    let meta = match &event["object"]["metadata"] {
        meta if meta["resourceVersion"].is_string() && event["object"]["rows"].is_null() => meta,
        _ => &event["object"]["rows"][0]["object"]["metadata"],
    };
    let version = meta["resourceVersion"].as_str().unwrap_or("none");
    let mut line = line.replace(&format!("\"{version}\""), "\"N\"");
    // An annotation of releases before 1.34, which no client reads any more.
    let blueprint = &meta["annotations"]["kubernetes.io/initial-events-list-blueprint"];
    if let Some(value) = blueprint.as_str() {
        let member = format!(r#","kubernetes.io/initial-events-list-blueprint":"{value}""#);
        line = line.replace(&member, "");
    }
    match meta["annotations"]["k8s.io/initial-events-end"] == "true" {
        true => format!("~END {line}"),
        false => line,
    }
}

/// The watch goes on after its initial events. A watch that declines them begins at
/// the newest version.
#[tokio::test]
async fn later_events_follow() {
    skip_under_oracle!("the upstream lacks the feature");
    let world = World::alone().await;
    let ns = world.cluster.namespace("later").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let (old, newer, front) = (world.old(), world.newer(), world.front.admin_client());
    world
        .front
        .warm(&front, &format!("{list}?resourceVersion=0"))
        .await;
    let made = config_map("first", json!({}), json!({}));
    old.post(&list, &made).await.expect(201);
    let mut both = Vec::new();
    for client in [&newer, &front] {
        let mut all = Watch::open(client, &format!("{list}?{SEND}")).await;
        assert_eq!(all.next().await.expect("an event").short(), "ADDED first");
        let end = all.next().await.expect("a bookmark");
        assert_eq!(end.kind, "BOOKMARK", "{}", end.line);
        let declined = Watch::open(client, &format!("{list}?{DECLINE}")).await;
        both.push([all, declined]);
    }
    for n in 0..3 {
        let made = config_map(&format!("later-{n}"), json!({}), json!({}));
        old.post(&list, &made).await.expect(201);
        let one = format!("{list}/later-{n}");
        let patch = json!({ "data": { "a": "b" } });
        let patched = old.patch(&one, "merge-patch+json", &patch).await;
        patched.expect(200);
        old.delete(&one).await.expect(200);
    }
    let mut streams = Vec::new();
    for watch in both.iter_mut().flatten() {
        streams.push(lines(watch.take(9).await));
    }
    assert!(
        streams.iter().all(|stream| *stream == streams[0]),
        "{streams:#?}"
    );
}

fn lines(events: Vec<Event>) -> Vec<String> {
    events.into_iter().map(|event| event.line).collect()
}

/// Such a watch may be the first request for a resource. It then waits until the
/// resource is listed and its bookmark is known. After one refusal, client-go would
/// not ask again.
#[tokio::test]
async fn the_first_request_for_a_resource_is_not_refused() {
    skip_under_oracle!("the upstream lacks the feature");
    let world = World::alone().await;
    let front = Apifront::start(&world.cluster, |_| {}).await;
    let client = front.admin_client();
    for list in LISTS {
        let mut watch = Watch::open(&client, &format!("{list}?{SEND}")).await;
        let events = watch.take(super::OBJECTS).await;
        assert!(events.iter().all(|event| event.kind == "ADDED"));
        let end = watch.next().await.expect("a bookmark");
        let annotations = &end.object["metadata"]["annotations"];
        assert_eq!(
            annotations["k8s.io/initial-events-end"], "true",
            "{}",
            end.line
        );
    }
    front.stop().await;
}

/// If the cache does not answer, the old server refuses the watch, like everything
/// with this option.
#[tokio::test]
async fn what_the_cache_does_not_answer_is_refused_as_upstream_refuses_it() {
    skip_under_oracle!("the upstream lacks the feature");
    let world = World::alone().await;
    let (old, front) = (world.old(), world.front.admin_client());
    for path in [
        format!("{}?{SEND}&resourceVersion=999999999", LISTS[0]),
        format!("{}?{SEND}&unknown=1", LISTS[0]),
        format!("/api/v1/events?{SEND}"),
        format!("{}?watch=1&sendInitialEvents=true", LISTS[1]),
        format!("{}?sendInitialEvents=true", LISTS[1]),
    ] {
        let (theirs, ours) = (old.get(&path).await, front.get(&path).await);
        assert_eq!(theirs.status, 422, "{path}: {}", theirs.text());
        assert_eq!((ours.status, ours.text()), (theirs.status, theirs.text()));
    }
    // A watch that did not ask for initial events has no mark at their end.
    let path = format!(
        "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1",
        LISTS[1]
    );
    let (theirs, ours) = (old.get(&path).await, front.get(&path).await);
    let sorted = |answer: &Answer| {
        let mut lines: Vec<String> = answer.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ours), sorted(&theirs));
    assert!(!ours.text().contains("BOOKMARK"), "{}", ours.text());
}
