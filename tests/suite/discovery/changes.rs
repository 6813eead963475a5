//! apifront shows changes of discovery soon. Documents that cannot be fetched stay
//! as they were.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use tokio::time::timeout;

use super::{compare_all, difference, everything, versions};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::media_types::GROUP_DISCOVERY;
use crate::harness::{control, eventually, objects, pace};

const SOON: Duration = Duration::from_secs(30);
/// The time in which upstream usually shows a change. Its aggregator may ask a group's
/// server too early, and then asks again only after a minute or more.
const SHOWN_UPSTREAM: Duration = Duration::from_secs(10);
/// The time that an answer may take on a busy machine.
const LATEST: Duration = Duration::from_secs(4);

async fn shows(client: &Client, path: &str, accept: &str, text: &str) -> bool {
    client.get_as(path, accept).await.text().contains(text)
}

/// Waits until `shown` holds upstream. apifront's next answer must agree. Returns false
/// if upstream is late.
async fn agrees_at_once(
    direct: &Client,
    front: &Client,
    (path, accept): (&str, &str),
    text: &str,
    shown: bool,
) -> bool {
    let changed = async {
        while shows(direct, path, accept, text).await != shown {
            pace::of_tries(Duration::from_millis(20)).await;
        }
    };
    if timeout(SHOWN_UPSTREAM, changed).await.is_err() {
        return false;
    }
    let agrees = shows(front, path, accept, text).await == shown;
    assert!(agrees, "{path} as {accept}: {shown} upstream");
    true
}

async fn same_soon(direct: &Client, front: &Client, path: &str, accept: &str) {
    eventually(&format!("the same {path}"), LATEST, || async {
        let headers = [("accept", accept)];
        let found = difference(direct, front, Method::GET, path, &headers).await;
        found.is_empty()
    })
    .await;
}

#[tokio::test]
async fn custom_resources_come_and_go_at_once() {
    let cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let (direct, through) = (cluster.admin_client(), front.admin_client());
    let documents = [
        ("/apis", GROUP_DISCOVERY),
        ("/apis", "application/json"),
        ("/openapi/v3", "application/json"),
        ("/openapi/v2", "application/json"),
    ];
    // These documents are in memory, since they were requested before.
    for (path, accept) in documents {
        through.get_as(path, accept).await;
    }
    let mut agreed = [0; 4];
    for round in 0.. {
        let at = round % documents.len();
        if agreed.iter().all(|times| *times >= 2) {
            break;
        }
        assert!(round < 24, "upstream shows changes of {agreed:?} alone");
        let group = format!("{}.example.com", unique("discovered"));
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition = objects::widget_definition(&group);
        direct.post(definitions, &definition).await.expect(201);
        let came = agrees_at_once(&direct, &through, documents[at], &group, true).await;
        let version = format!("/apis/{group}/v1");
        eventually("the version is served", SOON, || async {
            direct.get(&version).await.status == 200
        })
        .await;
        for path in [version.as_str(), &format!("/apis/{group}"), "/apis"] {
            same_soon(&direct, &through, path, "application/json").await;
        }
        let name = format!("{definitions}/widgets.{group}");
        direct.delete(&name).await.expect(200);
        if came && agrees_at_once(&direct, &through, documents[at], &group, false).await {
            agreed[at] += 1;
        }
    }
    for accept in ["application/json", GROUP_DISCOVERY] {
        same_soon(&direct, &through, "/apis", accept).await;
    }
    compare_all(&direct, &through, &["/apis", "/api"]).await;
    front.stop().await;
}

/// The aggregated document does not contain the hash of a storage version.
#[tokio::test]
async fn another_storage_version_is_shown_too() {
    let (direct, front) = (
        Cluster::shared().admin_client(),
        Apifront::shared().admin_client(),
    );
    let group = format!("{}.example.com", unique("stored"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definition = objects::widget_definition(&group);
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(second);
    direct.post(definitions, &definition).await.expect(201);
    let path = format!("/apis/{group}/v1");
    eventually("the version is served", SOON, || async {
        front.get(&path).await.status == 200
    })
    .await;
    let before = front.get(&path).await.text();
    let patch = json!([
        { "op": "replace", "path": "/spec/versions/0/storage", "value": false },
        { "op": "replace", "path": "/spec/versions/1/storage", "value": true },
    ]);
    let name = format!("{definitions}/widgets.{group}");
    direct
        .patch(&name, "json-patch+json", &patch)
        .await
        .expect(200);
    eventually("upstream shows it", SOON, || async {
        direct.get(&path).await.text() != before
    })
    .await;
    let since = Instant::now();
    let expected = direct.get(&path).await.text();
    eventually("apifront shows it", SOON, || async {
        front.get(&path).await.text() == expected
    })
    .await;
    assert!(since.elapsed() <= LATEST, "{:?}", since.elapsed());
    direct.delete(&name).await.expect(200);
}

#[tokio::test]
async fn without_upstream_the_last_documents_stay() {
    skip_under_oracle!("it stops the API server behind apifront");
    let mut cluster = Cluster::leased(&[]).await;
    let front = Apifront::start_directly(&cluster, |config| {
        // Callers in system:masters are not reviewed, so requests are possible while
        // no API server answers.
        config["authorization"] = json!({ "subjectAccessReview": { "allowTTL": "10m" } });
    })
    .await;
    let client = front.admin_client();
    let before = everything(&client).await;
    let paths = ["/apis", "/apis/apps", "/apis/apps/v1", "/api", "/api/v1"];
    let mut texts = Vec::new();
    for path in paths {
        texts.push(client.get(path).await.text());
    }
    cluster.apiserver.kill();
    // Requests wait until a fetch has failed.
    let failed = [("source", "upstream"), ("result", "failed")];
    eventually("a question has failed", SOON, || async {
        everything(&client).await;
        let name = "apifront_discovery_refreshes_total";
        front.metric(name, &failed).await > 0.0
    })
    .await;
    let other = Cluster::shared().admin_client();
    let mut waited = Duration::ZERO;
    for _ in 0..20 {
        let control = other.get("/livez");
        let (now, took) = control::longer_than(control, everything(&client)).await;
        waited += took;
        assert_eq!(now.status, 200);
        assert_eq!(now.body, before.body);
        assert_eq!(now.header("etag"), before.header("etag"));
    }
    for (path, text) in paths.iter().zip(&texts) {
        let (now, took) = control::longer_than(other.get("/livez"), client.get(path)).await;
        assert_eq!(now.text(), *text, "{path}");
        waited += took;
    }
    assert!(waited < LATEST, "{waited:?}");
    eventually("the documents grow old", SOON, || async {
        front.metric("apifront_discovery_age_seconds", &[]).await > 1.0
    })
    .await;

    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    let direct = cluster.admin_client();
    let group = format!("{}.example.com", unique("after"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    direct
        .post(definitions, &objects::widget_definition(&group))
        .await
        .expect(201);
    eventually("it is current again", SOON, || async {
        versions(&client)
            .await
            .contains(&format!("{group}/v1 Current"))
    })
    .await;
    front.stop().await;
}
