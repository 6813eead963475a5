//! Gives kube-apiserver and apifront the same random FlowSchemas and random
//! requests. Each request must have the same schema and priority level at both,
//! whichever part of apifront answers: the headers show this. The metrics show the
//! number of requests for each schema, including those that apifront forwards.
//!
//! `APIFRONT_TEST_SEED` replays a run, and `APIFRONT_TEST_REQUESTS` lengthens it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use http::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::vocabulary::{Asked, LEVELS, READERS, flow_schema};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, sum_metric};
use crate::harness::objects::FLOW_CONTROL;
use crate::harness::{eventually, objects, volume};

const REQUESTS: &str = "APIFRONT_TEST_REQUESTS";
const DEFAULT_REQUESTS: usize = 10_000;
const SCHEMAS: usize = 40;
const AT_ONCE: usize = 64;
/// The catch-all level refuses requests at once if it has no seats. It has 5 of 310
/// shares, which are 97 seats: enough for all concurrent requests.
const SEATS: usize = 6_000;
const SOON: Duration = Duration::from_secs(30);
const DISPATCHED: &str = "apiserver_flowcontrol_dispatched_requests_total";
const SHOWN: usize = 20;

/// Both servers' answers to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    status: u16,
    flow_schema: String,
    priority_level: String,
}

impl Said {
    fn from_answer(answer: &Answer) -> Self {
        Self {
            status: answer.status.as_u16(),
            flow_schema: answer.header("x-kubernetes-pf-flowschema-uid").to_owned(),
            priority_level: answer
                .header("x-kubernetes-pf-prioritylevel-uid")
                .to_owned(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_classified_as_kube_apiserver_does() {
    skip_under_oracle!("kube-apiserver is what apifront is compared with");
    let mut rng = StdRng::seed_from_u64(volume::seed("classification"));
    let requests: Vec<Asked> = (0..volume::work(REQUESTS, DEFAULT_REQUESTS))
        .map(|_| Asked::random(&mut rng))
        .collect();
    let cluster = Cluster::leased(&[
        format!("--max-requests-inflight={}", SEATS / 2),
        format!("--max-mutating-requests-inflight={}", SEATS / 2),
    ])
    .await;
    let admin = cluster.admin_client();
    prepare(&admin, &mut rng).await;
    let names = names_by_uid(&admin).await;

    let before = dispatched(&metrics(&admin).await, &names);
    let right = ask_all(&admin, &requests).await;
    let by_server = difference(&before, &dispatched(&metrics(&admin).await, &names));

    let front = Apifront::start(&cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(SEATS / 2);
        config["serving"]["maxMutatingRequestsInflight"] = json!(SEATS / 2);
    })
    .await;
    let client = front.client(Some(&cluster.admin));
    knows_the_schemas(&client, &admin).await;
    let before = dispatched(&front.metrics().await, &names);
    let found = ask_all(&client, &requests).await;
    let by_front = difference(&before, &dispatched(&front.metrics().await, &names));

    let mut tally = Tally::default();
    for ((asked, right), found) in requests.iter().zip(&right).zip(&found) {
        tally.compare(asked, right, found, &names);
    }
    tally.finish();
    assert_eq!(
        by_front, by_server,
        "requests by schema: apifront, kube-apiserver"
    );
}

#[derive(Default)]
struct Tally {
    requests: usize,
    /// The requests that apifront answered from memory.
    hits: usize,
    /// The reads that apifront itself refused.
    refused: usize,
    unclassified: usize,
    schemas: BTreeMap<String, usize>,
    levels: BTreeSet<String>,
    differences: Vec<String>,
}

impl Tally {
    fn compare(
        &mut self,
        asked: &Asked,
        right: &Answer,
        found: &Answer,
        names: &BTreeMap<String, String>,
    ) {
        self.requests += 1;
        self.hits += usize::from(found.header("x-apifront-cache").starts_with("hit"));
        let is_refusal = asked.method == Method::GET && found.status == 403;
        self.refused += usize::from(is_refusal && found.header("x-apifront-cache").is_empty());
        let name = |uid: &str| names.get(uid).cloned().unwrap_or_else(|| uid.to_owned());
        let said = Said::from_answer(right);
        match said.flow_schema.is_empty() {
            true => self.unclassified += 1,
            false => *self.schemas.entry(name(&said.flow_schema)).or_default() += 1,
        }
        self.levels.insert(name(&said.priority_level));
        let other = Said::from_answer(found);
        if said != other {
            self.differences.push(format!(
                "{asked:?}\n  - {} {} {}\n  + {} {} {} ({})",
                said.status,
                name(&said.flow_schema),
                name(&said.priority_level),
                other.status,
                name(&other.flow_schema),
                name(&other.priority_level),
                found.header("x-apifront-cache"),
            ));
        }
    }

    fn finish(&self) {
        println!(
            "classification: {} requests, {} answered from memory, {} refused by apifront, \
             {} of no schema; {} schemas, {} levels; {} differences",
            self.requests,
            self.hits,
            self.refused,
            self.unclassified,
            self.schemas.len(),
            self.levels.len(),
            self.differences.len(),
        );
        println!("requests by schema: {:?}", self.schemas);
        let shown: Vec<&str> = self
            .differences
            .iter()
            .take(SHOWN)
            .map(String::as_str)
            .collect();
        assert!(
            self.differences.is_empty(),
            "{} requests are classified otherwise (- kube-apiserver, + apifront):\n{}",
            self.differences.len(),
            shown.join("\n"),
        );
        let own = self.hits + self.refused;
        assert!(own > self.requests / 4, "apifront answered {own}");
        assert!(self.schemas.len() > 10, "{:?}", self.schemas);
        assert!(self.unclassified > 0, "no request was without a schema");
    }
}

async fn prepare(admin: &Client, rng: &mut StdRng) {
    for (name, shares) in [("wide", 60), ("narrow", 5)] {
        let queuing = json!({ "queues": 64, "handSize": 6, "queueLengthLimit": 200 });
        let level = objects::priority_level(
            name,
            json!({ "type": "Limited", "limited": {
                "nominalConcurrencyShares": shares,
                "limitResponse": { "type": "Queue", "queuing": queuing },
            } }),
        );
        let path = format!("{FLOW_CONTROL}/prioritylevelconfigurations");
        admin.post(&path, &level).await.expect(201);
    }
    assert!(LEVELS.contains(&"wide") && LEVELS.contains(&"narrow"));
    for namespace in ["one", "two"] {
        crate::harness::cluster::create_namespace_named(admin, namespace).await;
    }
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": READERS },
        "rules": [
            { "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] },
            { "nonResourceURLs": ["*"], "verbs": ["get", "head"] },
        ],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    admin
        .post(&format!("{rbac}/clusterroles"), &role)
        .await
        .expect(201);
    let binding = objects::cluster_role_binding(READERS, READERS, "Group", READERS);
    let path = format!("{rbac}/clusterrolebindings");
    admin.post(&path, &binding).await.expect(201);
    for number in 0..SCHEMAS {
        let schema = flow_schema(rng, &format!("random-{number}"));
        let path = format!("{FLOW_CONTROL}/flowschemas");
        admin.post(&path, &schema).await.expect(201);
    }
    knows_the_schemas(admin, admin).await;
}

/// Waits until `server` classifies requests by a schema that is created after all
/// others, and until it no longer does after that schema's deletion.
async fn knows_the_schemas(server: &Client, admin: &Client) {
    let schema = objects::flow_schema(
        "last",
        json!({
            "priorityLevelConfiguration": { "name": "wide" },
            "matchingPrecedence": 2,
            "rules": [{
                "subjects": [{ "kind": "User", "user": { "name": "the-last" } }],
                "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            }],
        }),
    );
    let path = format!("{FLOW_CONTROL}/flowschemas");
    let uid = admin.post(&path, &schema).await.expect(201)["metadata"]["uid"].clone();
    let uid = uid.as_str().expect("a uid").to_owned();
    let server = &server.clone().with_header("impersonate-user", "the-last");
    eventually("the schemas are in force", SOON, || async {
        Said::from_answer(&server.get("/version").await).flow_schema == uid
    })
    .await;
    admin.delete(&format!("{path}/last")).await.expect(200);
    eventually("the last schema is gone", SOON, || async {
        Said::from_answer(&server.get("/version").await).flow_schema != uid
    })
    .await;
}

/// Returns the names of schemas and levels by UID.
async fn names_by_uid(admin: &Client) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for resource in ["flowschemas", "prioritylevelconfigurations"] {
        let list = admin
            .get(&format!("{FLOW_CONTROL}/{resource}"))
            .await
            .expect(200);
        for object in list["items"].as_array().expect("items") {
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            let metadata = &object["metadata"];
            names.insert(text(&metadata["uid"]), text(&metadata["name"]));
        }
    }
    names
}

async fn ask_all(client: &Client, requests: &[Asked]) -> Vec<Answer> {
    let ask = |asked: &Asked| {
        let (client, asked) = (client.clone(), asked.clone());
        async move {
            let body = if asked.method == Method::GET {
                ""
            } else {
                "{}"
            };
            let mut headers = asked.headers();
            if !body.is_empty() {
                headers.push(("content-type", "application/json"));
            }
            client
                .send(asked.method, &asked.target, &headers, body)
                .await
        }
    };
    // The order does not matter, and a watch lasts a second.
    let mut answers: Vec<(usize, Answer)> = futures::stream::iter(requests.iter().enumerate())
        .map(|(at, asked)| ask(asked).map(move |answer| (at, answer)))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn metrics(admin: &Client) -> String {
    admin.get("/metrics").await.text()
}

/// Returns the number of dispatched requests for each random schema.
fn dispatched(metrics: &str, names: &BTreeMap<String, String>) -> BTreeMap<String, f64> {
    let random = names.values().filter(|name| name.starts_with("random-"));
    random
        .map(|name| {
            let labels = [("flow_schema", name.as_str())];
            (name.clone(), sum_metric(metrics, DISPATCHED, &labels))
        })
        .collect()
}

fn difference(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let grown = |(name, count): (&String, &f64)| (name.clone(), count - before[name]);
    after.iter().map(grown).collect()
}
