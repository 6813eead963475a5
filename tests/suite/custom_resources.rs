//! CustomResourceDefinitions that appear, change and disappear while clients watch,
//! and resources with several versions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::differential::Differential;
use crate::harness::eventually;
use crate::harness::expect::Expect;
use crate::harness::media_types::TABLE_OR_JSON;
use crate::harness::watch::{Event, Watch};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SOON: Duration = Duration::from_secs(30);

/// The lists and events that an informer received.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    lists: usize,
    /// The events, in order of arrival.
    events: Vec<String>,
    /// The current objects, by namespace and name.
    state: BTreeMap<String, Value>,
}

impl Told {
    fn listed(&mut self, list: &Value) {
        self.lists += 1;
        let items = list["items"].as_array().into_iter().flatten();
        self.state = items.map(|i| (key(i), i.clone())).collect();
    }

    fn event(&mut self, event: Event) {
        let key = key(&event.object);
        self.events.push(event.line);
        if event.kind == "DELETED" {
            self.state.remove(&key);
        } else {
            self.state.insert(key, event.object);
        }
    }
}

fn key(object: &Value) -> String {
    let meta = &object["metadata"];
    format!("{}/{}", meta["namespace"], meta["name"])
}

/// Returns the events for a comparison. Events that apifront's reflector finds by a
/// list come in another order, and a list does not show the version at which an
/// object was deleted.
fn sorted(events: &[String]) -> Vec<String> {
    let mut events: Vec<_> = events.iter().map(|e| without_deletion(e)).collect();
    events.sort();
    events
}

/// Returns the event. A deletion is returned without its version.
fn without_deletion(line: &str) -> String {
    let mut event: Value = serde_json::from_str(line).expect("an event");
    if event["type"] != "DELETED" {
        return line.to_owned();
    }
    event["object"]["metadata"]["resourceVersion"] = Value::Null;
    event.to_string()
}

/// An informer like client-go's: it resumes its watch where that ended, and lists
/// again after a 410.
struct Informer {
    told: Arc<Mutex<Told>>,
    watching: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Informer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Informer {
    fn start(client: &Client, list: &str) -> Self {
        let told = Arc::default();
        let watching = Arc::new(AtomicBool::new(false));
        let (client, list) = (client.separate(), list.to_owned());
        let task = tokio::spawn(inform(client, list, Arc::clone(&told), watching.clone()));
        Self {
            told,
            watching,
            task,
        }
    }

    fn told(&self) -> Told {
        self.told.lock().expect("told").clone()
    }
}

async fn inform(client: Client, list: String, told: Arc<Mutex<Told>>, watching: Arc<AtomicBool>) {
    let told = || told.lock().expect("told");
    let mut from: Option<String> = None;
    loop {
        crate::harness::pace::of_load(Duration::from_millis(20)).await;
        let Some(version) = &from else {
            let answer = client.get(&format!("{list}?resourceVersion=0")).await;
            if answer.status == 200 {
                let body = answer.json();
                told().listed(&body);
                let version = body["metadata"]["resourceVersion"].as_str();
                from = version.map(str::to_owned);
            }
            continue;
        };
        let path = format!("{list}?watch=1&resourceVersion={version}");
        let mut watch = match Watch::try_open(&client, &path).await {
            Ok(watch) => watch,
            Err(refused) => {
                let refused = refused.to_string();
                assert!(!refused.starts_with("410"), "{path}: {refused}");
                continue;
            }
        };
        watching.store(true, Ordering::SeqCst);
        loop {
            match watch.next_within(Duration::from_secs(60)).await {
                Some(Ok(event)) if event.kind == "ERROR" => {
                    from = None;
                    break;
                }
                Some(Ok(event)) => {
                    from = Some(event.version().to_string());
                    told().event(event);
                }
                Some(Err(_)) => break,
                None => {}
            }
        }
        watching.store(false, Ordering::SeqCst);
    }
}

/// Informers of the same lists on both servers.
struct Pairs(Vec<(String, Informer, Informer)>);

impl Pairs {
    async fn start(both: &Differential, lists: &[&str]) -> Self {
        let mut pairs = Self(Vec::new());
        for list in lists {
            pairs.add(both, list).await;
        }
        pairs
    }

    async fn add(&mut self, both: &Differential, list: &str) {
        let at = |client| Informer::start(client, list);
        let pair = (list.to_owned(), at(&both.direct), at(&both.front));
        self.0.push(pair);
        self.watching().await;
    }

    async fn watching(&self) {
        eventually("all watch", SOON, || async {
            let watching = |i: &Informer| i.watching.load(Ordering::SeqCst);
            self.0.iter().all(|(_, a, b)| watching(a) && watching(b))
        })
        .await;
    }

    /// Fails unless both informers reach the same state by the same events, with at
    /// least the expected number. Events may differ if one informer listed again.
    /// apifront itself lists again while kube-apiserver's storage is recreated.
    /// kube-apiserver forgets its history with each change of a definition, so
    /// clients may have to list again.
    async fn agree(&self, expected: &[usize]) {
        for ((list, direct, front), expected) in self.0.iter().zip(expected) {
            let deadline = Instant::now() + SOON;
            loop {
                let (d, f) = (direct.told(), front.told());
                let relisted = d.lists > 1 || f.lists > 1;
                let same = d.events.len() >= *expected && sorted(&d.events) == sorted(&f.events);
                if d.state == f.state && (same || relisted) {
                    break;
                }
                assert!(
                    Instant::now() < deadline,
                    "{list}: {expected} events expected\n- {d:#?}\n+ {f:#?}"
                );
                crate::harness::pace::of_tries(Duration::from_millis(20)).await;
            }
        }
    }
}

fn definition(group: &str, scope: &str, versions: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": {
            "group": group, "scope": scope, "versions": versions,
            "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList" },
        },
    })
}

fn version(name: &str, served: bool, storage: bool, column: &str) -> Value {
    json!({
        "name": name, "served": served, "storage": storage,
        "additionalPrinterColumns": [
            { "name": column, "type": "string", "jsonPath": format!(".spec.{}", column.to_lowercase()) },
        ],
        "schema": { "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }},
    })
}

fn gadget(group: &str, version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/{version}"), "kind": "Gadget",
        "metadata": { "name": name }, "spec": { "color": "red", "size": "big" },
    })
}

async fn define(admin: &Client, definition: &Value) {
    admin.post(DEFINITIONS, definition).await.expect(201);
    let name = definition["metadata"]["name"].as_str().expect("a name");
    eventually("established", SOON, || async {
        let found = admin.get(&format!("{DEFINITIONS}/{name}")).await.json();
        let conditions = found["status"]["conditions"].as_array().cloned();
        let established = |c: &Value| c["type"] == "Established" && c["status"] == "True";
        conditions.unwrap_or_default().iter().any(established)
    })
    .await;
}

async fn served(client: &Client, list: &str, is: bool) {
    eventually("served or not", SOON, || async {
        let status = client.get(list).await.status;
        status == if is { 200 } else { 404 }
    })
    .await;
}

async fn redefine(admin: &Client, group: &str, versions: &[Value]) {
    let change = json!({ "spec": { "versions": versions } });
    let path = format!("{DEFINITIONS}/gadgets.{group}");
    let answer = admin.patch(&path, "merge-patch+json", &change).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

async fn set(admin: &Client, object: &str, field: &str, value: &str) {
    let change = json!({ "spec": { field: value } });
    let answer = admin.patch(object, "merge-patch+json", &change).await;
    assert_eq!(answer.status, 200, "{object}: {}", answer.text());
}

async fn before_shared() -> (Apifront, Differential) {
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let both = Differential::new(cluster.admin_client(), front.admin_client());
    (front, both)
}

/// Compares a list in every form that the cache has.
async fn same_lists(both: &mut Differential, list: &str) {
    both.get(&format!("{list}?resourceVersion=0")).await;
    both.get_as(&format!("{list}?resourceVersion=0"), TABLE_OR_JSON)
        .await;
}

/// Clients ask before a definition exists, and as soon as it does.
#[tokio::test]
async fn a_definition_appears_while_clients_wait_for_it() {
    let (front, mut both) = before_shared().await;
    let admin = both.direct.clone();
    let group = format!("{}.example.test", unique("appears"));
    let list = format!("/apis/{group}/v1/gadgets");
    let not_there = both.expect(Expect::Bypass("aggregated"));
    not_there.get(&format!("{list}?resourceVersion=0")).await;
    let ns = Cluster::shared().namespace("appears").await;
    let mine = format!("/apis/{group}/v1/namespaces/{ns}/gadgets");
    define(
        &admin,
        &definition(&group, "Namespaced", &[version("v1", true, true, "Color")]),
    )
    .await;
    // The resource is served within a second after it is established. The discovery
    // of its group may take longer.
    let pairs = Pairs::start(&both, &[&list, &mine]).await;
    admin
        .post(&mine, &gadget(&group, "v1", "a"))
        .await
        .expect(201);
    set(&admin, &format!("{mine}/a"), "color", "blue").await;
    admin.delete(&format!("{mine}/a")).await.expect(200);
    admin
        .post(&mine, &gadget(&group, "v1", "b"))
        .await
        .expect(201);
    pairs.agree(&[4, 4]).await;
    // In the end the list is cached, although clients asked too early.
    front
        .warm(&both.front, &format!("{list}?resourceVersion=0"))
        .await;
    same_lists(&mut both, &list).await;
    both.finish();
    front.stop().await;
}

#[tokio::test]
async fn versions_come_and_go_while_clients_watch_both() {
    let (front, mut both) = before_shared().await;
    let admin = both.direct.clone();
    let group = format!("{}.example.test", unique("versions"));
    let ns = Cluster::shared().namespace("versions").await;
    let of = |version: &str| format!("/apis/{group}/{version}/namespaces/{ns}/gadgets");
    let (old, new) = (of("v1alpha1"), of("v1"));
    let alpha = |served, storage| version("v1alpha1", served, storage, "Color");
    let stable = |served, storage| version("v1", served, storage, "Size");
    define(
        &admin,
        &definition(&group, "Namespaced", &[alpha(true, true)]),
    )
    .await;
    served(&admin, &old, true).await;
    admin
        .post(&old, &gadget(&group, "v1alpha1", "a"))
        .await
        .expect(201);
    front
        .warm(&both.front, &format!("{old}?resourceVersion=0"))
        .await;
    let mut pairs = Pairs::start(&both, &[&old]).await;
    set(&admin, &format!("{old}/a"), "color", "one").await;
    // A change of the definition ends watches. A list finds what a watch has not
    // sent, together with later writes, as one event.
    pairs.agree(&[1]).await;

    redefine(&admin, &group, &[alpha(true, true), stable(true, false)]).await;
    served(&admin, &new, true).await;
    pairs.add(&both, &new).await;
    front
        .warm(&both.front, &format!("{new}?resourceVersion=0"))
        .await;
    set(&admin, &format!("{new}/a"), "color", "two").await;
    admin
        .post(&new, &gadget(&group, "v1", "b"))
        .await
        .expect(201);
    pairs.agree(&[3, 2]).await;
    for list in [&old, &new] {
        same_lists(&mut both, list).await;
    }

    // The storage version changes: the same objects, in other bytes.
    redefine(&admin, &group, &[alpha(true, false), stable(true, true)]).await;
    set(&admin, &format!("{old}/a"), "color", "three").await;
    set(&admin, &format!("{new}/b"), "color", "four").await;
    pairs.agree(&[5, 4]).await;
    for list in [&old, &new] {
        same_lists(&mut both, list).await;
    }

    // The old version is no longer served.
    redefine(&admin, &group, &[alpha(false, false), stable(true, true)]).await;
    served(&admin, &old, false).await;
    set(&admin, &format!("{new}/a"), "color", "five").await;
    admin.delete(&format!("{new}/b")).await.expect(200);
    eventually("the old version is gone here too", SOON, || async {
        let path = format!("{old}?resourceVersion=0");
        both.front.get(&path).await.status == 404
    })
    .await;
    // Watches of the old version may last a moment longer on either server.
    let (_, direct, through) = pairs.0.remove(0);
    let (d, f) = (direct.told(), through.told());
    if d.lists == 1 && f.lists == 1 {
        assert!(d.events.len() >= 5 && f.events.len() >= 5);
        assert_eq!(sorted(&d.events[..5]), sorted(&f.events[..5]));
    }
    pairs.agree(&[6]).await;
    same_lists(&mut both, &new).await;
    for accept in ["application/json", TABLE_OR_JSON] {
        let not_there = both.expect(Expect::Bypass("aggregated"));
        let path = format!("{old}?resourceVersion=0");
        not_there.get_as(&path, accept).await;
    }
    if !oracle() {
        let labels = [("resource", "gadgets"), ("version", "v1alpha1")];
        let open = front.metric("apifront_watchers", &labels).await;
        assert_eq!(open, 0.0, "watchers of what is gone");
    }
    both.finish();
    front.stop().await;
}

#[tokio::test]
async fn a_definition_is_deleted_and_made_anew_as_something_else() {
    let (front, mut both) = before_shared().await;
    let admin = both.direct.clone();
    let group = format!("{}.example.test", unique("anew"));
    let ns = Cluster::shared().namespace("anew").await;
    let list = format!("/apis/{group}/v1/gadgets");
    let mine = format!("/apis/{group}/v1/namespaces/{ns}/gadgets");
    let first = definition(&group, "Namespaced", &[version("v1", true, true, "Color")]);
    define(&admin, &first).await;
    served(&admin, &list, true).await;
    for name in ["a", "b"] {
        admin
            .post(&mine, &gadget(&group, "v1", name))
            .await
            .expect(201);
    }
    front
        .warm(&both.front, &format!("{list}?resourceVersion=0"))
        .await;
    let pairs = Pairs::start(&both, &[&list]).await;
    same_lists(&mut both, &list).await;

    let path = format!("{DEFINITIONS}/gadgets.{group}");
    admin.delete(&path).await.expect(200);
    eventually("the definition is gone", SOON, || async {
        admin.get(&path).await.status == 404
    })
    .await;
    served(&admin, &list, false).await;
    eventually("here too", SOON, || async {
        let answer = both.front.get(&format!("{list}?resourceVersion=0")).await;
        answer.status == 404
    })
    .await;
    pairs.agree(&[2]).await;

    let second = definition(&group, "Cluster", &[version("v1", true, true, "Size")]);
    define(&admin, &second).await;
    served(&admin, &list, true).await;
    pairs.watching().await;
    admin
        .post(&list, &gadget(&group, "v1", "a"))
        .await
        .expect(201);
    set(&admin, &format!("{list}/a"), "size", "small").await;
    pairs.agree(&[4]).await;
    front
        .warm(&both.front, &format!("{list}?resourceVersion=0"))
        .await;
    same_lists(&mut both, &list).await;
    both.get(&format!("{list}/a?resourceVersion=0")).await;
    // The resource is no longer namespaced.
    let unusual = both.expect(Expect::Bypass("unusual_request"));
    unusual.get(&format!("{mine}?resourceVersion=0")).await;
    both.finish();
    front.stop().await;
}

/// Tests two versions of one built-in kind that differ in fields.
#[tokio::test]
async fn both_versions_of_an_autoscaler() {
    let (front, mut both) = before_shared().await;
    let admin = both.direct.clone();
    let ns = Cluster::shared().namespace("autoscalers").await;
    let of = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/{ns}/horizontalpodautoscalers")
    };
    let (v1, v2) = (of("v1"), of("v2"));
    for list in [&v1, &v2] {
        front
            .warm(&both.front, &format!("{list}?resourceVersion=0"))
            .await;
    }
    let pairs = Pairs::start(&both, &[&v1, &v2]).await;
    let autoscaler = |version: &str, name: &str, rest: Value| {
        let mut spec = rest;
        spec["scaleTargetRef"] =
            json!({ "kind": "Deployment", "name": "x", "apiVersion": "apps/v1" });
        spec["maxReplicas"] = json!(3);
        json!({
            "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": name }, "spec": spec,
        })
    };
    let metrics = json!({ "metrics": [
        { "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 60 } } },
        { "type": "External", "external": {
            "metric": { "name": "queue" }, "target": { "type": "Value", "value": "10" } } },
    ]});
    let utilization = json!({ "targetCPUUtilizationPercentage": 70 });
    admin
        .post(&v2, &autoscaler("v2", "new", metrics))
        .await
        .expect(201);
    admin
        .post(&v1, &autoscaler("v1", "old", utilization))
        .await
        .expect(201);
    for (path, change) in [
        (format!("{v1}/new"), json!({ "spec": { "maxReplicas": 5 } })),
        (format!("{v2}/old"), json!({ "spec": { "minReplicas": 2 } })),
    ] {
        admin
            .patch(&path, "merge-patch+json", &change)
            .await
            .expect(200);
    }
    pairs.agree(&[4, 4]).await;
    let table = Expect::Bypass("representation");
    for (list, of_table) in [(&v1, table), (&v2, Expect::Hit)] {
        let path = format!("{list}?resourceVersion=0");
        both.get(&path).await;
        // A v1 autoscaler stores its metrics in another order than they are printed
        // in.
        both.expect(of_table).get_as(&path, TABLE_OR_JSON).await;
        for name in ["new", "old"] {
            both.get(&format!("{list}/{name}?resourceVersion=0")).await;
        }
    }
    admin.delete(&format!("{v1}/new")).await.expect(200);
    pairs.agree(&[5, 5]).await;
    both.finish();
    front.stop().await;
}
