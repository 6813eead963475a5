//! Requests that the cache cannot answer never reach a server that would ignore the
//! selector.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use super::{World, always, escaped};
use crate::harness::apifront::Apifront;
use crate::harness::apiserver::TOKEN_USERS;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare;
use crate::harness::objects::config_map;
use crate::harness::watch::{End, Watch};

/// The time in which apifront learns that a resource does not exist.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);

/// The number of tries for answers that may change in the meantime.
const ASKED: usize = 10;

const HALF: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";

/// Requests that would be forwarded without a selector get an error with one.
#[tokio::test]
async fn what_the_cache_cannot_answer_is_refused() {
    skip_under_oracle!("nothing is forwarded");
    let world = World::shared();
    let _still = world.still().await;
    let client = world.front.admin_client();
    let half = escaped(HALF);
    let cbor = "application/cbor";
    for (path, accept, code, reason) in [
        // Events are not cached.
        (
            format!("/api/v1/events?shardSelector={half}"),
            "*/*",
            400,
            "excluded",
        ),
        (
            format!("/api/v1/events?watch=1&shardSelector={half}"),
            "*/*",
            400,
            "excluded",
        ),
        (
            format!("/api/v1/nodes?new=1&shardSelector={half}"),
            "*/*",
            400,
            "unusual_request",
        ),
        (
            format!("/api/v1//nodes?shardSelector={half}"),
            "*/*",
            400,
            "unusual_request",
        ),
        (
            format!("/api/v1/nodes?limit=x&shardSelector={half}"),
            "*/*",
            400,
            "invalid_options",
        ),
        (
            format!("/api/v1/nodes?shardSelector={half}&fieldSelector=spec.x%3D1"),
            "*/*",
            400,
            "field_selector",
        ),
        (
            format!("/api/v1/nodes?shardSelector={half}"),
            cbor,
            406,
            "representation",
        ),
        (
            format!(
                "/api/v1/nodes?resourceVersion=1&resourceVersionMatch=Exact&shardSelector={half}"
            ),
            "*/*",
            410,
            "snapshot_gone",
        ),
        (
            format!("/api/v1/nodes?resourceVersion=99999999&shardSelector={half}"),
            "*/*",
            503,
            "future_version",
        ),
        (
            format!("/apis/none.test/v1/nothings?shardSelector={half}"),
            "*/*",
            400,
            "aggregated",
        ),
    ] {
        let mut got = client.get_as(&path, accept).await;
        // apifront does not know yet that the resource does not exist.
        let until = Instant::now() + KNOWN_WITHIN;
        while got.text().contains(": filling") && Instant::now() < until {
            got = client.get_as(&path, accept).await;
        }
        assert_eq!(got.status, code, "{path} {}", got.text());
        let status = got.json();
        let message = status["message"].as_str().expect("a message");
        assert!(message.ends_with(reason), "{path} {message}");
        assert_eq!(got.header("retry-after") == "1", code == 503, "{path}");
    }
    let path = format!("/api/v1/nodes?watch=1&resourceVersion=1&shardSelector={half}");
    let (events, end) = Watch::open(&client, &path).await.rest().await;
    let [error] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(error.object["reason"], "Expired", "{}", error.line);
    assert_eq!((error.kind.as_str(), end), ("ERROR", End::Clean));
}

/// kube-apiserver without the feature gate would delete the whole collection.
#[tokio::test]
async fn a_collection_is_not_deleted_by_a_selector_that_is_ignored() {
    skip_under_oracle!("nothing is forwarded");
    let world = World::shared();
    let _changing = world.changing().await;
    let client = world.front.admin_client();
    let path = "/api/v1/namespaces/kube-public/configmaps";
    let object = config_map("stays", json!({}), json!({}));
    client.post(path, &object).await.expect(201);
    let selected = format!("{path}?shardSelector={}", escaped(HALF));
    for method in [Method::DELETE, Method::HEAD] {
        let got = client.send(method, &selected, &[], "").await;
        assert_eq!(got.status, 400, "{}", got.text());
    }
    client.get(&format!("{path}/stays")).await.expect(200);
    // Without a selector, or with an empty one, this is an ordinary request.
    let all = format!("{path}?shardSelector=");
    client.send(Method::DELETE, &all, &[], "").await.expect(200);
}

/// A shard shows nothing that its reader may not list, and an error reveals nothing
/// to callers who may not read.
#[tokio::test]
async fn a_shard_shows_nothing_that_was_not_granted() {
    skip_under_oracle!("the upstream has no shards");
    let world = World::shared();
    let _still = world.still().await;
    let (cluster, ca) = (&world.cluster, world.cluster.ca());
    let token = TOKEN_USERS[1].token;
    let direct = Client::tls(world.with_shards.address(), ca, None).token(token);
    let client = world.front.client(None).token(token);
    let admin = cluster.admin_client();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"] }],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/space-2";
    admin
        .post(&format!("{rbac}/roles"), &role)
        .await
        .expect(201);
    let user = TOKEN_USERS[1].user;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    admin
        .post(&format!("{rbac}/rolebindings"), &binding)
        .await
        .expect(201);
    let own = "/api/v1/namespaces/space-2/configmaps";
    crate::harness::eventually("the right", super::SOON, || async {
        direct.get(own).await.status == 200 && client.get(own).await.status == 200
    })
    .await;
    let (half, namespace) = (escaped(HALF), escaped(&HALF.replace("uid", "namespace")));
    for (path, code) in [
        (format!("{own}?shardSelector={half}"), 200),
        (format!("{own}?shardSelector={namespace}"), 200),
        (
            format!("{own}?watch=1&timeoutSeconds=1&shardSelector={half}&resourceVersion=0"),
            200,
        ),
        (format!("/api/v1/configmaps?shardSelector={half}"), 403),
        (format!("/api/v1/configmaps?shardSelector={namespace}"), 403),
        (
            format!("/api/v1/namespaces/space-1/configmaps?shardSelector={half}"),
            403,
        ),
        ("/api/v1/configmaps?shardSelector=junk".to_owned(), 403),
        (
            format!("/api/v1/configmaps?watch=1&shardSelector={half}"),
            403,
        ),
        (
            format!("/api/v1/watch/configmaps?shardSelector={half}"),
            403,
        ),
        (format!("/api/v1/events?shardSelector={half}"), 403),
        (format!("/api/v1/nodes?new=1&shardSelector={half}"), 403),
    ] {
        // Another test may write between the two answers.
        let mut difference = String::new();
        for _ in 0..ASKED {
            let (expected, got) = (direct.get(&path).await, client.get(&path).await);
            assert_eq!(expected.status, code, "{path}");
            difference = compare(&expected, &got);
            if difference.is_empty() {
                break;
            }
        }
        assert!(difference.is_empty(), "{path}\n{difference}");
    }
    let delete = format!("{own}?shardSelector={half}");
    let got = client.send(Method::DELETE, &delete, &[], "").await;
    assert_eq!(got.status, 403, "{}", got.text());
}

/// A reload applies the setting.
#[tokio::test]
async fn the_owner_chooses_while_apifront_runs() {
    skip_under_oracle!("nothing is forwarded");
    let front = Apifront::start(Cluster::quiet(), |_| {}).await;
    let client = front.admin_client();
    let path = format!(
        "/api/v1/namespaces?resourceVersion=0&shardSelector={}",
        escaped(HALF)
    );
    front
        .warm(&client, "/api/v1/namespaces?resourceVersion=0")
        .await;
    let sharded = async || client.get(&path).await.text().contains("shardInfo");
    assert!(!sharded().await, "upstream has no shards");
    let mut config = front.read_config();
    always(&mut config);
    front.write_config(&config);
    crate::harness::eventually("shards", super::SOON, &sharded).await;
    front.stop().await;
}
