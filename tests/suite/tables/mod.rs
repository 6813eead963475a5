//! Compares JSON, protobuf, Table and PartialObjectMetadata of every kind that
//! kube-apiserver can list, including alpha versions, from the cache and directly.
//! The bytes must be equal. Ages tick, so differing answers are requested again.
//! With another build of apifront ([`is_other_build`]), which may have an older
//! schema, the suite prints what that build forwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::{Apifront, is_other_build, oracle};
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::expect::Expect;
use crate::harness::media_types::{JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE};
use crate::harness::pool::Lease;
use crate::harness::release::{Release, tell_left_out};
use crate::harness::shared::Shared;
use crate::harness::{differential, eventually, forwarded};

/// The objects of the unit tests' recordings, and objects of all other kinds.
const OBJECTS: [&str; 2] = [
    include_str!("../../../crates/wire/src/representation/table/testdata/objects.json"),
    include_str!("objects.json"),
];

const FLAGS: [&str; 3] = [
    "--runtime-config=api/all=true",
    "--feature-gates=AllAlpha=true,AllBeta=true",
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
];

/// The resource that cannot be watched.
const UNWATCHED: &str = "/api/v1/componentstatuses";

/// Tables that the cache leaves to the upstream. A v1 autoscaler stores its metrics
/// in another order than they are printed in, the columns of `odds` need more of
/// JSONPath than we have, and a number in `vasts` is beyond what Go defines.
const FORWARDED: [&str; 3] = [
    "/apis/autoscaling/v1/horizontalpodautoscalers",
    "/apis/shapes.example.test/v1/odds",
    "/apis/shapes.example.test/v1/vasts",
];

const TABLE_BETA: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
const PARTIAL_BETA: &str = "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io";
const PARTIAL_LIST_BETA: &str =
    "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io";

/// The numbers of concurrent requests. Watches last a second each.
const AT_ONCE: usize = 8;
const WATCHES_AT_ONCE: usize = 64;
const WARM_WITHIN: Duration = Duration::from_secs(15);
/// The number of tries before a difference counts. On a busy machine the two answers
/// may be made most of a second apart, and ages tick every second.
const TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(300);

struct Subject {
    direct: Client,
    front: Client,
    resources: Vec<Resource>,
    _servers: Arc<(Apifront, Lease)>,
}

struct Resource {
    /// The list's path, such as `/apis/apps/v1/deployments`.
    path: String,
    /// The paths of some objects.
    objects: Vec<String>,
}

async fn subject() -> Subject {
    static SERVERS: Shared<(Apifront, Lease)> = Shared::new();
    let servers = SERVERS.get(|| async {
        let flags = FLAGS.map(str::to_owned);
        let cluster = Cluster::leased(&flags).await;
        let admin = cluster.admin_client();
        for objects in OBJECTS {
            create(&admin, objects).await;
        }
        let nothing_excluded = |config: &mut Value| config["cache"]["exclude"] = json!([]);
        let apifront = Apifront::start(&cluster, nothing_excluded).await;
        (apifront, cluster)
    });
    let (apifront, cluster) = &*servers;
    let (direct, front) = (cluster.admin_client(), apifront.admin_client());
    let resources = resources(&direct).await;
    let warmed = resources.iter().map(|r| warm(&front, &r.path));
    futures::stream::iter(warmed)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<()>>()
        .await;
    Subject {
        direct,
        front,
        resources,
        _servers: servers,
    }
}

/// Waits until the resource is cached, or certainly will not be.
async fn warm(front: &Client, path: &str) {
    let path = format!("{path}?resourceVersion=0");
    let debug = [("x-apifront-debug", "cache")];
    let deadline = Instant::now() + WARM_WITHIN;
    while !oracle() && Instant::now() < deadline {
        if front.send(Method::GET, &path, &debug, "").await.is_hit() {
            return;
        }
        crate::harness::pace::of_tries(BETWEEN_TRIES).await;
    }
}

/// Creates each object as given, then writes its status, and deletes it if the entry
/// says so. An entry may name the first and the last minor release that has the kind
/// (`since`, `until`).
async fn create(admin: &Client, objects: &str) {
    let entries: Vec<Value> = serde_json::from_str(objects).expect("objects");
    for entry in entries {
        let path = entry["path"].as_str().expect("a path");
        let minor = |key: &str| entry[key].as_u64().map(|minor| minor as u32);
        let minors = minor("since").unwrap_or(0)..=minor("until").unwrap_or(u32::MAX);
        if !Release::under_test().is_in(&minors) {
            tell_left_out(&format!("objects of {path}"));
            continue;
        }
        let served = || async { admin.get(path).await.status == 200 };
        eventually("the resource is served", Duration::from_secs(30), served).await;
        for object in entry["objects"].as_array().expect("objects") {
            let mut given = object.clone();
            let fields = given.as_object_mut().expect("an object");
            let status = fields.remove("status");
            let at = fields.remove("at").unwrap_or("status".into());
            let made = admin.post(path, &given).await;
            assert_eq!(made.status, 201, "{path}: {}\n{given}", made.text());
            let mut made = made.json();
            let name = made["metadata"]["name"].as_str().expect("a name");
            let one = format!("{path}/{name}");
            if let Some(Value::Object(status)) = status {
                for (key, value) in status {
                    made["status"][key] = value;
                }
                let at = at.as_str().expect("a subresource");
                let put = admin.put(&format!("{one}/{at}"), &made).await;
                assert_eq!(put.status, 200, "{one}/{at}: {}", put.text());
            }
            let deleted = entry["deleted"].as_array().into_iter().flatten();
            if deleted.into_iter().any(|d| *d == made["metadata"]["name"]) {
                admin.delete(&one).await;
            }
        }
    }
}

async fn resources(client: &Client) -> Vec<Resource> {
    let mut bases = vec!["/api/v1".to_owned()];
    let groups = client.get("/apis").await.expect(200);
    for group in groups["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            let version = version["groupVersion"].as_str().expect("groupVersion");
            bases.push(format!("/apis/{version}"));
        }
    }
    let mut all = Vec::new();
    for base in bases {
        let answer = client.get(&base).await;
        // One of these is the APIService of a missing backend.
        if answer.status != 200 {
            continue;
        }
        for resource in answer.json()["resources"].as_array().expect("resources") {
            let verbs = resource["verbs"].as_array().expect("verbs");
            let name = resource["name"].as_str().expect("name");
            if verbs.iter().any(|v| v == "list") && !name.contains('/') {
                all.push(Resource::find(client, &base, name).await);
            }
        }
    }
    let least = Release::resources(true);
    assert!(all.len() > least, "only {} resources", all.len());
    all
}

impl Resource {
    /// Tells whether pages can be compared. kube-apiserver has no cache of events,
    /// and its tokens differ without a cache.
    fn pages(&self) -> bool {
        !self.path.ends_with("/events")
    }

    async fn find(client: &Client, base: &str, name: &str) -> Self {
        let path = format!("{base}/{name}");
        let list = client.get(&path).await.expect(200);
        let objects = list["items"].as_array().into_iter().flatten();
        let objects = objects.map(|object| {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or("");
            match text("namespace") {
                "" => format!("{path}/{}", text("name")),
                namespace => format!("{base}/namespaces/{namespace}/{name}/{}", text("name")),
            }
        });
        Self {
            objects: objects.collect(),
            path,
        }
    }
}

struct Outcome {
    resource: String,
    difference: String,
    /// The cache's report about its part in the answer.
    cache: String,
}

impl Subject {
    async fn ask(&self, resource: &Resource, path: String, accept: &str) -> Outcome {
        let headers = [("accept", accept)];
        let debug = [headers[0], ("x-apifront-debug", "cache")];
        let mut outcome = Outcome {
            resource: resource.path.clone(),
            difference: String::new(),
            cache: String::new(),
        };
        for attempt in 0..TRIES {
            if attempt > 0 {
                crate::harness::pace::of_tries(BETWEEN_TRIES).await;
            }
            let (direct, front) = tokio::join!(
                self.direct.send(Method::GET, &path, &headers, ""),
                self.front.send(Method::GET, &path, &debug, ""),
            );
            outcome.cache = cache(&path, accept, &front);
            outcome.difference = differential::compare(&direct, &front);
            if outcome.difference.is_empty() {
                return outcome;
            }
        }
        outcome.difference = format!("GET {path} {accept}\n{}", outcome.difference);
        outcome
    }
}

fn cache(path: &str, accept: &str, answer: &Answer) -> String {
    if answer.is_hit() || oracle() {
        return "hit".to_owned();
    }
    // For the release under test, this single answer may have to come from the
    // upstream.
    match forwarded::unmet(Expect::Hit, path, accept, answer).as_str() {
        "" => "forwarded".to_owned(),
        _ => answer.header("x-apifront-cache").to_owned(),
    }
}

/// Fails with the differences, and with the answers that should have come from the
/// cache but did not.
fn judge(what: &str, outcomes: Vec<Outcome>, forwarded: impl Fn(&str) -> bool) {
    let bypassed = compared(what, &outcomes);
    if !oracle() && !is_other_build() {
        let asked: BTreeSet<&str> = outcomes.iter().map(|o| o.resource.as_str()).collect();
        let expected = asked.into_iter().filter(|resource| forwarded(resource));
        assert_eq!(bypassed, expected.collect::<Vec<_>>());
    }
}

/// Fails with the differences. Returns the resources with answers that should have
/// come from the cache but did not.
fn compared<'o>(what: &str, outcomes: &'o [Outcome]) -> Vec<&'o str> {
    let mut by_resource: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for outcome in outcomes {
        let cache = by_resource.entry(&outcome.resource).or_default();
        cache.insert(&outcome.cache);
    }
    let bypassed: Vec<_> = by_resource
        .iter()
        .filter(|(_, cache)| cache.iter().any(|c| !matches!(*c, "hit" | "forwarded")))
        .collect();
    println!(
        "resources with {what} from the cache: {} of {}",
        by_resource.len() - bypassed.len(),
        by_resource.len()
    );
    for (resource, cache) in &bypassed {
        println!("  {resource}: {cache:?}");
    }
    if !oracle() {
        let hits = outcomes.iter().filter(|o| o.cache == "hit").count();
        let asked = outcomes.len();
        println!("compared: {asked} answers, {hits} of them from the cache");
    }
    let differences: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome.difference.as_str())
        .filter(|difference| !difference.is_empty())
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} answers differ (- direct, + front):\n\n{}",
        differences.len(),
        outcomes.len(),
        differences[..differences.len().min(20)].join("\n")
    );
    bypassed.iter().map(|(resource, _)| **resource).collect()
}

#[tokio::test]
async fn every_kind_has_objects() {
    let subject = subject().await;
    let few = subject.resources.iter().filter(|r| r.objects.len() < 2);
    let (new, few): (Vec<&str>, Vec<&str>) = few
        .map(|r| r.path.as_str())
        .partition(|path| Release::is_other() && is_only_elsewhere(path));
    for path in new {
        tell_left_out(&format!("cells of {path}, which has no objects"));
    }
    assert_eq!(few, [""; 0]);
}

#[tokio::test]
async fn json_of_every_kind() {
    let subject = subject().await;
    let outcomes = ask_all(&subject, whole(&subject, JSON), AT_ONCE).await;
    judge("JSON", outcomes, forwarded::entirely);
}

#[tokio::test]
async fn protobuf_of_every_kind() {
    let subject = subject().await;
    let outcomes = ask_all(&subject, whole(&subject, PROTOBUF), AT_ONCE).await;
    if Release::is_other() {
        // Most are kept as JSON, so their protobuf comes from the upstream.
        compared("protobuf", &outcomes);
        return;
    }
    // Custom resources have no protobuf: 406.
    let custom = |list: &str| list.contains(".test/") || list.contains("/example.com/");
    judge("protobuf", outcomes, custom);
}

/// Returns reads of whole objects: newest and linearizable lists, and single
/// objects. The unwatched resource probes other processes for each request, so its
/// answers differ.
fn whole<'s>(
    subject: &'s Subject,
    accept: &'static str,
) -> Vec<(&'s Resource, String, &'static str)> {
    let mut asked = Vec::new();
    let resources = subject.resources.iter();
    for resource in resources.filter(|r| r.path != UNWATCHED) {
        asked.push((
            resource,
            format!("{}?resourceVersion=0", resource.path),
            accept,
        ));
        asked.push((resource, resource.path.clone(), accept));
        for object in resource.objects.iter().take(2) {
            asked.push((resource, format!("{object}?resourceVersion=0"), accept));
        }
    }
    asked
}

#[tokio::test]
async fn tables_of_every_kind() {
    let subject = subject().await;
    let mut asked = Vec::new();
    for resource in &subject.resources {
        let newest = format!("{}?resourceVersion=0", resource.path);
        for query in ["", "&includeObject=None", "&includeObject=Object"] {
            asked.push((resource, format!("{newest}{query}"), TABLE));
        }
        asked.push((resource, newest, TABLE_BETA));
        // Linearizable lists and pages are compared, too.
        asked.push((resource, resource.path.clone(), TABLE));
        if resource.pages() {
            asked.push((resource, format!("{}?limit=1", resource.path), TABLE));
        }
        for object in &resource.objects {
            let path = format!("{object}?resourceVersion=0");
            asked.push((resource, format!("{path}&includeObject=None"), TABLE));
        }
        for object in resource.objects.iter().take(2) {
            let path = format!("{object}?resourceVersion=0");
            asked.push((resource, path.clone(), TABLE));
            asked.push((resource, path.clone(), TABLE_BETA));
            asked.push((resource, format!("{path}&includeObject=Object"), TABLE));
        }
    }
    let outcomes = ask_all(&subject, asked, AT_ONCE).await;
    judge("a Table", outcomes, |list| {
        list == UNWATCHED || is_forwarded_as_table(list)
    });
}

#[tokio::test]
async fn metadata_of_every_kind() {
    let subject = subject().await;
    let mut asked = Vec::new();
    for resource in &subject.resources {
        let newest = format!("{}?resourceVersion=0", resource.path);
        asked.push((resource, newest.clone(), PARTIAL_LIST));
        asked.push((resource, newest, PARTIAL_LIST_BETA));
        if resource.pages() {
            asked.push((resource, format!("{}?limit=1", resource.path), PARTIAL_LIST));
        }
        for object in &resource.objects {
            let path = format!("{object}?resourceVersion=0");
            asked.push((resource, path.clone(), PARTIAL));
            asked.push((resource, path, PARTIAL_BETA));
        }
    }
    let outcomes = ask_all(&subject, asked, AT_ONCE).await;
    judge("metadata", outcomes, |list| {
        list == UNWATCHED || forwarded::entirely(list)
    });
}

/// Compares the beginnings of watches that last a second.
#[tokio::test]
async fn watches_of_every_kind() {
    let subject = subject().await;
    let mut asked = Vec::new();
    let watchable = subject.resources.iter();
    for resource in watchable.filter(|r| r.path != UNWATCHED) {
        let path = format!(
            "{}?watch=1&resourceVersion=0&timeoutSeconds=1",
            resource.path
        );
        for query in ["", "&includeObject=None", "&includeObject=Object"] {
            asked.push((resource, format!("{path}{query}"), TABLE));
        }
        for accept in [TABLE_BETA, PARTIAL, PARTIAL_BETA] {
            asked.push((resource, path.clone(), accept));
        }
    }
    let outcomes = ask_all(&subject, asked, WATCHES_AT_ONCE).await;
    judge("watches", outcomes, is_forwarded_as_table);
}

fn is_forwarded_as_table(list: &str) -> bool {
    FORWARDED.contains(&list) || forwarded::tables(list)
}

/// Tells whether a list's objects are made in a version that the release under test
/// does not have, or are of a kind that 1.37 does not have.
fn is_only_elsewhere(list: &str) -> bool {
    let resource = |path: &str| path.rsplit('/').next().map(str::to_owned);
    let left_out = OBJECTS.iter().any(|objects| {
        let entries: Vec<Value> = serde_json::from_str(objects).expect("objects");
        let mut versioned = entries
            .iter()
            .filter(|e| !e["since"].is_null() || !e["until"].is_null());
        versioned.any(|e| e["path"].as_str().and_then(resource) == resource(list))
    });
    left_out || forwarded::unknown(list)
}

async fn ask_all(
    subject: &Subject,
    asked: Vec<(&Resource, String, &str)>,
    at_once: usize,
) -> Vec<Outcome> {
    let asked = asked
        .into_iter()
        .map(|(resource, path, accept)| subject.ask(resource, path, accept));
    futures::stream::iter(asked)
        .buffer_unordered(at_once)
        .collect()
        .await
}
