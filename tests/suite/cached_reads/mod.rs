//! Compares reads from the cache with the same reads from kube-apiserver, for
//! everything in its discovery, in a cluster where nothing else changes.

pub(crate) mod everything;
mod requests;
mod selectors;
mod watches;

use std::time::Duration;

use http::Method;

use crate::harness::apifront::Apifront;
use crate::harness::client::Protocol;
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::forwarded;
use crate::harness::media_types::{
    PARTIAL, PARTIAL_LIST, PARTIAL_LIST_PROTOBUF, PROTOBUF, TABLE, TABLE_OR_JSON, YAML,
};
use crate::harness::sample::{self, NAMESPACE};
use everything::{
    lists_of_everything, objects_of_everything, representations_of_everything, resources,
};
use requests::{malformed_parameters, odd_accept_headers, pages_and_pretty};
use selectors::selectors;
use watches::{watches_from_a_known_version, watches_of_everything};

const TABLE_BETA: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

const AGGREGATED: Expect = Expect::Bypass("aggregated");
const EXCLUDED: Expect = Expect::Bypass("excluded");
const FIELD_SELECTOR: Expect = Expect::Bypass("field_selector");
const FUTURE: Expect = Expect::Bypass("future_version");
const HISTORY_TOO_SHORT: Expect = Expect::Bypass("history_too_short");
const INVALID: Expect = Expect::Bypass("invalid_options");
const NOT_WATCHABLE: Expect = Expect::Bypass("not_watchable");
const REPRESENTATION: Expect = Expect::Bypass("representation");
const UNUSUAL: Expect = Expect::Bypass("unusual_request");

/// Two ways to the quiet cluster. If both are the same way, the suite proves that it
/// compares nothing that changes by itself.
fn oracle() -> Differential {
    let cluster = Cluster::quiet();
    Differential::new(cluster.admin_client(), cluster.admin_client())
}

fn through_apifront() -> Differential {
    let cluster = Cluster::quiet();
    Differential::new(cluster.admin_client(), Apifront::quiet().admin_client())
}

differential!(
    lists_of_everything,
    objects_of_everything,
    representations_of_everything,
    watches_of_everything,
    watches_from_a_known_version,
    selectors,
    pages_and_pretty,
    odd_accept_headers,
    malformed_parameters,
    large_lists_compressed,
    versions,
    http1,
);

/// The bytes of a deflate stream are the server's choice; what they hold and
/// when they are sent is not.
async fn large_lists_compressed(mut both: Differential) {
    for accept in [
        "application/json",
        PROTOBUF,
        TABLE_OR_JSON,
        PARTIAL_LIST,
        YAML,
    ] {
        for encoding in [
            "gzip",
            "gzip, deflate",
            "gzip;q=1",
            "deflate",
            "identity",
            "*",
        ] {
            for list in ["configmaps", "services"] {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/{list}?resourceVersion=0");
                let headers = [("accept", accept), ("accept-encoding", encoding)];
                both.ask(Method::GET, &path, &headers, "").await;
            }
        }
    }
    both.finish();
}

async fn versions(mut both: Differential) {
    let list = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    // The version in the cache. The cache learns a newer one, at which nothing
    // happened to pods, only from the upstream's next bookmark, up to a minute
    // later.
    let cached = format!("{list}?resourceVersion=0");
    both.warm(&cached).await;
    let now = both.front.get(&cached).await.expect(200);
    let newest = now["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    for query in [
        format!("resourceVersion={newest}&resourceVersionMatch=Exact"),
        format!("resourceVersion={newest}&resourceVersionMatch=Exact&limit=2"),
        format!("resourceVersion={newest}&limit=2"),
        format!("resourceVersion={newest}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={newest}"),
        "limit=2".to_owned(),
        String::new(),
    ] {
        both.get(&format!("{list}?{query}")).await;
    }
    for query in [
        "resourceVersion=999999999&resourceVersionMatch=Exact",
        "resourceVersion=999999999",
    ] {
        both.expect(FUTURE).get(&format!("{list}?{query}")).await;
    }
    for item in now["items"].as_array().expect("items") {
        let name = item["metadata"]["name"].as_str().expect("name");
        let version = item["metadata"]["resourceVersion"]
            .as_str()
            .expect("version");
        both.get(&format!("{list}/{name}?resourceVersion={version}"))
            .await;
        both.get(&format!("{list}/{name}")).await;
    }
    both.finish();
}

async fn http1(both: Differential) {
    let (direct, front) = (
        both.direct.over(Protocol::Http1),
        both.front.over(Protocol::Http1),
    );
    let mut both = Differential::new(direct, front);
    let gzip = [("accept-encoding", "gzip")];
    for path in [
        "/api/v1/pods?resourceVersion=0",
        "/api/v1/namespaces/sample/pods/running?resourceVersion=0",
        "/api/v1/namespaces/sample/pods/none?resourceVersion=0",
        "/api/v1/pods?resourceVersion=0&watch=1&timeoutSeconds=1",
        "/api/v1/namespaces/sample/configmaps?resourceVersion=0",
    ] {
        both.get(path).await;
        both.ask(Method::GET, path, &gzip, "").await;
        let head = both.expect(Expect::NotAsked);
        head.ask(Method::HEAD, path, &[], "").await;
    }
    for (method, headers) in [
        (Method::GET, &[][..]),
        (Method::GET, &gzip),
        (Method::HEAD, &[]),
    ] {
        let document = both.expect(Expect::Document);
        document.ask(method, "/apis", headers, "").await;
    }
    both.finish();
}

/// Equal answers prove little if all of them were forwarded.
#[tokio::test]
async fn served_from_the_cache() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let front = Apifront::quiet();
    let client = front.admin_client();
    let mut bypassed = Vec::new();
    for resource in resources(&client).await.iter().filter(|r| r.watchable) {
        // The configuration excludes these by default.
        if resource.name == "events" {
            continue;
        }
        let path = format!("{}?resourceVersion=0", resource.everywhere());
        let custom = resource.base.contains("example.test");
        let mut accepts = vec!["application/json", PARTIAL_LIST, PARTIAL_LIST_PROTOBUF];
        if !custom && !forwarded::protobuf(&resource.everywhere()) {
            accepts.push(PROTOBUF);
        }
        for accept in accepts {
            let mut said = String::new();
            // The first request for a resource may find its cache still empty.
            for _ in 0..50 {
                let headers = [("x-apifront-debug", "cache"), ("accept", accept)];
                let answer = client.send(Method::GET, &path, &headers, "").await;
                said = answer.header("x-apifront-cache").to_owned();
                if said.starts_with("hit") {
                    break;
                }
                crate::harness::pace::of_tries(Duration::from_millis(20)).await;
            }
            if !said.starts_with("hit") {
                bypassed.push(format!("{path} {accept}: {said}"));
            }
        }
    }
    let report = client.get("/debug/cache").await.expect(200);
    for resource in report["resources"].as_array().expect("resources") {
        let group = resource["group"].as_str().expect("group");
        let json = group.ends_with("example.test")
            || ["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&group)
            || forwarded::protobuf(&list_path(resource));
        let expected = if json { "json" } else { "protobuf" };
        let encoding = resource["encoding"].as_str();
        if encoding.is_some_and(|encoding| encoding != expected) {
            bypassed.push(format!("{resource} is not read as {expected}"));
        }
    }
    assert!(bypassed.is_empty(), "{bypassed:#?}");
    let hits = [("resource", "pods"), ("result", "hit")];
    assert!(front.metric("apifront_cache_requests_total", &hits).await >= 1.0);
}

/// Returns the list path of a resource in the cache's report.
fn list_path(resource: &serde_json::Value) -> String {
    let text = |key: &str| resource[key].as_str().unwrap_or_default();
    match text("group") {
        "" => format!("/api/{}/{}", text("version"), text("resource")),
        group => format!("/apis/{group}/{}/{}", text("version"), text("resource")),
    }
}

/// The sample must be large enough to be compressed.
#[tokio::test]
async fn the_sample_is_what_the_suite_needs() {
    let admin = Cluster::quiet().admin_client();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    assert!(admin.get(&path).await.body.len() > 256 * 1024);
    let widgets = admin
        .get(&format!("/apis/{}/v1/widgets", sample::GROUP))
        .await;
    assert_eq!(
        widgets.expect(200)["items"].as_array().map(Vec::len),
        Some(3)
    );
}
