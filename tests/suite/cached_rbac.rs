//! Requests that RBAC objects in the cache allow, without a SubjectAccessReview
//! (`authorization.cachedRBAC: Allow`).

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::degraded::rbac::{USER_GROUPS, USERS, create, settled};
use crate::harness::apifront::{Apifront, upstream_requests};
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, grant};
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::objects::{role, role_binding};
use crate::harness::{eventually, volume};

/// Namespaces of the random roles.
const NAMESPACES: [&str; 2] = ["rights-a", "rights-b"];
const NAMES: [&str; 2] = ["a", "b"];
const DECISIONS: &str = "apifront_cached_rbac_decisions_total";
/// A withdrawn right lasts two seconds; a busy machine needs longer.
const WITHDRAWN_WITHIN: Duration = Duration::from_secs(30);

async fn front(cluster: &Cluster) -> Apifront {
    Apifront::start(cluster, |config| {
        config["authorization"] = json!({
            "cachedRBAC": "Allow",
            "subjectAccessReview": { "allowTTL": "2s", "denyTTL": "0s" },
        });
    })
    .await
}

/// Returns the questions to RBAC with this result.
async fn decisions(front: &Apifront, result: &str) -> f64 {
    front.metric(DECISIONS, &[("result", result)]).await
}

async fn reviews(front: &Apifront) -> f64 {
    upstream_requests(&front.metrics().await)["subject_access_review"]
}

/// Returns an object for the collection at this path.
fn object(path: &str, name: &str) -> Value {
    match path.rsplit('/').next() {
        Some("deployments") => json!({
            "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "c", "image": "i" }] },
                },
            },
        }),
        _ => json!({ "metadata": { "name": name } }),
    }
}

/// Returns reads of all that the random roles are about.
fn reads() -> Vec<String> {
    let collections = |prefix: &str, namespace: &str, resource: &str| match namespace {
        "" => format!("{prefix}/{resource}"),
        _ => format!("{prefix}/namespaces/{namespace}/{resource}"),
    };
    let mut reads = Vec::new();
    for (prefix, resource) in [
        ("/api/v1", "secrets"),
        ("/api/v1", "serviceaccounts"),
        ("/apis/apps/v1", "deployments"),
    ] {
        for namespace in ["", NAMESPACES[0], NAMESPACES[1]] {
            let path = collections(prefix, namespace, resource);
            if !namespace.is_empty() {
                reads.extend(NAMES.map(|name| format!("{path}/{name}")));
            }
            reads.push(format!("{path}?resourceVersion=0"));
        }
    }
    reads.push("/apis/rbac.authorization.k8s.io/v1/clusterroles/the-last-one".to_owned());
    reads.extend(NAMESPACES.map(|namespace| format!("/api/v1/namespaces/{namespace}")));
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_rights_are_those_of_kube_apiserver() {
    skip_under_oracle!("it decides about rights");
    let seed = volume::seed("rbac");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    create(&mut StdRng::seed_from_u64(seed), &admin).await;
    for namespace in NAMESPACES {
        for path in [
            format!("/api/v1/namespaces/{namespace}/secrets"),
            format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        ] {
            for name in NAMES {
                admin.post(&path, &object(&path, name)).await.expect(201);
            }
        }
    }
    let [certain, _] = NAMESPACES;
    let secrets = role("certain", &[""], &["secrets"], &["get", "list"]);
    let binding = role_binding("certain", "certain", "User", USERS[0]);
    grant(&admin, certain, &[secrets, binding]).await;
    settled(&admin).await;
    let front = front(&cluster).await;
    for path in reads() {
        front.warm(&front.admin_client(), &path).await;
    }
    let before = reviews(&front).await;
    let (mut allowed, mut refused) = (0, 0);
    let users = USERS
        .iter()
        .chain(&["nobody"])
        .zip(USER_GROUPS.iter().cycle());
    for (n, (user, group)) in users.enumerate() {
        let groups = [*group];
        let certificate = cluster.certificates.client(user, &groups[..(n + 1) % 2]);
        let direct = cluster.client(Some(&certificate));
        let mut both = Differential::new(direct, front.client(Some(&certificate)));
        for path in reads() {
            let theirs = both.direct.get(&path).await;
            if theirs.status != 403 {
                allowed += 1;
                both.get(&path).await;
                continue;
            }
            refused += 1;
            // kube-apiserver names missing roles in any order.
            let ours = both.front.get(&path).await;
            let letters = |answer: &Answer| {
                let mut letters = answer.body.to_vec();
                letters.sort_unstable();
                letters
            };
            assert_eq!(ours.status, 403, "{user} {path}");
            assert_eq!(letters(&ours), letters(&theirs), "{user} {path}");
        }
        both.finish();
    }
    println!("{allowed} allowed, {refused} refused");
    // The certain role's holder may read a list and its objects, and nobody may nothing.
    assert!(allowed > NAMES.len() && refused > 0, "{allowed} {refused}");
    assert!(decisions(&front, "allowed").await >= allowed as f64);
    assert_eq!(decisions(&front, "unknown").await, 0.0);
    // apifront has asked for a review of each question that RBAC did not allow, and no other.
    let left = decisions(&front, "not-allowed").await;
    assert_eq!(reviews(&front).await - before, left);
    assert!(left >= refused as f64);
    front.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_come_at_once_and_go_in_time() {
    skip_under_oracle!("it decides about rights");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let namespace = cluster.namespace("cached-rbac").await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let front = front(cluster).await;
    front.warm(&front.admin_client(), &secrets).await;
    let certificate = cluster.certificates.client(&namespace, &[]);
    let (direct, through) = (
        cluster.client(Some(&certificate)),
        front.client(Some(&certificate)),
    );
    assert_eq!(through.get(&secrets).await.status, 403);
    let reads = role("reads", &[""], &["secrets"], &["get", "list", "watch"]);
    let binding = role_binding("reads", "reads", "User", &namespace);
    grant(&admin, &namespace, &[reads, binding]).await;
    let is_allowed = async |client: &Client| client.get(&secrets).await.status == 200;
    for (server, client) in [("kube-apiserver", &direct), ("apifront", &through)] {
        eventually(server, WITHDRAWN_WITHIN, || is_allowed(client)).await;
    }
    // The reviews are those of the questions before the right came.
    let asked = reviews(&front).await;
    assert!(decisions(&front, "allowed").await > 0.0);
    for _ in 0..10 {
        assert!(is_allowed(&through).await);
    }
    assert_eq!(reviews(&front).await, asked);
    let binding =
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/reads");
    admin.delete(&binding).await.expect(200);
    for (server, client) in [("kube-apiserver", &direct), ("apifront", &through)] {
        eventually(server, WITHDRAWN_WITHIN, async || !is_allowed(client).await).await;
    }
    front.stop().await;
}

/// Rules of a namespace's owner cost everybody else's requests nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_rules_are_left_to_kube_apiserver() {
    skip_under_oracle!("it decides about rights");
    let cluster = Cluster::shared();
    let namespace = cluster.namespace("many-rules").await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let front = front(cluster).await;
    front.warm(&front.admin_client(), &secrets).await;
    let others: Vec<String> = (0..25_000).map(|n| format!("resource-{n}")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let long = role(
        "reads",
        &[""],
        &[&others[..], &["secrets"]].concat(),
        &["list"],
    );
    let binding = role_binding("reads", "reads", "User", &namespace);
    grant(&cluster.admin_client(), &namespace, &[long, binding]).await;
    let certificate = cluster.certificates.client(&namespace, &[]);
    for client in [
        cluster.client(Some(&certificate)),
        front.client(Some(&certificate)),
    ] {
        eventually("the right", WITHDRAWN_WITHIN, || async {
            client.get(&secrets).await.status == 200
        })
        .await;
    }
    eventually("the long role", WITHDRAWN_WITHIN, || async {
        front
            .client(Some(&certificate))
            .get(&secrets)
            .await
            .expect(200);
        decisions(&front, "too-many-rules").await > 0.0
    })
    .await;
    assert_eq!(decisions(&front, "allowed").await, 0.0);
    front.stop().await;
}

/// Rights that RBAC does not know, such as a node's, are asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_of_other_authorizers_are_asked_for() {
    skip_under_oracle!("it decides about rights");
    // Beside RBAC.
    let cluster = Cluster::leased(&["--authorization-mode=Node".to_owned()]).await;
    let node = "/api/v1/nodes/cached-rbac";
    let object = json!({ "metadata": { "name": "cached-rbac" } });
    let admin = cluster.admin_client();
    admin.post("/api/v1/nodes", &object).await.expect(201);
    let front = front(&cluster).await;
    front.warm(&front.admin_client(), node).await;
    let kubelet = cluster
        .certificates
        .client("system:node:cached-rbac", &["system:nodes"]);
    let direct = cluster.client(Some(&kubelet));
    let mut both = Differential::new(direct, front.client(Some(&kubelet)));
    both.get(node).await;
    both.expect(Expect::NotAsked)
        .get("/api/v1/nodes/other")
        .await;
    both.finish();
    assert!(decisions(&front, "not-allowed").await >= 2.0);
    assert_eq!(decisions(&front, "allowed").await, 0.0);
    front.stop().await;
}
