//! Every read through apifront shows every write that was acknowledged before the
//! read began, while writers go on.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::release::Release;
use crate::harness::watch::Watch;

/// The number of objects, each with its own writer.
const OBJECTS: usize = 12;
const READERS: usize = 8;
const READS: usize = 270;
/// The number of writes in an object's life: a creation, two changes, a deletion.
const LIFE: u64 = 4;

/// The number of an object's last write.
#[derive(Default)]
struct Written {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

fn name(n: usize) -> String {
    format!("object-{n:02}")
}

async fn write(client: &Client, list: &str, n: usize, written: &Written, stop: &AtomicBool) {
    let path = format!("{list}/{}", name(n));
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        written.begun.store(number, Ordering::SeqCst);
        let labels = json!({"half": (n % 2).to_string()});
        let object = config_map(&name(n), labels, json!({"n": number.to_string()}));
        match number % LIFE {
            1 => client.post(list, &object).await.expect(201),
            0 => client.delete(&path).await.expect(200),
            _ => client.put(&path, &object).await.expect(200),
        };
        written.acknowledged.store(number, Ordering::SeqCst);
    }
}

fn number(object: &Value) -> u64 {
    let text = object["data"]["n"].as_str().unwrap_or_default();
    text.parse().expect("a number")
}

/// Fails if the object in an answer is older than the last write that was
/// acknowledged before the read.
fn check(read: &str, n: usize, found: Option<u64>, before: u64, begun: u64) {
    match found {
        Some(number) => assert!(
            before <= number && number <= begun,
            "{read}: {} is at {number}, of {before} to {begun}",
            name(n)
        ),
        // The reader saw the object's deletion.
        None => {
            let deletion = before.div_ceil(LIFE) * LIFE;
            assert!(
                deletion <= begun,
                "{read}: {} is not there after {before}, of {begun}",
                name(n)
            );
        }
    }
}

async fn initial_events(client: &Client, path: &str) -> Vec<Value> {
    let mut watch = Watch::open(client, path).await;
    let mut objects = Vec::new();
    loop {
        let event = watch.next().await.expect("an event");
        match event.kind.as_str() {
            "BOOKMARK" => return objects,
            _ => objects.push(event.object),
        }
    }
}

async fn read(client: &Client, list: &str, turn: usize, written: &[Written]) -> bool {
    let before: Vec<_> = written
        .iter()
        .map(|w| w.acknowledged.load(Ordering::SeqCst))
        .collect();
    let one = turn % OBJECTS;
    let (path, shown): (String, Vec<usize>) = match turn % 5 {
        0 => (format!("{list}/{}", name(one)), vec![one]),
        1 => (list.to_owned(), (0..OBJECTS).collect()),
        2 => {
            let half = (0..OBJECTS).filter(|n| n % 2 == 1).collect();
            (format!("{list}?labelSelector=half%3D1"), half)
        }
        3 => (format!("{list}?limit=500"), (0..OBJECTS).collect()),
        _ if !Release::under_test().has_watch_list() => (list.to_owned(), (0..OBJECTS).collect()),
        _ => {
            let options = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                           &allowWatchBookmarks=true&timeoutSeconds=30";
            (format!("{list}?{options}"), (0..OBJECTS).collect())
        }
    };
    let (objects, hit) = if path.contains("watch=1") {
        (initial_events(client, &path).await, true)
    } else {
        let answer = client.get(&path).await;
        let hit = answer.header("x-apifront-cache").starts_with("hit");
        let body = answer.json();
        match (answer.status.as_u16(), body["items"].as_array()) {
            (200, Some(items)) => (items.clone(), hit),
            (200, None) => (vec![body], hit),
            // Refusals do not have the header.
            (404, _) => (Vec::new(), true),
            (code, _) => panic!("{path}: {code} {body}"),
        }
    };
    for n in shown {
        let found = objects
            .iter()
            .find(|o| o["metadata"]["name"] == name(n).as_str())
            .map(number);
        let begun = written[n].begun.load(Ordering::SeqCst);
        check(&path, n, found, before[n], begun);
    }
    hit
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn strict_reads_are_linearizable_under_writers() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |config| {
        config["cache"]["consistency"] = json!("Strict");
    })
    .await;
    let ns = cluster.namespace("linear").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let through = front
        .admin_client()
        .with_header("x-apifront-debug", "cache");
    front
        .warm(&through, "/api/v1/configmaps?resourceVersion=0")
        .await;
    let (stop, hits) = (AtomicBool::new(false), AtomicUsize::new(0));
    let written: Vec<Written> = (0..OBJECTS).map(|_| Written::default()).collect();
    let direct = cluster.admin_client();
    let writers = written
        .iter()
        .enumerate()
        .map(|(n, written)| write(&direct, &list, n, written, &stop));
    let readers = async {
        let reader = |r: usize| {
            let client = through.separate();
            let (list, written, hits) = (&list, &written, &hits);
            async move {
                for turn in 0..READS {
                    let hit = read(&client, list, turn + r, written).await;
                    hits.fetch_add(usize::from(hit), Ordering::Relaxed);
                }
            }
        };
        futures::future::join_all((0..READERS).map(reader)).await;
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures::future::join_all(writers), readers);
    let writes: u64 = written
        .iter()
        .map(|w| w.acknowledged.load(Ordering::SeqCst))
        .sum();
    let (reads, hits) = (READERS * READS, hits.into_inner());
    let upstream = front
        .metric(
            "apifront_upstream_requests_total",
            &[("kind", "shared_read")],
        )
        .await;
    println!("{reads} reads, {hits} of them from memory, {upstream} upstream; {writes} writes");
    assert!(hits * 100 >= reads * 95, "{hits} of {reads} from memory");
    front.stop().await;
}
