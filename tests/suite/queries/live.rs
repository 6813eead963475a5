//! Live answers: whoever applies their events has the answer of a new query.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::rights::may_ask;
use super::{QUERIES, enable, query, shared_front};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::config_map;
use crate::harness::volume;
use crate::harness::watch::{End, Event, Watch};
use crate::views::world::{SOON, World};

const LIVE: &str = "/apis/query.apifront.dev/v1alpha1/queries?watch=true";

/// What a reader of a live answer has.
#[derive(Debug, Default, PartialEq)]
struct Reader {
    total: u64,
    rows: Vec<Value>,
    counts: Vec<Value>,
    version: u64,
}

fn number(of: &Value) -> usize {
    usize::try_from(of.as_u64().expect("a number")).unwrap()
}

impl Reader {
    fn of(status: &Value) -> Self {
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        Self {
            total: status["total"].as_u64().unwrap(),
            rows: list(&status["rows"]),
            counts: list(&status["counts"]),
            version: status["resourceVersion"].as_str().unwrap().parse().unwrap(),
        }
    }

    fn begin(event: &Event) -> Self {
        assert_eq!(event.kind, "ADDED", "{}", event.line);
        Self::of(&event.object["status"])
    }

    fn apply(&mut self, event: &Event) {
        let status = &event.object["status"];
        let version: u64 = status["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(version >= self.version, "{}", event.line);
        self.version = version;
        self.total = status["total"].as_u64().unwrap();
        if event.kind == "BOOKMARK" {
            return;
        }
        assert_eq!(event.kind, "MODIFIED", "{}", event.line);
        if let Some(counts) = status["counts"].as_array() {
            self.counts = counts.clone();
        }
        for change in status["changes"].as_array().into_iter().flatten() {
            let (index, row) = (number(&change["index"]), change["row"].clone());
            match change["type"].as_str().unwrap() {
                "Removed" => drop(self.rows.remove(index)),
                "Added" => self.rows.insert(index, row),
                "Moved" => {
                    let row = self.rows.remove(number(&change["from"]));
                    self.rows.insert(index, row);
                }
                "Changed" => self.rows[index] = row,
                other => panic!("{other}"),
            }
        }
    }

    /// Applies events until the reader has at least this version.
    async fn read_up_to(&mut self, watch: &mut Watch, version: u64) {
        while self.version < version {
            let event = watch.next().await.expect("an event");
            self.apply(&event);
        }
    }

    fn shown(&self) -> (u64, &[Value], &[Value]) {
        (self.total, &self.rows, &self.counts)
    }
}

fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn random_map(rng: &mut StdRng, n: usize) -> Value {
    let mut data = json!({ "n": rng.random_range(0..5).to_string() });
    if rng.random_bool(0.7) {
        data["color"] = json!(["red", "blue", "green"][rng.random_range(0..3)]);
    }
    config_map(&format!("m{n}"), json!({ "of": "live" }), data)
}

/// Writes an object, or deletes it. Returns the version.
async fn write(admin: &Client, maps: &str, map: &Value, is_deleted: bool) -> Option<u64> {
    let path = format!("{maps}/{}", map["metadata"]["name"].as_str().unwrap());
    let answer = match is_deleted {
        true => admin.delete(&path).await,
        false => {
            let put = admin.put(&path, map).await;
            match put.status == 404 {
                true => admin.post(maps, map).await,
                false => put,
            }
        }
    };
    let version = answer.json()["metadata"]["resourceVersion"].clone();
    version.as_str().map(|version| version.parse().unwrap())
}

#[tokio::test]
async fn live_answers_and_kept_orders_are_those_of_new_queries() {
    skip_under_oracle!("kube-apiserver has no queries");
    let seed = volume::seed("live_answers_and_kept_orders");
    let mut rng = StdRng::seed_from_u64(seed);
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), shared_front().admin_client());
    let namespace = cluster.namespace("live").await;
    let maps = maps(&namespace);
    // Orders are kept of resources with this many objects.
    for n in 0..110 {
        admin
            .post(&maps, &random_map(&mut rng, n))
            .await
            .expect(201);
    }
    let orders = [
        json!([]),
        json!([{ "expression": "int(object.data.n)", "descending": true }]),
        json!([{ "column": "color" }, { "column": "n", "descending": true }]),
    ];
    let conditions = ["", "object.data.color != 'red'", "int(object.data.n) > 1"];
    let mut specs = Vec::new();
    for (n, order) in orders.iter().enumerate() {
        for condition in conditions {
            specs.push(json!({
                "resource": { "version": "v1", "resource": "configmaps" },
                "namespaces": [namespace],
                "labelSelector": "of=live",
                "where": condition,
                "columns": [
                    { "name": "color", "expression": "object.data.color" },
                    { "name": "n", "expression": "object.data.n" },
                ],
                "orderBy": order,
                "countBy": ["object.data.color"],
                "limit": 1 + rng.random_range(0..12),
                "offset": 6 * n,
                "maxUpdatesPerSecond": 10,
            }));
        }
    }
    let mut live = Vec::new();
    for spec in &specs {
        let mut watch = Watch::post(&through, LIVE, &query(spec)).await;
        let reader = Reader::begin(&watch.next().await.expect("the first event"));
        live.push((watch, reader));
    }
    for round in 0..12 {
        let mut version = 0;
        for _ in 0..rng.random_range(1..25) {
            let n = rng.random_range(0..130);
            let map = random_map(&mut rng, n);
            let written = write(&admin, &maps, &map, rng.random_bool(0.3)).await;
            version = version.max(written.unwrap_or(0));
        }
        for (spec, (watch, reader)) in specs.iter().zip(&mut live) {
            let told = format!("round {round}, seed {seed}: {spec:#}");
            // A query with other columns has another plan, but the same order.
            let answer = through.post(QUERIES, &query(spec)).await.expect(201);
            let expected = Reader::of(&answer["status"]);
            assert!(expected.version >= version, "{told}");
            while reader.shown() != expected.shown() {
                let event = watch.next().await.expect("an event");
                reader.apply(&event);
            }
        }
    }
    check_by_hand(&admin, &through, &maps, &specs[4]).await;
}

/// Compares the answer of one query with a list.
async fn check_by_hand(admin: &Client, through: &Client, maps: &str, spec: &Value) {
    let list = admin.get(&format!("{maps}?labelSelector=of%3Dlive")).await;
    let list = list.expect(200);
    let number = |map: &Value| map["data"]["n"].as_str().unwrap().parse::<i64>().unwrap();
    let mut maps: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
    maps.retain(|map| {
        map["data"]["color"]
            .as_str()
            .is_some_and(|color| color != "red")
    });
    maps.sort_by_key(|map| -number(map));
    let answer = through.post(QUERIES, &query(spec)).await.expect(201);
    assert_eq!(answer["status"]["total"], maps.len());
    let (offset, limit) = (number_of(spec, "offset"), number_of(spec, "limit"));
    let names = maps.iter().skip(offset).take(limit);
    let names: Value = names.map(|map| map["metadata"]["name"].clone()).collect();
    let rows = answer["status"]["rows"].as_array().unwrap().iter();
    assert_eq!(
        rows.map(|row| row["name"].clone()).collect::<Value>(),
        names
    );
}

fn number_of(spec: &Value, field: &str) -> usize {
    number(&spec[field])
}

#[tokio::test]
async fn a_live_answer_says_little_and_ends_in_order() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), shared_front().admin_client());
    let namespace = cluster.namespace("live").await;
    let maps = maps(&namespace);
    for n in 0..3 {
        let map = config_map(&format!("m{n}"), json!({}), json!({ "n": n.to_string() }));
        admin.post(&maps, &map).await.expect(201);
    }
    let spec = json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "namespaces": [namespace],
        "where": "has(object.data.n)",
        "columns": [{ "name": "n", "expression": "object.data.n" }],
        "orderBy": [{ "column": "n" }],
        "limit": 2,
        "maxUpdatesPerSecond": 10,
    });
    let mut watch = Watch::post(&through, LIVE, &query(&spec)).await;
    let first = watch.next().await.expect("the first event");
    assert_eq!(first.object["spec"], spec);
    assert!(first.object["status"].get("continue").is_none());
    let mut reader = Reader::begin(&first);
    assert_eq!((reader.total, reader.rows.len()), (3, 2));
    // What no row shows is no change. The last row moves to the front.
    let put = |name: &str, n: &str| {
        let map = config_map(name, json!({}), json!({ "n": n, "other": n }));
        let path = format!("{maps}/{name}");
        let admin = &admin;
        async move { admin.put(&path, &map).await.expect(200) }
    };
    put("m2", "2").await;
    put("m1", "-1").await;
    let moved = watch.take(1).await.remove(0);
    let changes = &moved.object["status"]["changes"];
    assert_eq!(
        changes[0],
        json!({ "type": "Moved", "from": 0, "index": 1 })
    );
    assert_eq!(changes[1]["type"], "Changed");
    assert_eq!(changes[1]["row"]["cells"], json!(["-1"]));
    assert_eq!(changes.as_array().unwrap().len(), 2, "{}", moved.line);
    assert!(moved.object["status"].get("counts").is_none());
    reader.apply(&moved);
    // One leaves the window, which is not full any more.
    admin.delete(&format!("{maps}/m2")).await.expect(200);
    admin.delete(&format!("{maps}/m0")).await.expect(200);
    let version = put("m1", "5").await["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap().parse().unwrap();
    reader.read_up_to(&mut watch, version).await;
    assert_eq!((reader.total, reader.rows.len()), (1, 1));
    assert_eq!(reader.rows[0]["cells"], json!(["5"]));
    // All was told. Only a bookmark may come.
    if let Some(more) = watch.next_within(Duration::from_secs(1)).await {
        let more = more.expect("an event");
        assert_eq!(more.kind, "BOOKMARK", "{}", more.line);
    }
    let path = format!("{LIVE}&timeoutSeconds=1");
    let (events, end) = Watch::post(&through, &path, &query(&spec))
        .await
        .rest()
        .await;
    assert_eq!((events.len(), end), (1, End::Clean), "{events:?}");
}

#[tokio::test]
async fn what_cannot_be_live_is_refused() {
    skip_under_oracle!("kube-apiserver has no queries");
    let through = shared_front().admin_client();
    let spec = json!({ "resource": { "version": "v1", "resource": "configmaps" } });
    for (field, value, more) in [
        ("maxUpdatesPerSecond", json!(11), ""),
        ("maxUpdatesPerSecond", json!(-1), ""),
        ("resourceVersionMatch", json!("Exact"), ""),
    ] {
        let mut spec = spec.clone();
        spec[field] = value;
        let answer = through.post(&format!("{LIVE}{more}"), &query(&spec)).await;
        let status = answer.expect(422);
        let cause = &status["details"]["causes"][0]["field"];
        assert_eq!(*cause, format!("spec.{field}"), "{status}");
    }
    for seconds in ["-1", "x", "99999999999"] {
        let path = format!("{LIVE}&timeoutSeconds={seconds}");
        through.post(&path, &query(&spec)).await.expect(400);
    }
    let yaml = [
        ("accept", "application/yaml"),
        ("content-type", "application/json"),
    ];
    let body = query(&spec).to_string();
    let answer = through.send(http::Method::POST, LIVE, &yaml, body).await;
    assert_eq!(answer.status, 406);
    let text = answer.text();
    assert!(text.contains("are accepted: application/json"), "{text}");
}

/// A live answer ends when its caller may see other objects, before it shows more.
#[tokio::test]
async fn a_live_answer_ends_with_the_rights_of_its_view() {
    skip_under_oracle!("kube-apiserver has no queries");
    let world = World::start(3, enable).await;
    may_ask(&world, &world.tenant).await;
    let [one, two] = [&world.namespaces[0], &world.namespaces[1]];
    world.grant(one).await;
    let client = world.client();
    let spec = json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "where": "object.metadata.name in ['a', 'b', 'c']",
        "countBy": ["object.metadata.namespace"],
    });
    eventually("a view of one namespace", SOON, || async {
        client.post(QUERIES, &query(&spec)).await.status == 201
    })
    .await;
    let mut watch = Watch::post(&client, LIVE, &query(&spec)).await;
    let reader = Reader::begin(&watch.next().await.expect("the first event"));
    assert_eq!(reader.counts.len(), 1, "{reader:?}");
    world.grant(two).await;
    let end = watch.next_within(Duration::from_secs(60)).await;
    let end = end.expect("an end").expect("an event");
    assert_eq!(
        (end.kind.as_str(), &end.object["code"]),
        ("ERROR", &json!(410))
    );
    assert_eq!(watch.rest().await.1, End::Clean);
    let mut watch = Watch::post(&client, LIVE, &query(&spec)).await;
    let reader = Reader::begin(&watch.next().await.expect("the first event"));
    assert_eq!(reader.counts.len(), 2, "{reader:?}");
}

#[tokio::test]
async fn live_answers_are_counted_and_end_with_the_process() {
    skip_under_oracle!("kube-apiserver has no queries");
    let front = Apifront::start(Cluster::quiet(), enable).await;
    let client = front.admin_client();
    let http1 = client.over(Protocol::Http1);
    let spec = json!({ "resource": { "version": "v1", "resource": "namespaces" } });
    let mut open = Vec::new();
    for client in [&client, &client, &http1] {
        let mut watch = Watch::post(client, LIVE, &query(&spec)).await;
        assert_eq!(watch.next().await.expect("the first event").kind, "ADDED");
        open.push(watch);
    }
    let live = async || {
        let status = client.get("/status.json").await.expect(200);
        let queries = &status["queries"];
        assert_eq!(queries["answered"], 3, "{queries}");
        // All have one order.
        assert_eq!(queries["orders"], 1, "{queries}");
        assert!(queries["orderBytes"].as_u64() > Some(0), "{queries}");
        queries["liveAnswers"].as_u64()
    };
    assert_eq!(live().await, Some(3));
    drop(open.pop());
    eventually("the client is missed", SOON, || async {
        live().await == Some(2)
    })
    .await;
    // As watches, they end in order.
    let ends = async {
        let mut ends = Vec::new();
        for watch in &mut open {
            ends.push(watch.rest().await.1);
        }
        ends
    };
    let ((), ends) = tokio::join!(front.stop(), ends);
    assert_eq!(ends, [End::Clean, End::Clean]);
}

/// The windows of one user are updated together. Each hears of a change.
#[tokio::test]
async fn many_windows_hear_of_a_change() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), shared_front().admin_client());
    let namespace = cluster.namespace("live").await;
    let maps = maps(&namespace);
    let spec = json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "namespaces": [namespace],
        "columns": [{ "name": "n", "expression": "object.data.n" }],
        "orderBy": [{ "column": "n" }],
    });
    let mut open = Vec::new();
    for _ in 0..200 {
        let mut watch = Watch::post(&through, LIVE, &query(&spec)).await;
        assert_eq!(watch.next().await.expect("the first event").kind, "ADDED");
        open.push(watch);
    }
    for n in 0..3 {
        let name = format!("m{n}");
        let map = config_map(&name, json!({}), json!({ "n": n.to_string() }));
        admin.post(&maps, &map).await.expect(201);
        for watch in &mut open {
            for event in watch.take(1).await {
                let change = &event.object["status"]["changes"][0];
                assert_eq!(change["row"]["name"], name, "{}", event.line);
            }
        }
    }
}
