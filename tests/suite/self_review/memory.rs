//! Answers from memory: the requests that they save upstream, the caller to whom
//! each belongs, and their lifetime.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};

use super::asking::{ask, is_allowed, is_remembered, may, question, timeless};
use crate::harness::apifront::{Apifront, upstream_requests};
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::{Cluster, unique};
use crate::harness::differential::compare;
use crate::harness::eventually;
use crate::harness::media_types::JSON;
use crate::harness::objects::cluster_role_binding;

const SOON: Duration = Duration::from_secs(30);
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn front_with(cluster: &Cluster, allow: &str, deny: &str) -> Apifront {
    Apifront::start(cluster, |config| {
        config["authorization"]["subjectAccessReview"] =
            json!({"allowTTL": allow, "denyTTL": deny});
    })
    .await
}

fn lists_pods(name: &str) -> Value {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
    json!({"metadata": {"name": name}, "rules": [rule]})
}

/// Fifty questions, like those of a dashboard's page.
fn page() -> Vec<Value> {
    let resources = ["pods", "secrets", "nodes", "events", "services"];
    let verbs = ["get", "list", "watch", "create", "delete"];
    let both = resources
        .iter()
        .flat_map(|resource| verbs.map(|verb| (*resource, verb)));
    let places = ["", "default"];
    both.flat_map(|(resource, verb)| {
        places.map(|place| json!({"verb": verb, "resource": resource, "namespace": place}))
    })
    .collect()
}

async fn answers(client: &Client) -> Vec<Answer> {
    let questions = page();
    futures::stream::iter(&questions)
        .map(|question| may(client, question))
        .buffered(8)
        .collect()
        .await
}

#[tokio::test]
async fn a_page_of_questions_is_asked_upstream_once() {
    skip_under_oracle!("it counts what apifront asks");
    let cluster = Cluster::shared();
    let front = front_with(cluster, "10m", "10m").await;
    let user = cluster.certificates.client(&unique("asks"), &[]);
    let client = front.client(Some(&user));
    let asked = |metrics: String| {
        let requests = upstream_requests(&metrics);
        (requests["forward"], requests["subject_access_review"])
    };
    let counted = async |answer: &'static str| {
        let name = "apifront_self_subject_access_reviews_total";
        front.metric(name, &[("answer", answer)]).await
    };
    assert_eq!(page().len(), 50);
    let first = answers(&client).await;
    let before = (50.0, 0.0);
    // A request is counted after its answer was sent.
    eventually("one request for each question", SOON, || async {
        asked(front.metrics().await) == before
    })
    .await;
    for protocol in [Protocol::Http2, Protocol::Http1] {
        let again = answers(&client.over(protocol)).await;
        for (one, other) in first.iter().zip(&again) {
            assert!(!is_remembered(one) && is_remembered(other));
            assert_eq!(one.body, other.body);
            assert_eq!(one.header("content-type"), other.header("content-type"));
        }
    }
    assert_eq!(
        asked(front.metrics().await),
        before,
        "nothing more was asked"
    );
    assert_eq!(
        (
            counted("upstream").await,
            counted("memory").await,
            counted("view").await
        ),
        (50.0, 100.0, 0.0)
    );
}

/// Other callers ask the same question: with another name, other groups, another
/// extra, another token.
#[tokio::test]
async fn an_answer_is_of_one_caller_alone() {
    let cluster = Cluster::shared();
    let (user, group) = (unique("asks"), unique("askers"));
    let admin = cluster.admin_client();
    let role = lists_pods(&user);
    admin
        .post(&format!("{RBAC}/clusterroles"), &role)
        .await
        .expect(201);
    let binding = cluster_role_binding(&user, &user, "Group", &group);
    let path = format!("{RBAC}/clusterrolebindings");
    admin.post(&path, &binding).await.expect(201);
    let front = front_with(cluster, "10m", "10m").await;
    let body = question(&json!({"verb": "list", "resource": "pods"})).to_string();
    let member = [("impersonate-user", &*user), ("impersonate-group", &*group)];
    eventually("the binding", SOON, || async {
        is_allowed(&ask(&admin, body.clone(), &member).await)
    })
    .await;
    let other = unique("asks");
    let named = [("impersonate-user", &*user)];
    let extra = [
        ("impersonate-user", &*user),
        ("impersonate-extra-a", "b"),
        ("impersonate-uid", "7"),
    ];
    let of_other = [("impersonate-user", &*other)];
    let proxied = front.admin_client();
    for (who, expected) in [
        (&member[..], true),
        (&named[..], false),
        (&extra[..], false),
        (&of_other[..], false),
        (&[][..], true),
    ] {
        let headers: Vec<_> = who
            .iter()
            .copied()
            .chain([("content-type", JSON)])
            .collect();
        for _ in 0..2 {
            let theirs = ask(&admin, body.clone(), &headers).await;
            let ours = ask(&proxied, body.clone(), &headers).await;
            assert_eq!(is_allowed(&ours), expected, "{who:?}");
            let found = compare(&timeless(&theirs), &timeless(&ours));
            assert!(found.is_empty(), "{who:?}: {found}");
        }
    }
}

/// A caller who may not ask is refused, whatever was answered before.
#[tokio::test]
async fn a_right_that_was_taken_ends_in_time() {
    let cluster = Cluster::shared();
    let front = front_with(cluster, "1s", "1s").await;
    let user = unique("asks");
    let admin = cluster.admin_client();
    let certificate = cluster.certificates.client(&user, &[]);
    let client = front.client(Some(&certificate));
    let pods = json!({"verb": "list", "resource": "pods"});
    assert!(!is_allowed(&may(&client, &pods).await));
    let role = lists_pods(&user);
    admin
        .post(&format!("{RBAC}/clusterroles"), &role)
        .await
        .expect(201);
    let binding = cluster_role_binding(&user, &user, "User", &user);
    let path = format!("{RBAC}/clusterrolebindings");
    admin.post(&path, &binding).await.expect(201);
    eventually("the right", SOON, || async {
        is_allowed(&may(&client, &pods).await)
    })
    .await;
    admin.delete(&format!("{path}/{user}")).await.expect(200);
    eventually("the loss", SOON, || async {
        !is_allowed(&may(&client, &pods).await)
    })
    .await;
}

#[tokio::test]
async fn without_a_time_nothing_is_remembered() {
    skip_under_oracle!("it asks who answered");
    let cluster = Cluster::shared();
    let pods = json!({"verb": "list", "resource": "pods"});
    for (allow, deny) in [("0s", "10m"), ("10m", "0s")] {
        let front = front_with(cluster, allow, deny).await;
        let user = cluster.certificates.client(&unique("asks"), &[]);
        let client = front.client(Some(&user));
        for _ in 0..2 {
            let answer = may(&client, &pods).await;
            assert!(!is_allowed(&answer) && !is_remembered(&answer));
        }
    }
}

/// A body that comes slowly, or never, is forwarded as usual.
#[tokio::test]
async fn slow_questions_are_forwarded() {
    let cluster = Cluster::shared();
    let front = front_with(cluster, "10m", "10m").await;
    let user = cluster.certificates.client(&unique("asks"), &[]);
    let client = front.client(Some(&user)).over(Protocol::Http1);
    let body = question(&json!({"verb": "list", "resource": "pods"})).to_string();
    let (half, rest) = body.split_at(body.len() / 2);
    for _ in 0..2 {
        let mut connection = client.raw().await.expect("a connection");
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nContent-Length: {}\r\n\r\n{half}",
            super::asking::PATH,
            body.len()
        );
        connection.write(head.as_bytes()).await.expect("sent");
        crate::harness::pace::of_load(Duration::from_millis(1500)).await;
        connection.write(rest.as_bytes()).await.expect("sent");
        let answer = connection.read_answer().await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        assert!(answer.contains("\"allowed\":false"), "{answer}");
    }
}
