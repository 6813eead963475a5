//! Tests authentication and authorization: both are decided before a cached byte is
//! touched, and the upstream learns the caller's identity unchanged.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::certificates::Pair;
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::{Cluster, Once, once};
use crate::harness::differential::compare;
use crate::harness::eventually;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::objects::{config_map, role, role_binding};

const SECRET: &str = "only-for-alice";
/// The TTL of decisions, as configured below.
const TTL: Duration = Duration::from_secs(1);
/// The number of tries for a read whose decision may have expired.
const TRIES: usize = 5;
/// The TTL plus the delay that a busy machine may add.
const AFTER_TTL: Duration = Duration::from_secs(10);

fn short_ttls(config: &mut Value) {
    config["authorization"] =
        json!({ "subjectAccessReview": { "allowTTL": "1s", "denyTTL": "1s" } });
    config["authentication"]["tokenReview"] =
        json!({ "enabled": true, "successTTL": "1s", "failureTTL": "1s" });
}

/// Returns the apifront of these tests, whose decisions live for [`TTL`].
fn front() -> &'static Apifront {
    static FRONT: Once<Apifront> = Once::new();
    once(&FRONT, || Apifront::start(Cluster::shared(), short_ttls))
}

/// A namespace with one config map that alice may read and bob may not.
struct House {
    list: String,
    roles: String,
    alice: Pair,
    bob: Pair,
}

impl House {
    async fn new() -> Self {
        let cluster = Cluster::shared();
        let admin = cluster.admin_client();
        let ns = cluster.namespace("house").await;
        let (alice, bob) = (format!("alice-of-{ns}"), format!("bob-of-{ns}"));
        let list = format!("/api/v1/namespaces/{ns}/configmaps");
        let body = config_map("a", json!({}), json!({ "text": SECRET }));
        admin.post(&list, &body).await.expect(201);
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}");
        let may = role("reader", &[""], &["configmaps"], &["get", "list", "watch"]);
        admin.post(&format!("{rbac}/roles"), &may).await.expect(201);
        let roles = format!("{rbac}/rolebindings");
        let bound = role_binding("reader", "reader", "User", &alice);
        admin.post(&roles, &bound).await.expect(201);
        let house = Self {
            alice: cluster
                .certificates
                .client(&alice, &["readers", "second-group"]),
            bob: cluster.certificates.client(&bob, &["readers"]),
            list,
            roles,
        };
        // The API server reads RBAC from a cache.
        let direct = cluster.client(Some(&house.alice));
        eventually("alice may", AFTER_TTL, || async {
            direct.get(&house.list).await.status == 200
        })
        .await;
        house
    }

    /// Reads as alice until apifront answers from the cache with what was written.
    async fn warm(&self) {
        let alice = front().client(Some(&self.alice));
        // This shows a most recent state. With version 0, a state from before the writes
        // would do.
        front().warm(&alice, &self.list).await;
        let path = format!("{}?resourceVersion=0", self.list);
        assert!(alice.get(&path).await.text().contains(SECRET));
    }
}

/// Sends the same request as the same user directly and through apifront, and fails
/// unless the answers are equal. An allowed read must come from the cache, and a
/// refusal must come before the cache is asked.
async fn same(direct: &Client, front: &Client, path: &str, headers: &[(&str, &str)]) -> Answer {
    let expected = direct.send(Method::GET, path, headers, "").await;
    let debug = [headers, &[DEBUG]].concat();
    let mut got = front.send(Method::GET, path, &debug, "").await;
    // On a busy machine the decision may have expired. The upstream then judges and
    // answers the first read, and apifront the next.
    for _ in 0..TRIES {
        if !got
            .header("x-apifront-cache")
            .ends_with("reason=first_read")
        {
            break;
        }
        let difference = compare(&expected, &got);
        assert!(
            difference.is_empty(),
            "GET {path} {headers:?}\n{difference}"
        );
        got = front.send(Method::GET, path, &debug, "").await;
    }
    let from = match expected.status == 200 && !oracle() {
        true => Expect::Hit,
        false => Expect::NotAsked,
    };
    let difference = compare(&expected, &got) + &from.unmet(&got);
    assert!(
        difference.is_empty(),
        "GET {path} {headers:?}\n{difference}"
    );
    got
}

#[tokio::test]
async fn cached_bytes_never_reach_who_may_not_read_them() {
    let house = House::new().await;
    house.warm().await;
    let direct = Cluster::shared().client(Some(&house.bob));
    for front in [
        front().client(Some(&house.bob)),
        front().client(Some(&house.bob)).over(Protocol::Http1),
    ] {
        for path in [
            format!("{}?resourceVersion=0", house.list),
            house.list.clone(),
            format!("{}/a?resourceVersion=0", house.list),
            format!("{}/a", house.list),
            format!("{}?resourceVersion=0&watch=1&timeoutSeconds=1", house.list),
            format!(
                "{}?resourceVersion=0&fieldSelector=metadata.name%3Da",
                house.list
            ),
            format!("{}?resourceVersion=0&labelSelector=a%3Db", house.list),
            "/api/v1/configmaps?resourceVersion=0".to_owned(),
            house.list.replace("/api/v1/", "/api/v1/watch/"),
        ] {
            for accept in [
                "application/json",
                "application/vnd.kubernetes.protobuf",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            ] {
                let answer = same(&direct, &front, &path, &[("accept", accept)]).await;
                assert_eq!(answer.status, 403, "{path}");
                assert!(!answer.text().contains(SECRET));
            }
        }
    }
    // Alice may read this namespace only.
    let (direct, front) = (
        Cluster::shared().client(Some(&house.alice)),
        front().client(Some(&house.alice)),
    );
    let path = "/api/v1/configmaps?resourceVersion=0";
    assert_eq!(same(&direct, &front, path, &[]).await.status, 403);
}

#[tokio::test]
async fn access_ends_with_its_role_binding() {
    let house = House::new().await;
    house.warm().await;
    let admin = Cluster::shared().admin_client();
    admin
        .delete(&format!("{}/reader", house.roles))
        .await
        .expect(200);
    let alice = front().client(Some(&house.alice));
    for path in [
        format!("{}?resourceVersion=0", house.list),
        format!("{}/a?resourceVersion=0", house.list),
        house.list.clone(),
    ] {
        eventually("alice is refused", TTL + AFTER_TTL, || async {
            alice.get(&path).await.status == 403
        })
        .await;
    }
}

#[tokio::test]
async fn access_begins_with_a_role_binding() {
    let house = House::new().await;
    house.warm().await;
    let bob = front().client(Some(&house.bob));
    let path = format!("{}?resourceVersion=0", house.list);
    assert_eq!(bob.get(&path).await.status, 403);
    let name = house.list.split('/').nth(4).expect("namespace");
    let bound = role_binding("bob", "reader", "User", &format!("bob-of-{name}"));
    let admin = Cluster::shared().admin_client();
    admin.post(&house.roles, &bound).await.expect(201);
    eventually("bob is let in", TTL + AFTER_TTL, || async {
        bob.get(&path).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn claimed_identities_have_no_effect() {
    let house = House::new().await;
    house.warm().await;
    let direct = Cluster::shared().client(Some(&house.bob));
    let front = front().client(Some(&house.bob));
    let cached = format!("{}/a?resourceVersion=0", house.list);
    let forwarded = format!("{}/a", house.list);
    for path in [&cached, &forwarded] {
        for headers in [
            &[
                ("x-remote-user", "kubernetes-admin"),
                ("x-remote-group", "system:masters"),
            ][..],
            &[("x-remote-group", "system:masters")],
            &[("x-remote-uid", "1"), ("x-remote-extra-scopes", "all")],
            &[
                ("X_Remote_User", "kubernetes-admin"),
                ("X_Remote_Group", "system:masters"),
            ],
            &[("x-forwarded-user", "kubernetes-admin")],
        ] {
            assert_eq!(
                same(&direct, &front, path, headers).await.status,
                403,
                "{headers:?}"
            );
        }
    }
}

/// A caller's first read of an object's newest state costs the upstream one request:
/// no review, and no question about the object. The same holds for documents of
/// versions.
#[tokio::test]
async fn the_first_read_of_an_object_is_upstreams() {
    skip_under_oracle!("kube-apiserver reviews every request itself");
    let house = House::new().await;
    house.warm().await;
    let path = format!("{}/a", house.list);
    let any = format!("{path}?resourceVersion=0");
    for (who, code) in [(&house.alice, 200), (&house.bob, 403)] {
        let direct = Cluster::shared().client(Some(who));
        let front = front().client(Some(who));
        let expected = direct.get(&path).await;
        assert_eq!(expected.status, code);
        let first = front.send(Method::GET, &path, &[DEBUG], "").await;
        assert_eq!(
            first.header("x-apifront-cache"),
            "bypass; reason=first_read"
        );
        let second = front.send(Method::GET, &path, &[DEBUG], "").await;
        let from = second.header("x-apifront-cache");
        match code {
            200 => assert!(from.ends_with("; asked=metadata"), "{from}"),
            _ => assert_eq!(from, ""),
        }
        for got in [first, second] {
            let difference = compare(&expected, &got);
            assert!(difference.is_empty(), "{path}\n{difference}");
        }
    }
    // A read of any state costs only the review.
    let carol = Cluster::shared().certificates.client("carol", &["readers"]);
    let carol = front().client(Some(&carol));
    let refused = carol.send(Method::GET, &any, &[DEBUG], "").await;
    assert_eq!(refused.header("x-apifront-cache"), "");
    refused.expect(403);
}

#[tokio::test]
async fn connection_cannot_remove_the_identity() {
    let house = House::new().await;
    let direct = Cluster::shared()
        .client(Some(&house.bob))
        .over(Protocol::Http1);
    let front = front().client(Some(&house.bob)).over(Protocol::Http1);
    // The upstream refuses the first read.
    front.get(&format!("{}/a", house.list)).await.expect(403);
    for path in [
        format!("{}/a", house.list),
        format!("{}/a?resourceVersion=0", house.list),
    ] {
        for named in [
            "X-Remote-User",
            "close, X-Remote-User, X-Remote-Group, X-Remote-Uid",
            "keep-alive, x-remote-group, impersonate-user, authorization",
        ] {
            let headers = [("connection", named), ("x-remote-user", "kubernetes-admin")];
            assert_eq!(
                same(&direct, &front, &path, &headers).await.status,
                403,
                "{named}"
            );
        }
    }
    let who = who_am_i(&front.with_header("connection", "X-Remote-User, X-Remote-Group")).await;
    assert!(
        who["username"]
            .as_str()
            .is_some_and(|u| u.starts_with("bob-of-")),
        "{who}"
    );
}

#[tokio::test]
async fn impersonation_is_authorized_and_then_honoured() {
    let house = House::new().await;
    house.warm().await;
    let cluster = Cluster::shared();
    let name = house.list.split('/').nth(4).expect("namespace");
    let (alice, bob) = (format!("alice-of-{name}"), format!("bob-of-{name}"));
    let (alice, bob) = (alice.as_str(), bob.as_str());
    let path = format!("{}/a?resourceVersion=0", house.list);
    // Bob may not impersonate.
    let (direct, through) = (
        cluster.client(Some(&house.bob)),
        front().client(Some(&house.bob)),
    );
    for headers in [
        &[("impersonate-user", alice)][..],
        &[
            ("impersonate-user", "x"),
            ("impersonate-group", "system:masters"),
        ],
        &[("impersonate-user", "system:serviceaccount:a:b")],
        &[("impersonate-group", "system:masters")],
        &[("impersonate-uid", "1")],
        &[
            ("impersonate-user", alice),
            ("impersonate-extra-scopes", "all"),
        ],
    ] {
        let answer = same(&direct, &through, &path, headers).await;
        assert!(
            matches!(answer.status.as_u16(), 400 | 403),
            "{headers:?}: {}",
            answer.text()
        );
    }
    // The administrator may impersonate, and then has only the other user's rights.
    let (direct, through) = (cluster.admin_client(), front().admin_client());
    let answer = same(&direct, &through, &path, &[("impersonate-user", alice)]).await;
    assert_eq!(answer.status, 200);
    let answer = same(&direct, &through, &path, &[("impersonate-user", bob)]).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains(bob));
    let answer = same(&direct, &through, &path, &[("impersonate-group", "x")]).await;
    assert_eq!(answer.status, 400);
    let who = through
        .with_header("impersonate-user", alice)
        .with_header("impersonate-group", "g1")
        .with_header("impersonate-group", "g2")
        .with_header("impersonate-extra-scopes", "all");
    let who = who_am_i(&who).await;
    assert_eq!(who["username"], alice);
    assert_eq!(who["groups"], json!(["g1", "g2", "system:authenticated"]));
    assert_eq!(who["extra"]["scopes"], json!(["all"]));
}

/// Returns the user as whom the API server sees a client.
async fn who_am_i(client: &Client) -> Value {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    client.post(path, &review).await.expect(201)["status"]["userInfo"].clone()
}

async fn same_user(direct: &Client, front: &Client) {
    let (mut expected, mut got) = (who_am_i(direct).await, who_am_i(front).await);
    // The fingerprint of a client certificate belongs to the connection, not to the
    // user.
    for user in [&mut expected, &mut got] {
        if let Some(fields) = user.as_object_mut() {
            fields.remove("extra");
        }
    }
    assert_eq!(got, expected);
}

#[tokio::test]
async fn each_kind_of_credential() {
    let cluster = Cluster::shared();
    let front = front();
    let house = House::new().await;
    same_user(
        &cluster.client(Some(&house.alice)),
        &front.client(Some(&house.alice)),
    )
    .await;
    for token in ["token-of-tess", "token-of-theo", "token-of-root"] {
        let direct = cluster.client(None).token(token);
        same_user(&direct, &front.client(None).token(token)).await;
    }
    // This caller is a front proxy.
    let proxy = |client: Client| {
        client
            .with_header("x-remote-user", "through a proxy")
            .with_header("x-remote-group", "g1")
            .with_header("x-remote-group", "g2")
            .with_header("x-remote-uid", "42")
            .with_header("x-remote-extra-acme.com%2Fproject", "some-project")
    };
    let certificate = Some(&cluster.certificates.proxy_client);
    let (direct, through) = (
        proxy(cluster.client(certificate)),
        proxy(front.client(certificate)),
    );
    assert_eq!(who_am_i(&through).await, who_am_i(&direct).await);
}

#[tokio::test]
async fn bad_credentials() {
    let cluster = Cluster::shared();
    let front = front();
    let path = "/api/v1/namespaces/default/configmaps?resourceVersion=0";
    let stranger = cluster
        .certificates
        .stranger("kubernetes-admin", &["system:masters"]);
    for (direct, front) in [
        (
            cluster.client(None).token("no-such-token"),
            front.client(None).token("no-such-token"),
        ),
        (
            cluster.client(Some(&stranger)),
            front.client(Some(&stranger)),
        ),
    ] {
        let answer = same(&direct, &front, path, &[]).await;
        answer.expect_status(401, "Unauthorized", "Unauthorized");
    }
    skip_under_oracle!("the rest is about apifront's own authentication");
    // Anonymous callers are refused unless the configuration allows them.
    let answer = front.client(None).get(path).await;
    answer.expect_status(401, "Unauthorized", "Unauthorized");
    for odd in [
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "token-of-root",
        "Bearer a b",
    ] {
        let answer = front
            .client(None)
            .with_header("authorization", odd)
            .get(path)
            .await;
        assert_eq!(answer.status, 401, "{odd}");
    }
}

/// No token may appear in the log, since whoever has a token can act as its user.
#[tokio::test]
async fn credentials_are_not_logged() {
    let client = front().client(None).token("token-of-root");
    client
        .get("/api/v1/namespaces?resourceVersion=0")
        .await
        .expect(200);
    client.get("/api/v1/namespaces").await.expect(200);
    assert!(!front().process.log().contains("token-of-root"));
}

async fn forwards_as(mode: &str) {
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |config| {
        config["identity"] = match mode {
            "RequestHeader" => json!({
                "mode": mode,
                "proxyClientCertFile": cluster.certificates.proxy_client.cert,
                "proxyClientKeyFile": cluster.certificates.proxy_client.key,
            }),
            _ => json!({ "mode": mode }),
        };
        if mode == "PassThrough" {
            // In this mode, tokens are the only credentials that can be passed on.
            config["authentication"] = json!({ "tokenReview": { "enabled": true } });
        }
    })
    .await;
    for token in ["token-of-tess", "token-of-root"] {
        let direct = cluster.client(None).token(token);
        let through = front.client(None).token(token);
        same_user(&direct, &through).await;
        // The loop makes a subresource read, an uncached and a cached read; a
        // write follows.
        for path in [
            "/api/v1/namespaces/default/configmaps",
            "/api/v1/namespaces/default/configmaps?resourceVersion=0",
            "/api/v1/namespaces/default/pods/x/log",
        ] {
            let (expected, got) = (
                direct.get(path).await.status,
                through.get(path).await.status,
            );
            assert_eq!(got, expected, "{mode} {token} {path}");
        }
        let body = config_map("x", json!({}), json!({}));
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
        let (expected, got) = (
            direct.post(path, &body).await,
            through.post(path, &body).await,
        );
        assert_eq!(
            got.status,
            expected.status,
            "{mode} {token}: {}",
            got.text()
        );
    }
    if mode != "PassThrough" {
        let house = House::new().await;
        let direct = cluster.client(Some(&house.alice));
        same_user(&direct, &front.client(Some(&house.alice))).await;
    }
    front.stop().await;
}

#[tokio::test]
async fn forwards_as_request_header() {
    forwards_as("RequestHeader").await;
}

#[tokio::test]
async fn forwards_as_impersonate() {
    forwards_as("Impersonate").await;
}

#[tokio::test]
async fn forwards_as_pass_through() {
    forwards_as("PassThrough").await;
}
