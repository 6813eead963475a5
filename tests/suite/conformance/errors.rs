//! Answers to invalid requests.

use serde_json::json;

use crate::harness::objects::config_map;
use crate::harness::subject::Subject;
use crate::harness::watch::Watch;

conformance!(
    not_found_texts,
    unknown_paths,
    bad_list_queries,
    bad_watch_queries,
    bad_continue_tokens,
    bad_bodies,
    versions_in_the_future,
    methods_that_are_not_allowed,
);

async fn not_found_texts(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("missing").await;
    for (path, message, details) in [
        (
            format!("/api/v1/namespaces/{ns}/pods/x"),
            "pods \"x\" not found",
            json!({"name": "x", "kind": "pods"}),
        ),
        (
            format!("/apis/apps/v1/namespaces/{ns}/deployments/x"),
            "deployments.apps \"x\" not found",
            json!({"name": "x", "group": "apps", "kind": "deployments"}),
        ),
        (
            "/api/v1/nodes/x".to_owned(),
            "nodes \"x\" not found",
            json!({"name": "x", "kind": "nodes"}),
        ),
    ] {
        for version in ["", "?resourceVersion=0"] {
            let answer = admin.get(&format!("{path}{version}")).await;
            let status = answer.expect_status(404, "NotFound", message);
            assert_eq!(status["details"], details);
        }
    }
    let path = "/api/v1/namespaces/nowhere/configmaps";
    admin
        .post(path, &config_map("a", json!({}), json!({})))
        .await
        .expect_status(404, "NotFound", "namespaces \"nowhere\" not found");
}

async fn unknown_paths(subject: Subject) {
    let admin = &subject.admin;
    for path in [
        "/apis/unknown.example.test/v1/things",
        "/apis/unknown.example.test/v1",
        "/apis/apps/v9/deployments",
        "/api/v1/unknowns",
        "/api/v1/namespaces/default/unknowns/x",
    ] {
        let answer = admin.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    let answer = admin.get("/unknown").await;
    assert_eq!(answer.status, 404);
    let listed = admin.get("/").await.expect(200);
    let paths = listed["paths"].as_array().expect("paths");
    assert!(paths.contains(&json!("/api/v1")) && paths.contains(&json!("/healthz")));
}

async fn bad_list_queries(subject: Subject) {
    let admin = &subject.admin;
    let list = "/api/v1/namespaces/default/configmaps";
    // Before 1.33 this is an internal error.
    let bad_version = match subject.release.is_at_least(33) {
        true => (
            400,
            "BadRequest",
            "invalid resource version: resourceVersion: Invalid value: \"abc\": \
             strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        false => (
            500,
            "",
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": \
             invalid syntax",
        ),
    };
    for (query, code, reason, message) in [
        (
            "resourceVersion=abc",
            bad_version.0,
            bad_version.1,
            bad_version.2,
        ),
        (
            "limit=x",
            400,
            "BadRequest",
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "resourceVersionMatch=Exact",
            422,
            "Invalid",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
             resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=foo",
            422,
            "Invalid",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \
             \"foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            "Invalid",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
             resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "sendInitialEvents=true",
            422,
            "Invalid",
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: \
             sendInitialEvents is forbidden for list",
        ),
        (
            "fieldSelector=data%3Dx",
            400,
            "BadRequest",
            "\"data\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\"",
        ),
        (
            "fieldSelector=x",
            400,
            "BadRequest",
            "invalid selector: 'x'; can't understand 'x'",
        ),
    ] {
        let answer = admin.get(&format!("{list}?{query}")).await;
        answer.expect_status(code, reason, message);
    }
    let answer = admin.get(&format!("{list}?labelSelector=a%20b")).await;
    assert_eq!(answer.expect(400)["reason"], "BadRequest");
}

async fn bad_watch_queries(subject: Subject) {
    let admin = &subject.admin;
    let list = "/api/v1/namespaces/default/configmaps";
    for (query, code, message) in [
        (
            "sendInitialEvents=true",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
             sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=0",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
             resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "timeoutSeconds=x",
            400,
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
    ] {
        let answer = admin.get(&format!("{list}?watch=1&{query}")).await;
        let said = answer.expect(code)["message"].clone();
        match query {
            // Without WatchList, that option is wrong too.
            "sendInitialEvents=true" if !subject.release.has_watch_list() => {
                let gate = "unless the WatchList feature gate is enabled";
                assert!(said.to_string().contains(gate), "{said}");
            }
            _ => assert_eq!(said, message),
        }
    }
    let answer = admin
        .get(&format!("{list}?watch=1&resourceVersion=abc"))
        .await;
    assert_eq!(answer.status, 500, "{}", answer.text());
    // Any value but 0 and false is true, even the empty one.
    let watch = Watch::open(admin, &format!("{list}?watch&timeoutSeconds=1")).await;
    drop(watch);
    assert_eq!(
        admin.get(&format!("{list}?watch=False")).await.expect(200)["kind"],
        "ConfigMapList"
    );
}

async fn bad_continue_tokens(subject: Subject) {
    let admin = &subject.admin;
    let list = "/api/v1/namespaces/default/configmaps";
    for token in [
        "x",
        "e30",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
    ] {
        let answer = admin.get(&format!("{list}?limit=1&continue={token}")).await;
        let status = answer.expect(400);
        let message = status["message"].as_str().expect("message");
        assert!(
            message.starts_with("invalid continue token: continue key is not valid: "),
            "{token}: {message}"
        );
    }
    // The token is {"v":"meta.k8s.io/v1","rv":5,"start":"a\u0000"}.
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0";
    let answer = admin
        .get(&format!("{list}?continue={token}&resourceVersion=7"))
        .await;
    answer.expect_status(
        400,
        "BadRequest",
        "specifying resource version is not allowed when using continue",
    );
}

async fn bad_bodies(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("bodies").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let json = [("content-type", "application/json")];
    let post = |body: &'static str| admin.send(http::Method::POST, &list, &json, body);
    assert_eq!(post("{").await.expect(400)["reason"], "BadRequest");
    assert_eq!(post("").await.expect(400)["reason"], "BadRequest");
    let other = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#;
    assert_eq!(post(other).await.expect(400)["reason"], "BadRequest");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    admin.post(&list, &nameless).await.expect_status(
        422,
        "Invalid",
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
    );
    let html = [("content-type", "text/html")];
    let answer = admin.send(http::Method::POST, &list, &html, "x").await;
    assert_eq!(answer.expect(415)["reason"], "UnsupportedMediaType");
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "other"},
    });
    assert_eq!(
        admin.post(&list, &elsewhere).await.expect(400)["reason"],
        "BadRequest"
    );
}

async fn versions_in_the_future(subject: Subject) {
    let admin = &subject.admin;
    let list = "/api/v1/namespaces/default/configmaps";
    let answer = admin
        .get(&format!("{list}?resourceVersion=999999999"))
        .await;
    let status = answer.expect(504);
    assert_eq!(status["reason"], "Timeout");
    let message = status["message"].as_str().expect("message");
    let expected = "Timeout: Too large resource version: 999999999, current: ";
    assert!(message.starts_with(expected), "{message}");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["reason"], "ResourceVersionTooLarge");
}

async fn methods_that_are_not_allowed(subject: Subject) {
    let admin = &subject.admin;
    for (method, path) in [
        (http::Method::PUT, "/api/v1/namespaces/default/configmaps"),
        (
            http::Method::POST,
            "/api/v1/namespaces/default/configmaps/a",
        ),
    ] {
        let answer = admin.send(method.clone(), path, &[], "").await;
        answer.expect_status(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
    }
}
