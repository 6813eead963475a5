//! apifront's questions to the API server about callers: one caller's must not wait
//! for another's.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::flood::Flood;
use super::measure::{Bound, Times, assert_unharmed};
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::{cluster_role_binding, config_map, role, role_binding};
use crate::harness::slow_link::SlowLink;
use crate::harness::volume;

const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(1000),
};

/// A path that every authenticated user may read.
const VERSION: &str = "/version";

/// The concurrent requests and their connections. They are few enough that none is
/// refused, and so many that one common queue would be much longer than a review
/// takes.
const CONNECTIONS: usize = 4;
const AT_A_TIME: usize = 500;

/// The additional delay of the API server's answers. It makes the flood wait for its
/// turn instead of the processor.
const DELAY: Duration = Duration::from_millis(150);

const COUNT: usize = 15;

async fn tokens(cluster: &Cluster, count: usize) -> Vec<String> {
    let admin = cluster.admin_client();
    let ns = cluster.namespace("tokens").await;
    let accounts = format!("/api/v1/namespaces/{ns}/serviceaccounts");
    let account = json!({ "metadata": { "name": "jane" } });
    admin.post(&accounts, &account).await.expect(201);
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
    });
    let mut tokens = Vec::new();
    for _ in 0..count {
        let path = format!("{accounts}/jane/token");
        let answer = admin.post(&path, &request).await.expect(201);
        tokens.push(
            answer["status"]["token"]
                .as_str()
                .expect("a token")
                .to_owned(),
        );
    }
    tokens
}

async fn reads(client: &Client, path: &str) -> bool {
    let answer = client.try_send(Method::GET, path, &[], "").await;
    answer.is_ok_and(|answer| answer.status == 200)
}

#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn a_flood_of_random_tokens_does_not_delay_good_ones() {
    skip_under_oracle!("the reviews are apifront's");
    let cluster = Cluster::shared();
    // No result is remembered, so each request has its own review.
    let (_link, front) = SlowLink::before(Cluster::shared(), DELAY, |config| {
        config["authentication"]["tokenReview"] =
            json!({ "enabled": true, "successTTL": "0s", "failureTTL": "0s" });
    })
    .await;
    let asked = COUNT * volume::samples();
    let mut tokens = tokens(cluster, 2 * asked + 1).await;
    let known = front.client(None).token(&tokens.pop().expect("a token"));
    let elsewhere = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let stranger = front.client(None).connecting_from(elsewhere);
    let tokens = &tokens;
    let strange = async |n: usize| {
        let token = format!("Bearer {}", tokens[n]);
        let headers = [("authorization", token.as_str())];
        let answer = stranger.try_send(Method::GET, VERSION, &headers, "").await;
        answer.is_ok_and(|answer| answer.status == 200)
    };
    let known = async |_| reads(&known, VERSION).await;
    let quiet = tokio::join!(
        Times::of_requests(COUNT, known),
        Times::of_requests(COUNT, strange),
    );

    let clients: Vec<Client> = (0..CONNECTIONS).map(|_| front.client(None)).collect();
    let flood = Flood::start(AT_A_TIME, move |n| {
        let client = clients[n % CONNECTIONS].clone();
        async move {
            let token = format!("Bearer random-{n}");
            let headers = [("authorization", token.as_str())];
            let _ = client.try_send(Method::GET, VERSION, &headers, "").await;
        }
    })
    .await;
    let attacked = tokio::join!(
        Times::of_requests(COUNT, known),
        Times::of_requests(COUNT, async |n| strange(asked + n).await),
    );
    println!("{} random tokens", flood.end());
    assert_unharmed("a token that was good before", &quiet.0, &attacked.0, BOUND);
    assert_unharmed("a new token from elsewhere", &quiet.1, &attacked.1, BOUND);
    front.stop().await;
}

#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn a_flood_of_access_reviews_does_not_delay_another_users() {
    skip_under_oracle!("the reviews are apifront's");
    let cluster = Cluster::shared();
    let (_link, front) = SlowLink::before(Cluster::shared(), DELAY, |config| {
        config["authorization"] =
            json!({ "subjectAccessReview": { "allowTTL": "0s", "denyTTL": "0s" } });
        // This test does not concern seats.
        config["serving"]["maxRequestsInflight"] = json!(0);
        config["flow"] = json!({ "enablePriorityAndFairness": false });
    })
    .await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("reviews").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    admin
        .post(&list, &config_map("a", json!({}), json!({})))
        .await
        .expect(201);
    let (jane, flood) = (format!("jane-of-{ns}"), format!("flood-of-{ns}"));
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}");
    let may = role("reader", &[""], &["configmaps"], &["get", "list"]);
    admin.post(&format!("{rbac}/roles"), &may).await.expect(201);
    let bound = role_binding("reader", "reader", "User", &jane);
    admin
        .post(&format!("{rbac}/rolebindings"), &bound)
        .await
        .expect(201);
    let jane = front.client(Some(&cluster.certificates.client(&jane, &[])));
    let flood = cluster.certificates.client(&flood, &[]);
    let path = format!("{list}/a?resourceVersion=0");
    eventually("jane may", Duration::from_secs(10), || async {
        jane.get(&path).await.status == 200
    })
    .await;
    front.warm(&jane, &path).await;
    let reading = async |_| reads(&jane, &path).await;
    let quiet = Times::of_requests(COUNT, reading).await;
    let clients: Vec<Client> = (0..CONNECTIONS)
        .map(|_| front.client(Some(&flood)))
        .collect();
    let flood = Flood::start(AT_A_TIME, move |n| {
        let client = clients[n % CONNECTIONS].clone();
        let path = format!("{list}/random-{n}?resourceVersion=0");
        async move {
            let _ = client.try_send(Method::GET, &path, &[], "").await;
        }
    })
    .await;
    let attacked = Times::of_requests(COUNT, reading).await;
    println!("{} questions", flood.end());
    assert_unharmed("another user's question", &quiet, &attacked, BOUND);
    front.stop().await;
}

/// A request with many groups has a question for each. apifront stops asking them
/// when the client disconnects.
#[tokio::test]
async fn questions_about_groups_end_when_the_client_goes_away() {
    skip_under_oracle!("the reviews are apifront's");
    const SOON: Duration = Duration::from_secs(30);
    const MISSES: &str = "apifront_subject_access_review_cache_total";
    let cluster = Cluster::shared();
    let (_link, front) = SlowLink::before(cluster, Duration::from_millis(20), |config| {
        config["authorization"] = json!({ "subjectAccessReview": { "allowTTL": "0s" } });
    })
    .await;
    let admin = cluster.admin_client();
    let who = cluster.namespace("actor").await;
    let mut may = role(&who, &[""], &["users", "groups"], &["impersonate"]);
    may["kind"] = json!("ClusterRole");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let (roles, bindings) = ("clusterroles", "clusterrolebindings");
    admin
        .post(&format!("{rbac}/{roles}"), &may)
        .await
        .expect(201);
    let bound = cluster_role_binding(&who, &who, "User", &who);
    admin
        .post(&format!("{rbac}/{bindings}"), &bound)
        .await
        .expect(201);
    let actor = front.client(Some(&cluster.certificates.client(&who, &[])));
    let actor = actor.with_header("impersonate-user", "somebody");
    eventually("the right is there", SOON, || async {
        reads(&actor, VERSION).await
    })
    .await;
    let misses = async || front.metric(MISSES, &[("result", "miss")]).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut many = actor.over(protocol);
        for n in 0..2000 {
            many = many.with_header("impersonate-group", &format!("group-{n}"));
        }
        let before = misses().await;
        let asking = tokio::spawn(async move { reads(&many, VERSION).await });
        eventually("some are asked", SOON, || async {
            misses().await > before + 20.0
        })
        .await;
        asking.abort();
        eventually("no more are asked", SOON, || async {
            let then = misses().await;
            crate::harness::pace::lasting(Duration::from_millis(500)).await;
            misses().await == then
        })
        .await;
        let asked = misses().await - before;
        assert!(asked < 1500.0, "{protocol:?}: {asked}");
    }
    for what in [roles, bindings] {
        admin.delete(&format!("{rbac}/{what}/{who}")).await;
    }
    front.stop().await;
}
