//! Compares apifront with kube-apiserver on deprecated APIs: the `Warning` headers
//! of every answer, and the metric of requested deprecated APIs.

mod configured;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects;
use crate::harness::pool::Lease;
use crate::harness::prometheus::Prometheus;
use crate::harness::shared::Shared;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const METRIC: &str = "apiserver_requested_deprecated_apis";
const SOON: Duration = Duration::from_secs(30);

/// Returns a cluster that serves every version that it can, including deprecated
/// ones.
fn cluster() -> Arc<Lease> {
    static CLUSTER: Shared<Lease> = Shared::new();
    CLUSTER.get(|| async {
        let everything = "--runtime-config=api/all=true".to_owned();
        Cluster::leased(&[everything]).await
    })
}

/// Sends the same requests to both servers, which must return the same warnings.
struct Both {
    direct: Client,
    front: Client,
}

impl Both {
    fn before(cluster: &Cluster, front: &Apifront) -> Self {
        Self {
            direct: cluster.admin_client(),
            front: front.admin_client(),
        }
    }

    /// Sends a request to both and returns its warnings. `NAME` in the path and the
    /// body becomes another object for each server.
    async fn ask(&self, method: Method, path: &str, kind: &str, body: &Value) -> Vec<String> {
        let headers = [("content-type", kind), ("accept", "application/json")];
        let ask = |client: &Client, name: &str| {
            let (path, body) = (path.replace("NAME", name), body.to_string());
            let body = body.replace("NAME", name);
            let (client, method) = (client.separate(), method.clone());
            async move { client.send(method, &path, &headers, body).await }
        };
        let direct = ask(&self.direct, "direct").await;
        let front = ask(&self.front, "front").await;
        let what = format!("{method} {path}");
        assert_eq!(direct.status, front.status, "{what} {}", front.text());
        let (direct, front) = (warnings(&direct), warnings(&front));
        assert_eq!(direct, front, "{what}");
        direct
    }

    async fn get(&self, path: &str) -> Vec<String> {
        self.ask(Method::GET, path, "application/json", &Value::Null)
            .await
    }

    async fn watch(&self, path: &str) -> Vec<String> {
        let mut headers = Vec::new();
        for client in [&self.direct, &self.front] {
            let answer = client.open(path, &[]).await;
            assert_eq!(answer.status(), 200, "{path}");
            headers.push(warnings_in(answer.headers()));
        }
        assert_eq!(headers[0], headers[1], "watch {path}");
        headers.remove(0)
    }
}

fn warnings(answer: &Answer) -> Vec<String> {
    warnings_in(&answer.headers)
}

fn warnings_in(headers: &http::HeaderMap) -> Vec<String> {
    let all = headers.get_all("warning").iter();
    all.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
        .collect()
}

/// Returns the series of the metric, each with value 1.
fn series(metrics: &str) -> BTreeSet<String> {
    let lines = metrics.lines().filter(|line| line.starts_with(METRIC));
    lines.map(str::to_owned).collect()
}

/// Returns every resource that can be listed: its API version, name and path.
async fn listable(direct: &Client) -> Vec<(String, String, String)> {
    let mut versions = vec!["v1".to_owned()];
    let groups = direct.get("/apis").await.expect(200);
    for group in groups["groups"].as_array().expect("groups") {
        // Other tests define custom resources at the same time, some of them
        // deprecated.
        if group["name"]
            .as_str()
            .is_some_and(|n| n.contains("example"))
        {
            continue;
        }
        for version in group["versions"].as_array().expect("versions") {
            versions.push(version["groupVersion"].as_str().expect("text").to_owned());
        }
    }
    let mut all = Vec::new();
    for version in versions {
        let prefix = if version == "v1" { "/api" } else { "/apis" };
        let path = format!("{prefix}/{version}");
        let list = direct.get(&path).await.expect(200);
        for resource in list["resources"].as_array().expect("resources") {
            let verbs = resource["verbs"].as_array().expect("verbs");
            if verbs.iter().any(|verb| verb == "list") {
                let name = resource["name"].as_str().expect("name");
                all.push((version.clone(), name.to_owned(), format!("{path}/{name}")));
            }
        }
    }
    all
}

/// Returns the built-in table's warning for a resource at release 1.37.
fn judged(version: &str, resource: &str) -> Option<String> {
    let table = include_str!("../../../src/deprecation/kubernetes.txt");
    let line = table
        .lines()
        .find(|line| line.starts_with(&format!("{version} {resource} ")))?;
    let (facts, replacement) = match line.split_once(" use ") {
        Some((facts, replacement)) => (facts, format!("; use {replacement}")),
        None => (line, String::new()),
    };
    let words: Vec<&str> = facts.split(' ').collect();
    let minor: u32 = words[4].strip_prefix("1.")?.parse().ok()?;
    let removed = words
        .get(6)
        .map(|removed| format!(", unavailable in v{removed}+"));
    let removed = removed.unwrap_or_default();
    let kind = words[2];
    (minor <= 37).then(|| {
        format!("299 - \"{version} {kind} is deprecated in v1.{minor}+{removed}{replacement}\"")
    })
}

/// The table is right: kube-apiserver's warnings for every resource agree with it.
/// So do apifront's, with and without its cache.
#[tokio::test]
async fn every_resource_warns_as_upstream_does() {
    let cluster = cluster();
    let front = Apifront::start(&cluster, |_| {}).await;
    let both = Both::before(&cluster, &front);
    let mut deprecated = 0;
    for (version, resource, path) in listable(&both.direct).await {
        // The first read is forwarded, as the cache is not filled.
        let warned = both.get(&path).await;
        let expected: Vec<String> = judged(&version, &resource).into_iter().collect();
        assert_eq!(warned, expected, "{path}");
        if !warned.is_empty() {
            deprecated += 1;
            // kube-apiserver cannot watch this resource.
            if resource != "componentstatuses" {
                front.warm(&both.front, &path).await;
                both.get(&path).await;
                both.watch(&format!("{path}?watch=1")).await;
            }
        }
    }
    assert!(deprecated >= 10, "{deprecated} deprecated resources");
    front.stop().await;
}

fn endpoints(note: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": { "name": "NAME", "annotations": { "note": note } },
    })
}

/// Returns a definition with three versions: one with its own warning, one with
/// kube-apiserver's, one without.
fn definition(group: &str) -> Value {
    let mut definition = objects::widget_definition(group);
    let v1 = definition["spec"]["versions"][0].clone();
    let version = |name: &str, more: Value| {
        let mut version = v1.clone();
        version["name"] = json!(name);
        version["storage"] = json!(false);
        for (key, value) in more.as_object().expect("an object") {
            version[key] = value.clone();
        }
        version
    };
    let scale = json!({ "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
    }});
    definition["spec"]["versions"] = json!([
        v1,
        version(
            "v1beta1",
            json!({ "deprecated": true, "subresources": scale })
        ),
        version(
            "v1alpha1",
            json!({
                "deprecated": true, "deprecationWarning": "Nehmt \"v1\"! C:\\> ü 世界",
            })
        ),
        version(
            "v1alpha2",
            json!({
                "deprecated": true, "deprecationWarning": "x".repeat(256),
            })
        ),
    ]);
    definition
}

async fn define(client: &Client, definition: &Value, group: &str) {
    client.post(DEFINITIONS, definition).await.expect(201);
    for version in definition["spec"]["versions"].as_array().expect("versions") {
        let name = version["name"].as_str().expect("a name");
        let path = format!("/apis/{group}/{name}/namespaces/default/widgets");
        eventually("the resource is served", SOON, || async {
            client.get(&path).await.status == 200
        })
        .await;
    }
}

/// Uses all verbs on a deprecated built-in resource, and then on custom ones. In the
/// end both servers' metrics have the same series.
#[tokio::test]
async fn all_verbs_warn_and_count_as_upstream_does() {
    let cluster = cluster();
    let front = Apifront::start(&cluster, |_| {}).await;
    let both = Both::before(&cluster, &front);
    let ns = cluster.namespace("deprecated").await;
    let all = format!("/api/v1/namespaces/{ns}/endpoints");
    let one = format!("{all}/NAME");
    let json = "application/json";
    let merge = "application/merge-patch+json";
    let apply = "application/apply-patch+yaml";
    let none = &Value::Null;
    let warned =
        "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
    for (method, path, kind, body) in [
        (Method::POST, &all, json, &endpoints("a")),
        // The object already exists.
        (Method::POST, &all, json, &endpoints("b")),
        (Method::GET, &one, json, none),
        (Method::PUT, &one, json, &endpoints("c")),
        (Method::PATCH, &one, merge, &endpoints("d")),
        (
            Method::PATCH,
            &format!("{one}?fieldManager=x&force=true"),
            apply,
            &endpoints("e"),
        ),
        (
            Method::PUT,
            &format!("{one}?dryRun=All"),
            json,
            &endpoints("f"),
        ),
        (Method::GET, &format!("{all}/missing"), json, none),
        (Method::GET, &format!("{all}?fieldSelector=x"), json, none),
        (Method::GET, &format!("{all}?limit=1"), json, none),
        (Method::DELETE, &one, json, none),
        (Method::DELETE, &all, json, none),
        (
            Method::GET,
            &"/api/v1/componentstatuses".to_owned(),
            json,
            none,
        ),
    ] {
        let warnings = both.ask(method, path, kind, body).await;
        assert_eq!(warnings.len(), 1, "{path}");
    }
    front.warm(&both.front, &all).await;
    for path in [
        all.clone(),
        format!("{all}/missing"),
        format!("{all}?resourceVersion=0"),
    ] {
        assert_eq!(both.get(&path).await, [warned], "{path}");
    }
    // The watches are in turn cached, forwarded because of a bypass, and forwarded.
    for query in [
        "watch=1",
        "watch=1&resourceVersion=0",
        "watch=1&resourceVersion=1&timeoutSeconds=1",
    ] {
        let watch = format!("{all}?{query}");
        assert_eq!(both.watch(&watch).await, [warned], "{watch}");
    }
    // A request that is refused before it reaches the API has no warning.
    let nobody = cluster.certificates.client("nobody", &[]);
    let nobody = Both {
        direct: cluster.client(Some(&nobody)),
        front: front.client(Some(&nobody)),
    };
    assert!(nobody.get(&all).await.is_empty());
    // Over HTTP/1.1, response headers take another path.
    let other = Both {
        direct: both.direct.over(Protocol::Http1),
        front: both.front.over(Protocol::Http1),
    };
    assert_eq!(other.get(&all).await, [warned]);
    assert_eq!(other.watch(&format!("{all}?watch=1")).await, [warned]);

    let group = "deprecated.example.com";
    define(&both.direct, &definition(group), group).await;
    for (version, expected) in [("v1", 0), ("v1beta1", 1), ("v1alpha1", 1), ("v1alpha2", 1)] {
        let all = format!("/apis/{group}/{version}/namespaces/{ns}/widgets");
        let one = format!("{all}/NAME");
        let mut widget = objects::widget(group, "NAME", "red", 1);
        widget["apiVersion"] = json!(format!("{group}/{version}"));
        let patch = json!({ "spec": { "size": 2 } });
        for (method, path, kind, body) in [
            (Method::GET, &all, json, none),
            (Method::POST, &all, json, &widget),
            (Method::GET, &one, json, none),
            (Method::PATCH, &one, merge, &patch),
            (Method::GET, &format!("{one}/status"), json, none),
            (Method::PATCH, &format!("{one}/status"), merge, &patch),
            (Method::GET, &format!("{one}/scale"), json, none),
            (Method::GET, &format!("{one}/made-up"), json, none),
            (Method::POST, &one, json, &widget),
            (Method::GET, &format!("{all}/missing"), json, none),
            (Method::GET, &format!("{all}?limit=1"), json, none),
            (Method::DELETE, &one, json, none),
            (Method::DELETE, &all, json, none),
        ] {
            let warnings = both.ask(method.clone(), path, kind, body).await;
            let strange = path.ends_with("made-up") || method == Method::POST && path == &one;
            assert!(
                strange || warnings.len() == expected,
                "{method} {path} {warnings:?}"
            );
        }
        front.warm(&both.front, &all).await;
        assert_eq!(both.get(&all).await.len(), expected);
        assert_eq!(both.watch(&format!("{all}?watch=1")).await.len(), expected);
    }
    // There are so many unknown fields that the upstream cuts its warnings. apifront
    // adds none.
    let mut widget = objects::widget(group, "NAME", "red", 1);
    widget["apiVersion"] = json!(format!("{group}/v1alpha2"));
    for n in 0..40 {
        widget["spec"][format!("unknown{n}-{}", "y".repeat(200))] = json!(1);
    }
    let path = format!("/apis/{group}/v1alpha2/namespaces/{ns}/widgets?fieldValidation=Warn");
    let warnings = both.ask(Method::POST, &path, json, &widget).await;
    assert!(warnings.len() > 10, "{warnings:?}");

    // Watches are counted when they end.
    eventually("the same series in both servers' metrics", SOON, || async {
        let direct = series(&both.direct.get("/metrics").await.text());
        let served = series(&both.front.get("/metrics").await.text());
        // Another test requests these from the shared server.
        let ours = |line: &&String| {
            ["endpoints", "componentstatuses", "widgets"]
                .iter()
                .any(|r| line.contains(r))
        };
        let direct: BTreeSet<_> = direct.iter().filter(ours).cloned().collect();
        if direct != served {
            eprintln!("{direct:#?}\n{served:#?}");
        }
        !served.is_empty() && direct == served
    })
    .await;
    front.stop().await;
}
