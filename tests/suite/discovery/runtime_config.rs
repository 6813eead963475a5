//! Compares `apis.runtimeConfig` with a kube-apiserver that has the same
//! `--runtime-config`.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{compare_all, difference, versions};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::media_types::GROUP_DISCOVERY;
use crate::harness::pool::Lease;
use crate::harness::release::{Release, tell_left_out};
use crate::harness::shared::Shared;
use crate::harness::watch::{End, Watch};
use crate::harness::{eventually, gates, objects};

const SOON: Duration = Duration::from_secs(20);

/// A version, two resources of versions that keep others, and the only resource of a
/// version.
const HIDDEN: [&str; 5] = [
    "batch/v1",
    "apps/v1/deployments",
    "/v1/configmaps",
    "policy/v1/poddisruptionbudgets",
    "autoscaling/v1",
];

/// Returns a kube-apiserver without the hidden APIs.
fn without() -> Arc<Lease> {
    static WITHOUT: Shared<Lease> = Shared::new();
    WITHOUT.get(|| {
        let settings: Vec<String> = HIDDEN.iter().map(|key| format!("{key}=false")).collect();
        let flag = format!("--runtime-config={}", settings.join(","));
        async move { Cluster::leased(&[flag]).await }
    })
}

/// Returns a kube-apiserver with all APIs, to which no test writes.
fn plain() -> Arc<Lease> {
    static PLAIN: Shared<Lease> = Shared::new();
    PLAIN.get(|| Cluster::leased(&[]))
}

fn hide(config: &mut Value, keys: &[&str]) {
    let settings = keys.iter().map(|key| ((*key).to_owned(), json!(false)));
    config["apis"] = json!({ "runtimeConfig": settings.collect::<serde_json::Map<_, _>>() });
}

#[tokio::test]
async fn hidden_apis_are_as_if_kube_apiserver_did_not_serve_them() {
    skip_under_oracle!("kube-apiserver hides nothing by apifront's configuration");
    let (cluster, quiet) = (without(), plain());
    let front = Apifront::start(&quiet, |config| hide(config, &HIDDEN)).await;
    let (direct, through) = (cluster.admin_client(), front.admin_client());
    compare_all(
        &direct,
        &through,
        &[
            "/apis",
            "/apis/",
            "/apis/batch",
            "/apis/batch/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/api/v1",
            "/apis/policy",
            "/apis/policy/v1",
            "/apis/autoscaling",
            "/apis/autoscaling/v1",
            "/apis/autoscaling/v2",
        ],
    )
    .await;
    let mut found = Vec::new();
    let v2 = [("accept", GROUP_DISCOVERY)];
    found.push(difference(&direct, &through, Method::GET, "/api", &v2).await);
    for path in [
        "/apis/batch/v1/jobs",
        "/apis/batch/v1/namespaces/default/jobs/x",
        "/apis/batch/v1/watch/jobs",
        "/apis/batch/v1/jobs?watch=1",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/namespaces/default/deployments/x/status",
        "/apis/apps/v1/namespaces/default/deployments?watch=1",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/configmaps/x",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/autoscaling/v1/horizontalpodautoscalers",
    ] {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            found.push(difference(&direct, &through, method, path, &[]).await);
        }
        for headers in [
            &[("accept", "application/yaml")][..],
            &[("accept", "application/vnd.kubernetes.protobuf")],
            &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")],
            &[("user-agent", "curl/8")],
        ] {
            found.push(difference(&direct, &through, Method::GET, path, headers).await);
        }
    }
    // A caller without rights gets the same refusal.
    let of = |c: &Cluster, through: Option<&Apifront>| {
        let pair = c.certificates.client("nobody", &[]);
        match through {
            Some(front) => front.client(Some(&pair)),
            None => c.client(Some(&pair)),
        }
    };
    let (direct, through) = (of(&cluster, None), of(&quiet, Some(&front)));
    for path in [
        "/apis/batch/v1/jobs",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1",
        "/apis/batch",
    ] {
        found.push(difference(&direct, &through, Method::GET, path, &[]).await);
    }
    found.retain(|d| !d.is_empty());
    assert!(found.is_empty(), "{}", found.join("\n"));
    front.stop().await;
}

/// The flag does the same, but only for Kubernetes' own groups.
#[tokio::test]
async fn the_flag_hides_classes_of_versions() {
    skip_under_oracle!("kube-apiserver hides nothing by apifront's configuration");
    if gates::are_all_on() {
        // With these gates kube-apiserver does not start without alpha versions.
        return tell_left_out("a server without alpha and beta versions");
    }
    let cluster = Cluster::leased(&["--runtime-config=api/all=true".to_owned()]).await;
    let least = if Release::at_least(36) { 30 } else { 25 };
    assert!(versions(&cluster.admin_client()).await.len() > least);
    let flags = ["--runtime-config=api/beta=false,api/alpha=false"];
    let front = Apifront::start_with_flags(&cluster, &flags, |_| {}).await;
    // 1.31 serves a beta version by default.
    let without = match Release::at_least(32) {
        true => plain(),
        false => {
            let flag = "--runtime-config=api/beta=false".to_owned();
            Arc::new(Cluster::leased(&[flag]).await)
        }
    };
    compare_all(&without.admin_client(), &front.admin_client(), &["/apis"]).await;
    front.stop().await;
}

async fn set(front: &Apifront, keys: &[&str], until: impl AsyncFn() -> bool) {
    let mut config = front.read_config();
    hide(&mut config, keys);
    front.write_config(&config);
    eventually("the file is in force", SOON, || until()).await;
}

#[tokio::test]
async fn a_reload_hides_and_shows_and_ends_watches_in_order() {
    skip_under_oracle!("kube-apiserver hides nothing by apifront's configuration");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    let namespace = cluster.namespace("hidden").await;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let object = objects::config_map("a", json!({}), json!({ "a": "b" }));
    client.post(&path, &object).await.expect(201);
    front
        .warm(&client, &format!("{path}?resourceVersion=0"))
        .await;

    let open = async |client: &Client, path: &str| {
        let mut watch = Watch::open(client, path).await;
        assert_eq!(watch.next().await.expect("an event").short(), "ADDED a");
        watch
    };
    let mut cached = open(&client, &format!("{path}?watch=1&resourceVersion=0")).await;
    // The upstream must judge parameters that apifront does not know, so the second
    // watch is forwarded. It has its own connection.
    let forwarded = format!("{path}?watch=1&resourceVersion=0&timeoutSeconds=600&unknown=1");
    let mut forwarded = open(&client.separate(), &forwarded).await;
    let watchers = [("resource", "configmaps")];
    let from_memory = front.metric("apifront_watchers", &watchers).await;
    assert_eq!(from_memory, 1.0, "one of the two is from memory");

    let hidden = async || client.get(&path).await.status == 404;
    set(&front, &["/v1/configmaps"], hidden).await;
    for watch in [&mut cached, &mut forwarded] {
        loop {
            match watch.next().await {
                Ok(event) => assert_eq!(event.kind, "BOOKMARK"),
                Err(end) => {
                    assert_eq!(end, End::Clean);
                    break;
                }
            }
        }
    }
    let message = "the server could not find the requested resource";
    client
        .get(&path)
        .await
        .expect_status(404, "NotFound", message);
    let listed = client.get("/api/v1").await.text();
    assert!(
        !listed.contains("configmaps") && listed.contains("\"pods\""),
        "{listed}"
    );

    set(&front, &["batch/v1"], async || {
        client.get(&path).await.status == 200
    })
    .await;
    assert!(client.get("/api/v1").await.text().contains("configmaps"));
    open(&client, &format!("{path}?watch=1&resourceVersion=0")).await;
    front.stop().await;
}
