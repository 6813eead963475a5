//! The caller's identity, and headers of requests and answers, on their way through
//! two instances.

use http::Method;
use serde_json::json;

use super::Tree;
use crate::harness::apiserver::TOKEN_USERS;
use crate::harness::client::Client;
use crate::harness::expect::DEBUG;
use crate::harness::objects::config_map;

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Asks kube-apiserver who the caller is.
async fn who(client: &Client, headers: &[(&str, &str)]) -> serde_json::Value {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
    });
    let headers = [headers, &[("content-type", "application/json")]].concat();
    let answer = client
        .send(Method::POST, REVIEW, &headers, review.to_string())
        .await;
    answer.expect(201)["status"]["userInfo"].clone()
}

/// kube-apiserver learns the same caller over two hops: by certificate, token, front
/// proxy and impersonation, with groups, UID and extra values.
#[tokio::test]
async fn the_caller_is_the_same_over_two_hops() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let certificates = &tree.cluster.certificates;
    let nobody = [
        tree.cluster.client(None),
        tree.upper.client(None),
        tree.lower.client(None),
    ];
    let proxy = Some(&certificates.proxy_client);
    let proxies = [
        tree.cluster.client(proxy),
        tree.upper.client(proxy),
        tree.lower.client(proxy),
    ];
    let token = TOKEN_USERS[0].token;
    let impersonated = [
        ("impersonate-user", "ada"),
        ("impersonate-group", "engineers"),
        ("impersonate-group", "writers"),
        ("impersonate-uid", "uid-of-ada"),
        ("impersonate-extra-example.test%2fscope", "one"),
        ("impersonate-extra-example.test%2fscope", "two"),
    ];
    let named = [
        ("x-remote-user", "grace"),
        ("x-remote-group", "admirals"),
        ("x-remote-group", "compilers"),
        ("x-remote-extra-example.test%2fship", "Hopper, DDG-70"),
    ];
    for (clients, headers, name) in [
        (tree.ways(), &[][..], "kubernetes-admin"),
        (
            nobody.map(|client| client.token(token)),
            &[][..],
            TOKEN_USERS[0].user,
        ),
        (tree.ways(), &impersonated[..], "ada"),
        (proxies, &named[..], "grace"),
    ] {
        let [direct, upper, lower] = &clients;
        let direct = who(direct, headers).await;
        assert_eq!(direct["username"], name);
        let (upper, lower) = (who(upper, headers).await, who(lower, headers).await);
        assert_eq!(lower, upper, "{name}");
        for field in ["username", "uid", "groups"] {
            assert_eq!(lower[field], direct[field], "{name}: {field}");
        }
        if let Some(extra) = direct["extra"].as_object() {
            for (key, value) in extra
                .iter()
                .filter(|(key, _)| key.starts_with("example.test"))
            {
                assert_eq!(&lower["extra"][key], value, "{name}: {key}");
            }
        }
    }
}

/// The second hop also ignores or refuses identities that a caller only claims, and
/// the caller's own rights count.
#[tokio::test]
async fn nobody_becomes_somebody_else_between_the_hops() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let tess = |client: Client| client.token(TOKEN_USERS[0].token);
    let lower = tess(tree.lower.client(None));
    let claims = [
        ("x-remote-user", "kubernetes-admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-scopes", "all"),
    ];
    let known = who(&lower, &claims).await;
    assert_eq!(known, who(&lower, &[]).await);
    let path = "/api/v1/secrets";
    let direct = tess(tree.cluster.client(None)).get(path).await;
    for headers in [&[][..], &claims[..]] {
        let got = lower.send(Method::GET, path, headers, "").await;
        assert_eq!((got.status, got.text()), (direct.status, direct.text()));
        assert_eq!(got.status, 403);
    }
    let as_admin = [("impersonate-user", "kubernetes-admin")];
    let got = lower.send(Method::GET, path, &as_admin, "").await;
    assert_eq!(got.status, 403, "{}", got.text());
}

/// The debug header describes the apifront that the client asked, and is not passed
/// to the upper one.
#[tokio::test]
async fn headers_of_one_apifront_do_not_pass_through_the_other() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let client = tree.lower.admin_client();
    let cached = "/api/v1/namespaces/default/configmaps?resourceVersion=0";
    tree.lower.warm(&client, cached).await;
    let object = config_map("hygiene", json!({}), json!({})).to_string();
    let json = ("content-type", "application/json");
    let create = "/api/v1/namespaces/default/configmaps";
    for (method, path, body, expected) in [
        (Method::GET, cached, "", &["hit; rv="][..]),
        (
            Method::GET,
            "/api/v1/events",
            "",
            &["bypass; reason=excluded"][..],
        ),
        (Method::GET, "/apis", "", &["hit; document"][..]),
        (
            Method::GET,
            "/api/v1/namespaces/default/status",
            "",
            &[][..],
        ),
        (Method::POST, create, &object, &[][..]),
        (Method::GET, "/version", "", &[][..]),
    ] {
        let got = client
            .send(method, path, &[DEBUG, json], body.to_owned())
            .await;
        let said: Vec<&str> = got
            .headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("x-apifront"))
            .map(|(_, value)| value.to_str().expect("text"))
            .collect();
        assert_eq!(said.len(), expected.len(), "{path}: {said:?}");
        let as_expected = said.iter().zip(expected).all(|(s, e)| s.starts_with(e));
        assert!(as_expected, "{path}: {said:?}");
        for name in ["audit-id", "content-type", "date"] {
            let times = got.headers.get_all(name).iter().count();
            assert!(times <= 1, "{path}: {name} {times} times");
        }
    }
}
