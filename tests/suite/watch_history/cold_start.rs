//! Watches from versions before apifront's start. Their clients were connected to
//! another process, or to this one before it was killed.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

use super::{version, warm};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, grant};
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::objects::{config_map, role, role_binding};
use crate::harness::release::{Release, tell_left_out};
use crate::harness::watch::MEDIA_TYPES;

const SELECTORS: [&str; 4] = [
    "",
    "&labelSelector=app%3Done",
    "&labelSelector=app+in+%28two%2Cthree%29",
    "&fieldSelector=metadata.name%3Dmoves",
];
/// The time after which nothing more is expected. apifront asks the upstream for up
/// to three seconds.
const FIRST_WITHIN: Duration = Duration::from_secs(8);
const QUIET: Duration = Duration::from_millis(700);
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// The most questions of one caller at a time.
const PLACES: usize = 24;
/// The time after which apifront makes kube-apiserver answer a question.
const ANSWERED_AFTER: Duration = Duration::from_millis(300);
/// The part of a priority level is less than the number of watches that wait, and more than
/// that of requests that are worked on at a time.
const SEATS: usize = 100;
/// More watches than apifront may hold answers for.
const MANY: usize = 80;

struct Open {
    body: Incoming,
    cache: String,
}

impl Open {
    async fn new(client: &Client, path: &str, accept: &str) -> Self {
        let answer = client.open(path, &[("accept", accept), DEBUG]).await;
        assert_eq!(answer.status(), 200, "{path}");
        let cache = answer.headers().get("x-apifront-cache");
        let cache = cache.map(|value| value.to_str().expect("text").to_owned());
        Self {
            cache: cache.unwrap_or_default(),
            body: answer.into_body(),
        }
    }

    /// Returns the bytes from the first one until a pause.
    async fn told(&mut self) -> Bytes {
        let mut told = BytesMut::new();
        let mut wait = FIRST_WITHIN;
        while let Ok(frame) = tokio::time::timeout(wait, self.body.frame()).await {
            let frame = frame.expect("the watch goes on").expect("a frame");
            told.extend(frame.into_data().ok());
            wait = QUIET;
        }
        told.freeze()
    }

    /// Returns the code of the only event, an error, after which the watch ends.
    async fn error(&mut self) -> u64 {
        let told = tokio::time::timeout(FIRST_WITHIN, (&mut self.body).collect());
        let told = told.await.expect("it ends").expect("a body").to_bytes();
        let event: serde_json::Value = serde_json::from_slice(&told).expect("an event");
        assert_eq!(event["type"], "ERROR", "{event}");
        event["object"]["code"].as_u64().expect("a code")
    }
}

/// Returns the events for a comparison. Removes the ages of Tables, which tick, and
/// their columns: kube-apiserver shares an event's frame with watches for which it
/// is not the first one.
fn comparable(told: &[u8], accept: &str) -> Vec<String> {
    if !accept.contains("as=Table") {
        return vec![format!("{told:?}")];
    }
    let lines = serde_json::Deserializer::from_slice(told).into_iter::<serde_json::Value>();
    let without_age = lines.map(|line| {
        let mut event = line.expect("an event");
        for row in event["object"]["rows"].as_array_mut().expect("rows") {
            let age = row["cells"][2].take();
            assert!(age.is_string(), "{row}");
        }
        if let Some(table) = event["object"].as_object_mut() {
            table.remove("columnDefinitions");
        }
        event.to_string()
    });
    without_age.collect()
}

/// Returns how often apifront has asked upstream for earlier events.
async fn questions(front: &Apifront) -> f64 {
    let name = "apifront_upstream_requests_total";
    front.metric(name, &[("kind", "earlier_events")]).await
}

/// Opens watches of different selections, as kubelets have, each of which needs a
/// question of its own. Whoever has no place for one is told to list again. None is
/// forwarded.
async fn each_asks_or_lists_again(
    front: &Apifront,
    client: &Client,
    path: impl Fn(&str) -> String,
) {
    let each = (0..MANY).map(|n| {
        let path = path(&format!("of-node-{n}"));
        async move { Open::new(client, &path, MEDIA_TYPES[0]).await }
    });
    let began = Instant::now();
    let mut each = join_all(each).await;
    let in_turn = 1.0 + began.elapsed().div_duration_f64(ANSWERED_AFTER).floor();
    for open in &each {
        assert!(open.cache.starts_with("hit"), "{}", open.cache);
    }
    let expired = each.iter_mut();
    let expired = expired.filter(|open| !open.cache.contains("events"));
    let codes = join_all(expired.map(Open::error)).await;
    assert!(codes.iter().all(|code| *code == 410), "{codes:?}");
    let asked = questions(front).await;
    // A place may be taken again when its question is answered.
    let most = PLACES as f64 * in_turn;
    assert!(asked <= most, "{asked} questions, {most} could be");
    assert_eq!(asked as usize + codes.len(), MANY);
}

fn of_app(name: &str, app: &str) -> serde_json::Value {
    config_map(name, json!({ "app": app }), json!({ "app": app }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_from_before_a_cold_start_is_answered_from_memory() {
    skip_under_oracle!("it is about apifront's history");
    let cluster = Cluster::leased(&[]).await;
    let mut front = Apifront::start_directly(&cluster, |_| {}).await;
    let (direct, client) = (cluster.admin_client(), front.admin_client());
    let ns = cluster.namespace("cold").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let put = |name: &str, app: &str| {
        let (path, object) = (format!("{list}/{name}"), of_app(name, app));
        let direct = direct.clone();
        async move { version(&direct.put(&path, &object).await.expect(200)) }
    };
    let make = |name: &str| {
        let (list, object) = (list.clone(), of_app(name, "one"));
        let direct = direct.clone();
        async move { version(&direct.post(&list, &object).await.expect(201)) }
    };
    // Each client has seen events up to another one of these versions.
    let mut versions = vec![make("stays").await, make("moves").await];
    warm(&front, &client).await;
    versions.push(put("moves", "two").await);
    versions.push(make("goes").await);
    direct.delete(&format!("{list}/goes")).await.expect(200);
    put("moves", "three").await;
    versions.push(put("stays", "two").await);
    // Servers that answer a list of one object from their cache ask etcd for a newer
    // version then.
    let tells_newer = Release::at_least(34);
    let other = format!("/api/v1/namespaces/{ns}/secrets");
    let write_another = async |name: &str| {
        let secret = json!({ "metadata": { "name": name } });
        direct.post(&other, &secret).await.expect(201);
    };
    if tells_newer {
        // So the history begins after all of these versions.
        write_another("before").await;
    }
    front.restart().await;
    let client = client.separate();
    warm(&front, &client).await;

    let labels = [("verb", "WATCH"), ("resource", "configmaps")];
    let watches = async || {
        let name = "apiserver_longrunning_requests";
        cluster.metric(name, &labels).await
    };
    let before = watches().await;
    // One connection to kube-apiserver has room for 100 watches.
    let connections: Vec<_> = MEDIA_TYPES
        .iter()
        .map(|accept| (*accept, client.separate(), direct.separate()))
        .collect();
    let mut open = Vec::new();
    for (accept, client, direct) in &connections {
        for selector in SELECTORS {
            for from in &versions {
                let path = format!("{list}?watch=1&resourceVersion={from}{selector}");
                open.push(async move {
                    let (here, there) = tokio::join!(
                        Open::new(client, &path, accept),
                        Open::new(direct, &path, accept),
                    );
                    (path, accept, here, there)
                });
            }
        }
    }
    let mut open = join_all(open).await;
    let mut bytes = 0;
    for round in ["before the start", "after it"] {
        if round == "after it" {
            put("moves", "one").await;
            make("comes").await;
        }
        let read = open
            .iter_mut()
            .map(|(path, accept, here, there)| async move {
                let (ours, theirs) = tokio::join!(here.told(), there.told());
                let (ours, right) = (comparable(&ours, accept), comparable(&theirs, accept));
                assert_eq!(ours, right, "{round}: {path} as {accept}");
                theirs.len()
            });
        bytes += join_all(read).await.into_iter().sum::<usize>();
    }
    let hits = open
        .iter()
        .filter(|(_, _, here, _)| here.cache.starts_with("hit"))
        .count();
    println!("{} watches, {hits} from memory, {bytes} bytes", open.len());
    assert!(hits >= PLACES.min(open.len()), "{hits} of {}", open.len());
    drop(open);

    // Many watches of one selection share one question, and get the same events.
    let asked = questions(&front).await;
    assert!(
        asked <= (SELECTORS.len() * versions.len()) as f64,
        "{asked}"
    );
    let path = format!("{list}?watch=1&resourceVersion={}", versions[0]);
    let many = (0..MANY).map(|_| Open::new(&client, &path, MEDIA_TYPES[0]));
    let mut many = join_all(many).await;
    let right = Open::new(&direct, &path, MEDIA_TYPES[0]).await.told().await;
    let told = join_all(many.iter_mut().map(Open::told)).await;
    assert!(told.iter().all(|told| *told == right));
    assert!(many.iter().all(|open| open.cache.starts_with("hit")));
    let asked = questions(&front).await - asked;
    // An older server may leave questions unanswered. Then others ask again.
    assert!(
        asked <= 1.0 || !tells_newer,
        "{asked} questions for {MANY} watches"
    );
    drop(many);

    // Nobody asks about an object that was last written before.
    let path_of = |version: u64, name: &str| {
        format!("{list}?watch=1&resourceVersion={version}&fieldSelector=metadata.name%3D{name}")
    };
    let newest = put("stays", "one").await;
    write_another("between").await;
    front.restart().await;
    let client = client.separate();
    warm(&front, &client).await;
    let known = Open::new(&client, &path_of(newest, "stays"), MEDIA_TYPES[0]).await;
    assert!(known.cache.starts_with("hit"), "{}", known.cache);
    assert_eq!(questions(&front).await, 0.0);
    drop(known);

    if tells_newer {
        write_another("after").await;
        each_asks_or_lists_again(&front, &client, |name| path_of(newest, name)).await;
    }

    eventually("the short watches are over", GONE_WITHIN, || async {
        watches().await <= before
    })
    .await;
    front.stop().await;
}

/// A herd comes back with a version from before the start. It waits for one question, and
/// holds no seats meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_that_waits_for_earlier_events_holds_no_seats() {
    skip_under_oracle!("it is about apifront's history");
    if !Release::at_least(34) {
        // An older server may leave the question unanswered.
        tell_left_out("a herd that waits for earlier events");
        return;
    }
    let cluster = Cluster::leased(&[]).await;
    let mut front = Apifront::start_directly(&cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(SEATS);
    })
    .await;
    let direct = cluster.admin_client();
    let ns = cluster.namespace("herd").await;
    let grants = [
        role("reader", &[""], &["configmaps"], &["get", "list", "watch"]),
        role_binding("reader", "reader", "Group", "readers"),
    ];
    grant(&direct, &ns, &grants).await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let seen = version(&direct.post(&list, &of_app("one", "one")).await.expect(201));
    let later = of_app("later", "two");
    direct.post(&list, &later).await.expect(201);
    front.restart().await;
    warm(&front, &front.admin_client()).await;

    let reader = cluster.certificates.client("reader", &["readers"]);
    let reader = front.client(Some(&reader));
    // The rights are known, and no request waits for them.
    for verb in ["", "&watch=1&timeoutSeconds=1"] {
        let path = format!("{list}?resourceVersion=0{verb}");
        assert_eq!(reader.get(&path).await.status, 200);
    }
    // Nothing has happened to what is selected, which upstream tells after a while, when it
    // knows of something newer.
    let secrets = format!("/api/v1/namespaces/{ns}/secrets");
    let secret = json!({ "metadata": { "name": "newer" } });
    direct.post(&secrets, &secret).await.expect(201);
    let path = format!("{list}?watch=1&resourceVersion={seen}&labelSelector=app%3Done");
    let herd = (0..MANY).map(|_| Open::new(&reader, &path, MEDIA_TYPES[0]));
    let began = Instant::now();
    for open in join_all(herd).await {
        assert!(open.cache.starts_with("hit"), "{}", open.cache);
    }
    let took = began.elapsed().as_secs_f64();
    assert_eq!(questions(&front).await, 1.0);
    let name = "apiserver_flowcontrol_request_execution_seconds_sum";
    let held = front.metric(name, &[("type", "watch")]).await;
    // A watch that waits with a seat holds it all the time, and there are seats for 25.
    assert!(held < 10.0 * took, "{held} s within {took} s");
    front.stop().await;
}
