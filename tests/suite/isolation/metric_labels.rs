//! Callers must not be able to add metric series or long log lines at will.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::config_map;

/// The allowed growth of the metrics in bytes: series for unknown requests, and
/// series that are counted for the first time.
const NOISE: usize = 128 << 10;

async fn refused(client: &Client, method: Method, path: &str) {
    let answer = client.send(method.clone(), path, &[], "").await;
    let status = answer.status;
    assert!(status.is_client_error(), "{method} {status}");
}

/// Without a bound, 150 requests of an unauthenticated caller made /metrics 187 MB
/// large.
#[tokio::test]
async fn subresources_of_strangers_are_no_labels() {
    skip_under_oracle!("the metrics and the log are apifront's");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let admin = front.admin_client();
    let ns = cluster.namespace("labels").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    admin
        .post(&list, &config_map("a", json!({}), json!({})))
        .await
        .expect(201);
    admin.get(&format!("{list}/a")).await.expect(200);
    admin.get("/api/v1/pods").await.expect(200);
    let before = front.metrics().await.len();

    let nobody = front.client(None);
    for n in 0..150 {
        let name = format!("s{n}-{}", "x".repeat(20_000));
        for path in [
            format!("/api/v1/namespaces/{ns}/configmaps/a/{name}"),
            format!("/api/v1/namespaces/{ns}/{name}/a"),
            format!("/apis/{name}/v1/things"),
        ] {
            refused(&nobody, Method::GET, &path).await;
        }
    }
    let metrics = front.metrics().await;
    assert!(!metrics.contains("xxxxxxxx"));
    assert!(
        metrics.len() < before + NOISE,
        "{} bytes, {before} before",
        metrics.len()
    );

    // This caller is authenticated and has no rights. Only existing resources become
    // labels.
    let rightless = cluster
        .certificates
        .client(&format!("rightless-of-{ns}"), &[]);
    let rightless = front.client(Some(&rightless));
    let before = metrics.len();
    for method in [
        Method::GET,
        Method::PUT,
        Method::POST,
        Method::PATCH,
        Method::DELETE,
    ] {
        for path in [
            "/api/v1/pods",
            &list,
            &format!("{list}/a"),
            &format!("{list}/a/short"),
        ] {
            for query in ["", "?dryRun=All", "?dryRun=x", "?watch=1"] {
                let path = format!("{path}{query}");
                refused(&rightless, method.clone(), &path).await;
            }
        }
    }
    let metrics = front.metrics().await;
    assert!(!metrics.contains(r#"subresource="short""#));
    assert!(
        metrics.len() < before + NOISE,
        "{} bytes, {before} before",
        metrics.len()
    );
    front.stop().await;
}

#[tokio::test]
async fn a_long_uri_is_a_short_line_of_the_log() {
    skip_under_oracle!("the metrics and the log are apifront's");
    let front = Apifront::start(Cluster::shared(), |config| {
        config["logging"] = json!({ "verbosity": 2 });
    })
    .await;
    let nobody = front.client(None);
    let long = format!("/api/v1/pods?labelSelector=marked{}", "x".repeat(50_000));
    assert_eq!(nobody.get(&long).await.status, 401);
    let line = || {
        let log = front.process.log();
        let mut lines = log.lines().filter(|line| line.contains("marked"));
        lines.next().map(str::len)
    };
    eventually("it is logged", Duration::from_secs(10), || async {
        line().is_some()
    })
    .await;
    assert!(line().is_some_and(|length| length < 4096), "{:?}", line());
    front.stop().await;
}
