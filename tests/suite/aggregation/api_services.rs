//! Reads and writes of `/apis/apiregistration.k8s.io/v1/apiservices`, which shows
//! the upstream's APIServices and those of the configuration.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::backend::{Backend, Mood};
use crate::harness::cluster::{Cluster, grant_everywhere, unique};
use crate::harness::eventually;
use crate::harness::kubectl::Kubectl;
use crate::harness::media_types::{PARTIAL_LIST, TABLE};
use crate::harness::objects;
use crate::harness::twins::{API_SERVICES, Parts, Registration, Twins, WardleTwins, settled};
use crate::harness::watch::Watch;

const PLACE_WITHIN: Duration = Duration::from_secs(30);
const WARDLE: &str = "v1alpha1.wardle.example.com";

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    let name = |item: &Value| {
        item["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    items.iter().map(name).collect()
}

#[tokio::test]
async fn a_list_holds_the_upstreams_and_ours() {
    let twins = &WardleTwins::shared().twins;
    let front = twins.front_client();
    let list = front.get(API_SERVICES).await.expect(200);
    assert_eq!(list["kind"], "APIServiceList");
    let names = names(&list);
    for expected in [WARDLE, "v1beta1.wardle.example.com", "v1.apps", "v1."] {
        assert!(
            names.contains(&expected.to_owned()),
            "{expected}: {names:?}"
        );
    }
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    // The aggregator reports the same status for the same manifest.
    let of = async |client: &crate::harness::client::Client| {
        let mut object = client
            .get(&format!("{API_SERVICES}/{WARDLE}"))
            .await
            .expect(200);
        let conditions = object["status"]["conditions"].take();
        let condition = conditions[0].clone();
        (
            object["spec"].clone(),
            condition["status"].clone(),
            condition["reason"].clone(),
            condition["message"].clone(),
        )
    };
    assert_eq!(of(&twins.direct_client()).await, of(&front).await);
    let table = front.get_as(API_SERVICES, TABLE).await.expect(200);
    let row = table["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .find(|row| row["cells"][0] == WARDLE)
        .expect("a row")
        .clone();
    assert_eq!(row["cells"][1], "extensions/wardle");
    assert_eq!(row["cells"][2], "True");
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    let partial = front.get_as(API_SERVICES, PARTIAL_LIST).await.expect(200);
    // Another test creates and deletes this APIService.
    let lasting = |mut names: Vec<String>| {
        names.retain(|name| name != "v1.others.example.com");
        names
    };
    assert_eq!(lasting(self::names(&partial)), lasting(names));
    for accept in ["application/yaml", "application/vnd.kubernetes.protobuf"] {
        let answer = front.get_as(API_SERVICES, accept).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains(WARDLE), "{accept}");
        let one = front
            .get_as(&format!("{API_SERVICES}/{WARDLE}"), accept)
            .await;
        assert!(one.status == 200 && one.text().contains(WARDLE), "{accept}");
    }
    let selected = |query: &str| format!("{API_SERVICES}?{query}");
    for (query, expected) in [
        (
            format!("fieldSelector=metadata.name%3D{WARDLE}"),
            vec![WARDLE],
        ),
        ("labelSelector=no%3Dsuch".to_owned(), vec![]),
    ] {
        let list = front.get(&selected(&query)).await.expect(200);
        assert_eq!(self::names(&list), expected);
    }
}

#[tokio::test]
async fn ours_are_read_only() {
    skip_under_oracle!("kube-apiserver's APIServices may be written");
    let twins = &WardleTwins::shared().twins;
    let front = twins.front_client();
    let path = format!("{API_SERVICES}/{WARDLE}");
    let object = front.get(&path).await.expect(200);
    let file = object["metadata"]["annotations"]["apifront.dev/source"].as_str();
    let file = file.expect("the file").to_owned();
    assert!(file.ends_with("v1alpha1.wardle.example.com.yaml"), "{file}");
    let refused = [
        front.put(&path, &object).await,
        front.put(&format!("{path}/status"), &object).await,
        front.patch(&path, "merge-patch+json", &json!({})).await,
        front.delete(&path).await,
    ];
    for answer in refused {
        let status = answer.expect(403);
        assert_eq!(status["reason"], "Forbidden", "{status}");
        let message = status["message"].as_str().expect("a message");
        assert!(
            message.contains(&file) && message.contains("configured in"),
            "{message}"
        );
    }
    // Other APIServices are the upstream's and may be changed.
    let other = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": "v1.others.example.com" },
        "spec": { "group": "others.example.com", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10 },
    });
    let made = front.post(API_SERVICES, &other).await;
    made.expect(201);
    let theirs = format!("{API_SERVICES}/v1.others.example.com");
    Cluster::shared()
        .admin_client()
        .get(&theirs)
        .await
        .expect(200);
    front.delete(&theirs).await.expect(200);
    let cannot = twins.clients_of("nobody-special", &[]).1;
    let answer = cannot.get(&path).await;
    assert_eq!(answer.status, 403);
    let answer = cannot.send(Method::DELETE, &path, &[], "").await;
    assert!(
        !answer.text().contains("configured in"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn kubectl_lists_and_waits() {
    let twins = &WardleTwins::shared().twins;
    let kubectl = Kubectl::new(&twins.kubeconfigs().1);
    let told = kubectl.run(&["get", "apiservices"]).await.ok();
    let line = told
        .lines()
        .find(|l| l.starts_with(WARDLE))
        .expect("a line");
    assert!(
        line.contains("extensions/wardle") && line.contains("True"),
        "{line}"
    );
    let wait = ["wait", "--for=condition=Available", "--timeout=30s"];
    let told = kubectl
        .run(&[&wait[..], &[&format!("apiservice/{WARDLE}")]].concat())
        .await
        .ok();
    assert!(told.contains("condition met"), "{told}");
}

/// A watch shows configured APIServices like the upstream's: in its initial state,
/// and when a condition changes.
#[tokio::test]
async fn a_watch_tells_of_ours() {
    let mut started = None;
    let twins = Twins::start(async |parts: &Parts| {
        let backend = parts.backend("watched.example.com", Mood::Fine);
        let port = backend.port();
        started = Some(backend);
        vec![Registration::new("watched.example.com", "v1", "watched", port).trust(parts.ca())]
    })
    .await;
    let backend = started.expect("started above");
    let name = "v1.watched.example.com";
    twins.settled(name, true).await;
    let front = twins.front_client();
    let list = front.get(API_SERVICES).await.expect(200);
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    let mut initial = Watch::open(&front, &format!("{API_SERVICES}?watch=1")).await;
    let mut seen = Vec::new();
    while !seen.contains(&name.to_owned()) {
        let event = initial.next().await.expect("an event");
        seen.push(event.name().to_owned());
    }
    let path = format!(
        "{API_SERVICES}?watch=1&resourceVersion={version}&fieldSelector=metadata.name%3D{name}"
    );
    let mut later = Watch::open(&front, &path).await;
    backend.become_(Mood::Status(500));
    twins.settled(name, false).await;
    for watch in [&mut initial, &mut later] {
        loop {
            let event = watch.next().await.expect("an event");
            // A watch that resumes is sent recent changes of the condition
            // again.
            let condition = &event.object["status"]["conditions"][0];
            if event.name() == name && condition["status"] == "False" {
                assert_eq!(event.kind, "MODIFIED");
                assert!(event.version() > version.parse().expect("a number"));
                break;
            }
        }
    }
}

/// A watch of APIServices has its own store, so users share the places for these.
#[tokio::test]
async fn the_watches_of_one_user_leave_others_places() {
    let twins = &WardleTwins::shared().twins;
    let admin = Cluster::shared().admin_client();
    let watchers = unique("watchers");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": watchers },
        "rules": [{
            "apiGroups": ["apiregistration.k8s.io"],
            "resources": ["apiservices"],
            "verbs": ["list", "watch"],
        }],
    });
    let binding = objects::cluster_role_binding(&watchers, &watchers, "Group", &watchers);
    grant_everywhere(&admin, &[role, binding]).await;
    let of = |name: &str| {
        let certificates = &Cluster::shared().certificates;
        let pair = certificates.client(&unique(name), &[&watchers]);
        twins.front.client(Some(&pair))
    };
    let (greedy, other) = (of("greedy"), of("other"));
    let path = format!("{API_SERVICES}?watch=1");
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(Watch::open(&greedy, &path).await);
    }
    let refused = greedy.get(&path).await;
    assert_eq!(refused.headers["retry-after"], "1");
    let status = refused.expect(429);
    assert_eq!(status["reason"], "TooManyRequests", "{status}");
    let mut watch = Watch::open(&other, &path).await;
    assert_eq!(watch.next().await.expect("an event").kind, "ADDED");
    // The user's places are free again when the watches have ended.
    drop(open);
    eventually("a place is free", PLACE_WITHIN, async || {
        let watch = greedy.open(&path, &[]).await;
        watch.status() == 200
    })
    .await;
}

/// When several APIServices change together, a watch sends an event for each, with
/// its own version, and goes on.
#[tokio::test]
async fn a_watch_tells_of_several_that_change_at_once() {
    let groups = ["one.example.com", "two.example.com", "three.example.com"];
    let mut backends = Vec::new();
    let twins = Twins::start(async |parts: &Parts| {
        backends.extend(groups.map(|group| parts.backend(group, Mood::Fine)));
        let register = |(group, backend): (&str, &Backend)| {
            let service = group.split('.').next().expect("a name");
            Registration::new(group, "v1", service, backend.port()).trust(parts.ca())
        };
        groups.into_iter().zip(&backends).map(register).collect()
    })
    .await;
    let names = groups.map(|group| format!("v1.{group}"));
    for name in &names {
        twins.settled(name, true).await;
    }
    let front = twins.front_client();
    let list = front.get(API_SERVICES).await.expect(200);
    let version = &list["metadata"]["resourceVersion"];
    let path = format!(
        "{API_SERVICES}?watch=1&resourceVersion={}",
        version.as_str().expect("a version")
    );
    let mut watch = Watch::open(&front, &path).await;
    for (mood, status) in [(Mood::Status(500), "False"), (Mood::Fine, "True")] {
        backends.iter().for_each(|backend| backend.become_(mood));
        // apifront checks a working backend less often than the watch waits for an
        // event.
        for name in &names {
            settled(&front, name, status == "True").await;
        }
        let mut told = BTreeSet::new();
        let mut last = 0;
        while told.len() < names.len() {
            let event = watch.next().await.expect("an event");
            assert!(event.version() > last, "{} after {last}", event.version());
            last = event.version();
            let condition = &event.object["status"]["conditions"][0];
            if names.iter().any(|name| event.name() == name) && condition["status"] == status {
                assert_eq!(event.kind, "MODIFIED");
                told.insert(event.name().to_owned());
            }
        }
    }
}
