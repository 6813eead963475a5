//! Tests apifront's reports about its cache: the debug header, `/debug/cache`,
//! metrics, and the comparison with the upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::objects::{cluster_role_binding, config_map};
use crate::harness::ports;
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(30);
const MAPS: &str = "/api/v1/configmaps?resourceVersion=0";

async fn debugged(client: &Client, path: &str) -> Answer {
    let debug = [("x-apifront-debug", "cache")];
    client.send(Method::GET, path, &debug, "").await
}

#[tokio::test]
async fn a_hit_tells_its_version_and_so_does_a_404() {
    skip_under_oracle!("kube-apiserver does not show its cache");
    let front = Apifront::quiet();
    let client = front.admin_client();
    front.warm(&client, MAPS).await;

    let list = debugged(&client, MAPS).await;
    let version = list.json()["metadata"]["resourceVersion"].clone();
    let version = version.as_str().expect("a version");
    let expected = format!("hit; rv={version}");
    assert_eq!(list.header("x-apifront-cache"), expected);

    let misses = [
        ("resource", "configmaps"),
        ("verb", "get"),
        ("result", "hit"),
    ];
    let name = "apifront_cache_requests_total";
    let before = front.metric(name, &misses).await;
    let missing = "/api/v1/namespaces/default/configmaps/missing?resourceVersion=0";
    let missing = debugged(&client, missing).await;
    assert_eq!(missing.status, 404);
    assert!(missing.is_hit(), "{:?}", missing.headers);
    assert!(front.metric(name, &misses).await >= before + 1.0);

    let watch = format!("/api/v1/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let watch = debugged(&client, &watch).await;
    assert_eq!(watch.header("x-apifront-cache"), expected);
    // Without the debug header, an answer shows nothing about the cache.
    assert_eq!(client.get(MAPS).await.header("x-apifront-cache"), "");
}

fn resource<'a>(report: &'a Value, name: &str) -> &'a Value {
    let resources = report["resources"].as_array().expect("resources");
    let found = resources.iter().find(|r| r["resource"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

/// Waits until a resource is watched: its first hit may come from the list alone.
async fn is_watched(client: &Client, name: &str) {
    eventually("it is watched", SOON, || async {
        let report = client.get("/debug/cache").await.expect(200);
        resource(&report, name)["state"] == "watching"
    })
    .await;
}

#[tokio::test]
async fn the_state_of_the_cache_is_shown() {
    skip_under_oracle!("kube-apiserver does not show its cache");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    for path in [
        "/api/v1/pods?resourceVersion=0",
        "/api/v1/namespaces?resourceVersion=0",
        "/apis/apps/v1/deployments?resourceVersion=0",
    ] {
        front.warm(&client, path).await;
    }
    let _watch = Watch::open(&client, "/api/v1/namespaces?watch=1&resourceVersion=0").await;
    is_watched(&client, "namespaces").await;
    let report = client.get("/debug/cache").await;
    assert_eq!(report.header("content-type"), "application/json");
    let report = report.expect(200);
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["mode"], "front");
    assert_eq!(report["consistency"], "Strict");
    assert!(report["uptimeSeconds"].as_f64().expect("seconds") > 0.0);
    let namespaces = resource(&report, "namespaces");
    assert_eq!(namespaces["state"], "watching", "{namespaces:#}");
    assert_eq!(namespaces["watchers"], 1);
    assert!(namespaces["objects"].as_u64() >= Some(4));
    assert!(namespaces["bytes"]["objects"].as_u64() > Some(1000));
    for kind in ["history", "derived", "retained"] {
        assert!(namespaces["bytes"][kind].is_u64(), "{kind}");
    }
    assert_eq!(namespaces["lagSeconds"], 0.0);
    let history = &namespaces["history"];
    let version = |v: &Value| v.as_str().and_then(|v| v.parse::<u64>().ok());
    let newest = version(&namespaces["resourceVersion"]);
    assert!(newest.is_some() && version(&history["oldestVersion"]) <= newest);
    assert!(history["maxAgeSeconds"].as_f64() >= Some(300.0));

    for (filter, expected) in [
        ("pods", vec!["pods"]),
        ("pods.v1.", vec!["pods"]),
        ("pods.v1", vec!["pods"]),
        ("deployments.v1.apps", vec!["deployments"]),
        ("*.apps", vec!["deployments"]),
        ("pods&resource=namespaces", vec!["namespaces", "pods"]),
        ("pods.v2", vec![]),
    ] {
        let report = client.get(&format!("/debug/cache?resource={filter}")).await;
        let report = report.expect(200);
        let found: Vec<_> = report["resources"]
            .as_array()
            .expect("resources")
            .iter()
            .filter_map(|r| r["resource"].as_str())
            .collect();
        assert_eq!(found, expected, "{filter}");
    }
    let bad = client.get("/debug/cache?resource=Pods").await;
    assert_eq!(bad.expect(400)["reason"], "BadRequest");

    // The observability port answers every caller.
    let plain = Client::plain(front.observability);
    let unasked = plain.get("/debug/cache?resource=pods").await.expect(200);
    assert_eq!(unasked["resources"].as_array().map(Vec::len), Some(1));
    let bad = plain.get("/debug/cache?resource=.").await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn it_is_shown_to_whom_upstream_allows() {
    skip_under_oracle!("kube-apiserver does not show its cache");
    let cluster = Cluster::shared();
    let front = Apifront::shared();
    let nobody = front.client(None).get("/debug/cache").await;
    assert_eq!(nobody.status, 401);
    let curious = cluster.certificates.client("curious", &[]);
    let client = front.client(Some(&curious));
    client.get("/debug/cache").await.expect_status(
        403,
        "Forbidden",
        "forbidden: User \"curious\" cannot get path \"/debug/cache\"",
    );
    let allowed = cluster.certificates.client("allowed-to-debug", &[]);
    let admin = cluster.admin_client();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "metadata": { "name": "debug-cache" },
        "rules": [{ "nonResourceURLs": ["/debug/cache"], "verbs": ["get"] }],
    });
    let roles = format!("{rbac}/clusterroles");
    admin.post(&roles, &role).await.expect(201);
    let binding = cluster_role_binding("debug-cache", "debug-cache", "User", "allowed-to-debug");
    let bindings = format!("{rbac}/clusterrolebindings");
    admin.post(&bindings, &binding).await.expect(201);
    let client = front.client(Some(&allowed));
    eventually("the role works", SOON, || async {
        client.get("/debug/cache").await.status == 200
    })
    .await;
    // apifront itself answers only GET.
    let posted = admin.post("/debug/cache", &json!({})).await;
    let through = front.admin_client().post("/debug/cache", &json!({})).await;
    assert_eq!(posted.status, through.status);
}

#[tokio::test]
async fn the_personal_mode_shows_it_too() {
    skip_under_oracle!("kube-apiserver does not show its cache");
    let cluster = Cluster::shared();
    let front = Apifront::personal(&cluster.admin_kubeconfig).await;
    let client = Client::plain(front.address);
    front
        .warm(&client, "/api/v1/namespaces?resourceVersion=0")
        .await;
    is_watched(&client, "namespaces").await;
    let report = client
        .get("/debug/cache?resource=namespaces")
        .await
        .expect(200);
    assert_eq!(report["mode"], "personal");
    assert_eq!(resource(&report, "namespaces")["state"], "watching");
}

#[tokio::test]
async fn gauges_follow_the_cache() {
    skip_under_oracle!("kube-apiserver does not show its cache");
    let cluster = Cluster::shared();
    let namespace = cluster.namespace("gauges").await;
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    front.warm(&client, MAPS).await;
    let of = [("resource", "configmaps")];
    let objects = front.metric("apifront_cache_objects", &of).await;
    assert!(objects > 0.0);
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = config_map("a", json!({}), json!({ "k": "v" }));
    client.post(&maps, &map).await.expect(201);
    eventually("one more", SOON, || async {
        front.metric("apifront_cache_history_seconds", &of).await > 0.0
    })
    .await;
    let history = [("resource", "configmaps"), ("kind", "history")];
    assert!(front.metric("apifront_cache_bytes", &history).await > 0.0);
    let staleness = front.metric("apifront_cache_staleness_seconds", &of).await;
    assert!((0.0..90.0).contains(&staleness), "{staleness}");
    assert_eq!(front.metric("apifront_cache_lag_seconds", &of).await, 0.0);
}

async fn checks(front: &Apifront, result: &str) -> f64 {
    let result = [("result", result)];
    front
        .metric("apifront_cache_self_check_total", &result)
        .await
}

#[tokio::test]
async fn the_cache_is_what_upstream_has_while_it_changes() {
    skip_under_oracle!("kube-apiserver does not show its cache");
    let cluster = Cluster::shared();
    let namespace = cluster.namespace("checked").await;
    let front = Apifront::start(cluster, |config| {
        config["cache"] = json!({
            "consistency": "Fresh", "selfCheck": { "interval": "300ms" },
        });
    })
    .await;
    let client = front.admin_client();
    for list in [
        MAPS,
        "/api/v1/namespaces?resourceVersion=0",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles?resourceVersion=0",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?resourceVersion=0",
    ] {
        front.warm(&client, list).await;
    }
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let admin = cluster.admin_client();
    let mut written = 0;
    while checks(&front, "match").await < 20.0 {
        let name = format!("m{}", written % 10);
        let map = config_map(&name, json!({}), json!({ "n": written.to_string() }));
        if written < 10 {
            admin.post(&maps, &map).await.expect(201);
        } else {
            admin.put(&format!("{maps}/{name}"), &map).await.expect(200);
        }
        written += 1;
        assert!(written < 10_000, "no comparisons");
    }
    assert_eq!(checks(&front, "mismatch").await, 0.0);
    let report = client
        .get("/debug/cache?resource=namespaces")
        .await
        .expect(200);
    let probes = &resource(&report, "namespaces")["probes"];
    assert!(probes["suspended"].is_boolean() && probes["settleSeconds"].as_f64() > Some(0.0));
    let check = &resource(&report, "namespaces")["selfCheck"];
    assert_eq!(check["result"], "match", "{check:#}");
    front.stop().await;
}

/// An API server with two ConfigMaps. For an exact version, it answers with other
/// data for one of them.
async fn lies(
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>, hyper::Error> {
    let uri = request.uri().to_string();
    let map = |name: &str, data: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"{name}","resourceVersion":"5"}},"data":{{"k":"{data}"}}}}"#
        )
    };
    // The fields are in Go's order. By that, apifront tells built-in resources from
    // custom ones.
    let list = |data: &str| {
        format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{},{}]}}"#,
            map("a", "same"),
            map("b", data)
        )
    };
    let json = request
        .headers()
        .get("accept")
        .and_then(|a| a.to_str().ok())
        .is_none_or(|a| !a.contains("as="));
    let (code, body) = match uri.as_str() {
        "/readyz" => (200, "ok".to_owned()),
        "/api/v1" => {
            let maps = json!({
                "name": "configmaps", "kind": "ConfigMap", "namespaced": true,
                "verbs": ["get", "list", "watch"],
            });
            (200, json!({ "resources": [maps] }).to_string())
        }
        _ if uri.contains("sendInitialEvents") || !json => (422, "{}".to_owned()),
        _ if uri.contains("watch=") => {
            let forever = http_body_util::StreamBody::new(futures::stream::pending());
            return Ok(Response::new(BodyExt::boxed(forever)));
        }
        _ if uri.contains("Exact") => (200, list("a secret lie")),
        _ if uri.starts_with("/api/v1/configmaps") => (200, list("a secret truth")),
        _ => (404, "{}".to_owned()),
    };
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", kind);
    Ok(response)
}

#[tokio::test]
async fn a_difference_is_counted_and_its_place_told() {
    skip_under_oracle!("kube-apiserver does not show its cache");
    let listener = ports::listen_async();
    let address = listener.local_addr().expect("an address");
    let server = Arc::new(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serve = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(lies));
            tokio::spawn(serve);
        }
    }));
    let cluster = Cluster::shared();
    let folder = crate::harness::process::temporary_folder("liar");
    let url = format!("http://{address}");
    let liar = kubeconfig::write(&folder, "liar", &url, None, Credential::None);
    let front = Apifront::start(cluster, |config| {
        config["upstream"] = json!({ "kubeconfig": liar });
        config["cache"] = json!({ "selfCheck": { "interval": "100ms" } });
    })
    .await;
    let client = front.admin_client();
    front.warm(&client, MAPS).await;
    eventually("a mismatch", SOON, || async {
        checks(&front, "mismatch").await > 0.0
    })
    .await;
    assert_eq!(checks(&front, "match").await, 0.0);
    let report = client.get("/debug/cache").await.expect(200);
    let check = &resource(&report, "configmaps")["selfCheck"];
    assert_eq!(check["result"], "mismatch", "{check:#}");
    assert_eq!(check["objects"], 2);
    let log = front.process.log();
    let told = log.lines().find(|l| l.contains("differs from upstream"));
    let told = told.unwrap_or_else(|| panic!("nothing told in {log}"));
    assert!(told.contains("default/b"), "{told}");
    assert!(!log.contains("a secret"), "{log}");
    server.abort();
}
