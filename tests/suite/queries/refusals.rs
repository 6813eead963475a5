//! What is wrong with a query is said by field. Other requests for the group are refused
//! as kube-apiserver refuses them for SelfSubjectAccessReviews.

use http::Method;
use serde_json::{Value, json};

use super::{QUERIES, front, query};
use crate::harness::cluster::Cluster;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn pods() -> Value {
    json!({ "resource": { "version": "v1", "resource": "pods" } })
}

#[tokio::test]
async fn each_wrong_field_is_named() {
    skip_under_oracle!("kube-apiserver has no queries");
    let through = front().admin_client();
    let columns = |expression: &str| json!([{ "name": "a", "expression": expression }]);
    for (field, value, cause) in [
        ("resource", json!({}), "spec.resource.version"),
        (
            "resource",
            json!({ "version": "v1", "resource": "pods/log" }),
            "spec.resource.resource",
        ),
        (
            "resource",
            json!({ "version": "../v1", "resource": "pods" }),
            "spec.resource.version",
        ),
        (
            "resource",
            json!({ "group": "a/b", "version": "v1", "resource": "pods" }),
            "spec.resource.group",
        ),
        ("namespaces", json!(["a", "../b"]), "spec.namespaces[1]"),
        ("namespaces", json!(vec!["a"; 101]), "spec.namespaces"),
        ("where", json!("object.spec.nodeName =="), "spec.where"),
        (
            "where",
            json!("base64.decode('YQ==') == b'a'"),
            "spec.where",
        ),
        ("where", json!("self.spec"), "spec.where"),
        ("where", json!("x".repeat(4097)), "spec.where"),
        (
            "columns",
            json!([{ "name": "", "expression": "1" }]),
            "spec.columns[0].name",
        ),
        ("columns", columns(""), "spec.columns[0].expression"),
        ("columns", columns("1 +"), "spec.columns[0].expression"),
        (
            "columns",
            json!([{ "name": "a", "expression": "1" }, { "name": "a", "expression": "2" }]),
            "spec.columns[1].name",
        ),
        (
            "orderBy",
            json!([{ "column": "b" }]),
            "spec.orderBy[0].column",
        ),
        ("orderBy", json!([{}]), "spec.orderBy[0].expression"),
        (
            "orderBy",
            json!([{ "column": "a", "expression": "1" }]),
            "spec.orderBy[0].column",
        ),
        ("countBy", json!(["object.x", "("]), "spec.countBy[1]"),
        ("limit", json!(1001), "spec.limit"),
        ("limit", json!(-1), "spec.limit"),
        ("offset", json!(-1), "spec.offset"),
        ("continue", json!("abc"), "spec.continue"),
    ] {
        let mut spec = pods();
        spec[field] = value;
        let status = through.post(QUERIES, &query(&spec)).await.expect(422);
        assert_eq!(status["reason"], "Invalid", "{status}");
        assert_eq!(status["details"]["kind"], "Query", "{status}");
        assert_eq!(status["details"]["group"], "query.apifront.dev", "{status}");
        let causes = status["details"]["causes"].as_array().expect("causes");
        let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
        assert!(fields.contains(&&json!(cause)), "{field}: {status:#}");
    }
    for (field, value) in [
        ("labelSelector", json!("a in b")),
        ("fieldSelector", json!("spec.image=a")),
        ("resourceVersion", json!("x")),
        ("resourceVersionMatch", json!("Exact")),
    ] {
        let mut spec = pods();
        spec[field] = value;
        let status = through.post(QUERIES, &query(&spec)).await.expect(400);
        assert_eq!(status["reason"], "BadRequest", "{status}");
    }
    let mut spec = pods();
    spec["resource"]["resource"] = json!("nothings");
    let answer = through.post(QUERIES, &query(&spec)).await;
    assert!(
        [400, 404].contains(&answer.status.as_u16()),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn bodies_that_are_no_query_are_refused() {
    skip_under_oracle!("kube-apiserver has no queries");
    let through = front().admin_client();
    let send = async |path: &str, content_type: &str, body: String| {
        let headers = [("content-type", content_type)];
        through.send(Method::POST, path, &headers, body).await
    };
    let json_type = "application/json";
    for (body, content_type, code) in [
        ("", json_type, 400),
        ("{", json_type, 400),
        ("[]", json_type, 400),
        ("{}", json_type, 400),
        (r#"{"apiVersion":"v1","kind":"Pod"}"#, json_type, 400),
        (
            r#"{"apiVersion":"query.apifront.dev/v1alpha1","kind":"Query","spec":[]}"#,
            json_type,
            400,
        ),
        (
            r#"{"apiVersion":"query.apifront.dev/v1alpha1","kind":"Query","spec":{"limit":"x"}}"#,
            json_type,
            400,
        ),
        ("a: &a [*a]", "application/yaml", 400),
        ("x", "text/plain", 415),
        ("x", "application/vnd.kubernetes.protobuf", 415),
    ] {
        let answer = send(QUERIES, content_type, body.to_owned()).await;
        assert_eq!(answer.expect(code)["kind"], "Status", "{body}");
    }
    let aliases: String = (1..9).fold("a0: &a0 [x,x,x,x,x,x,x,x]\n".to_owned(), |text, n| {
        let all = vec![format!("*a{}", n - 1); 9].join(",");
        format!("{text}a{n}: &a{n} [{all}]\n")
    });
    assert_eq!(send(QUERIES, "application/yaml", aliases).await.status, 400);
    let deep = format!("{}1{}", "[".repeat(60_000), "]".repeat(60_000));
    assert_eq!(send(QUERIES, json_type, deep).await.status, 400);
    let large = format!(r#"{{"apiVersion":"{}"}}"#, "x".repeat(200_000));
    assert_eq!(
        send(QUERIES, json_type, large).await.expect(413)["reason"],
        "RequestEntityTooLarge"
    );

    let mut unknown = query(&pods());
    unknown["spec"]["filter"] = json!("x");
    unknown["spec"]["orderBy"] = json!([{ "expression": "1", "desc": true }]);
    let body = unknown.to_string();
    let strict = send(
        &format!("{QUERIES}?fieldValidation=Strict"),
        json_type,
        body.clone(),
    )
    .await;
    let message = strict.expect(400)["message"].clone();
    let message = message.as_str().unwrap();
    assert!(
        message.contains(r#"unknown field "spec.filter", unknown field "spec.orderBy[0].desc""#)
            || message
                .contains(r#"unknown field "spec.orderBy[0].desc", unknown field "spec.filter""#),
        "{message}"
    );
    let warned = send(QUERIES, json_type, body.clone()).await;
    assert_eq!(warned.status, 201);
    assert!(
        warned.header("warning").contains("unknown field"),
        "{}",
        warned.header("warning")
    );
    let ignored = send(
        &format!("{QUERIES}?fieldValidation=Ignore"),
        json_type,
        body.clone(),
    )
    .await;
    assert_eq!(
        (ignored.status.as_u16(), ignored.header("warning")),
        (201, "")
    );
    let other = send(
        &format!("{QUERIES}?fieldValidation=Perhaps"),
        json_type,
        body,
    )
    .await;
    assert_eq!(other.status, 400);
}

#[tokio::test]
async fn other_requests_are_refused_as_for_reviews() {
    skip_under_oracle!("kube-apiserver has no queries");
    let (direct, through) = (Cluster::quiet().admin_client(), front().admin_client());
    for (method, below) in [
        (Method::GET, ""),
        (Method::GET, "?watch=true"),
        (Method::DELETE, ""),
        (Method::PUT, ""),
        (Method::PATCH, ""),
        (Method::GET, "/a"),
        (Method::DELETE, "/a"),
        (Method::POST, "/a"),
        (Method::POST, "/a/status"),
    ] {
        let ask = async |client: &crate::harness::client::Client, path: &str| {
            let headers = [("content-type", "application/json")];
            let target = format!("{path}{below}");
            client.send(method.clone(), &target, &headers, "{}").await
        };
        let ours = ask(&through, QUERIES).await;
        let theirs = ask(&direct, REVIEWS).await;
        assert_eq!(
            ours.status,
            theirs.status,
            "{method} {below}: {}",
            ours.text()
        );
        if ours.header("content-type") == "application/json" {
            assert_eq!(
                ours.json()["reason"],
                theirs.json()["reason"],
                "{method} {below}"
            );
            assert_eq!(
                ours.json()["message"],
                theirs.json()["message"],
                "{method} {below}"
            );
        }
    }
    let through = through
        .get("/apis/query.apifront.dev/v1alpha1/others")
        .await;
    assert_eq!(through.status, 404, "{}", through.text());
}
