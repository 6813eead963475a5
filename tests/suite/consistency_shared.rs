//! `Fresh` asks one question for all resources that are read at the same time. It
//! asks another one where one resource's answer proves nothing about the other.

use futures::future::join_all;
use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::etcd::Etcd;
use crate::harness::expect::DEBUG;

const ROUNDS: usize = 30;

/// Kinds without a definition, of three groups.
const KINDS: [&str; 10] = [
    "/api/v1/configmaps",
    "/api/v1/endpoints",
    "/api/v1/limitranges",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/pods",
    "/api/v1/secrets",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/daemonsets",
    "/apis/batch/v1/jobs",
];

/// The questions of a round: one in progress and one for all others. A kind whose
/// watch reached a version after the first question costs the same again.
const QUESTIONS: usize = 4;

async fn fresh(cluster: &Cluster) -> Apifront {
    Apifront::start(cluster, |config| {
        config["cache"]["consistency"] = json!("Fresh");
    })
    .await
}

async fn asked(front: &Apifront) -> f64 {
    front
        .metric("apifront_upstream_requests_total", &[("kind", "probe")])
        .await
}

/// Lists the newest state. The answer comes from memory, after a question. On a
/// machine that is too busy, an event may come later than promised. The kind is then
/// suspended, which the answer must say, and has its own questions. Returns whether
/// it was suspended.
async fn list(front: &Apifront, client: &Client, path: &str) -> (String, bool) {
    let answer = client.send(Method::GET, path, &[DEBUG], "").await;
    let cache = answer.header("x-apifront-cache");
    assert!(answer.is_hit(), "{path}: {cache}");
    let alone = !cache.ends_with("asked=version");
    if alone {
        let resource = path.rsplit('/').next().expect("a resource");
        let labels = [("resource", resource)];
        let suspended = front.metric("apifront_fresh_suspended", &labels).await;
        assert_eq!(suspended, 1.0, "{path}: {cache}");
    }
    (answer.text(), alone)
}

/// On a busy machine the lists come one by one, and each finds the previous one's
/// question already in progress.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn one_question_serves_all_resources_that_wait() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let cluster = Cluster::shared();
    let front = fresh(cluster).await;
    let client = front.admin_client();
    for path in KINDS {
        front
            .warm(&client, &format!("{path}?resourceVersion=0"))
            .await;
    }
    for path in KINDS {
        list(&front, &client, path).await;
    }
    let ns = cluster.namespace("one-question").await;
    let admin = cluster.admin_client();
    let before = asked(&front).await;
    let (mut missed, mut alone) = (0, 0);
    for n in 0..ROUNDS {
        let name = format!("written-{n}");
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        let secrets = format!("/api/v1/namespaces/{ns}/secrets");
        admin.post(&secrets, &object).await.expect(201);
        let lists = join_all(KINDS.map(|path| list(&front, &client, path))).await;
        missed += usize::from(!lists[5].0.contains(&name));
        alone += lists.iter().filter(|(_, alone)| *alone).count();
    }
    let questions = asked(&front).await - before;
    let all = ROUNDS * KINDS.len();
    println!("{questions} questions for {all} lists, {alone} of suspended kinds");
    assert!(missed <= 1, "{missed} of {ROUNDS} lists were stale");
    #[allow(clippy::cast_precision_loss)] // they are few
    let most = (ROUNDS * QUESTIONS + alone) as f64;
    assert!(questions <= most, "{questions} questions");
    front.stop().await;
}

/// Reads config maps and secrets after each write, in this order or the other.
/// Config maps have their own etcd.
async fn reads_after_writes(first: &str) {
    let folder = crate::harness::process::temporary_folder("other-etcd");
    let other = Etcd::start(&folder);
    let port = other.client_port;
    let apart = format!("--etcd-servers-overrides=/configmaps#http://127.0.0.1:{port}");
    let cluster = Cluster::leased(&[apart]).await;
    let front = fresh(&cluster).await;
    let ns = cluster.namespace("apart").await;
    let client = front.admin_client();
    let admin = cluster.admin_client();
    let kinds = match first {
        "ConfigMap" => [("ConfigMap", "configmaps"), ("Secret", "secrets")],
        _ => [("Secret", "secrets"), ("ConfigMap", "configmaps")],
    };
    for (_, resource) in kinds {
        let newest = format!("/api/v1/{resource}?resourceVersion=0");
        front.warm(&client, &newest).await;
    }
    let mut missed = 0;
    for n in 0..ROUNDS {
        for (kind, resource) in kinds {
            let name = format!("written-{n}");
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            let path = format!("/api/v1/namespaces/{ns}/{resource}");
            admin.post(&path, &object).await.expect(201);
            let answer = client.send(Method::GET, &path, &[DEBUG], "").await;
            let found = answer.expect(200).to_string();
            assert!(answer.is_hit(), "{:?}", answer.headers);
            missed += usize::from(!found.contains(&format!("\"{name}\"")));
        }
    }
    println!(
        "{first} first: {missed} of {} reads missed a write",
        2 * ROUNDS
    );
    assert!(missed <= 1, "{missed} reads were stale");
    front.stop().await;
}

#[tokio::test]
async fn a_resource_in_an_etcd_with_lower_versions_is_fresh() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    reads_after_writes("Secret").await;
}

#[tokio::test]
async fn a_resource_in_an_etcd_with_higher_versions_is_fresh() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    reads_after_writes("ConfigMap").await;
}
