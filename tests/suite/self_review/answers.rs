//! Every form of a question gets kube-apiserver's answer, both the first time and
//! again.

use http::Method;
use serde_json::{Value, json};

use super::asking::{PATH, in_protobuf, is_remembered, of_spec, question, timeless};
use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::{Cluster, unique};
use crate::harness::differential::compare;
use crate::harness::media_types::{JSON, PROTOBUF, TABLE, YAML};

struct Form {
    name: &'static str,
    query: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
    /// Whether the answer is remembered, if it is a review.
    kept: bool,
}

fn form(name: &'static str, content_type: &'static str, body: impl Into<Vec<u8>>) -> Form {
    Form {
        name,
        query: "",
        content_type,
        body: body.into(),
        kept: true,
    }
}

fn forms() -> Vec<Form> {
    let pods = json!({"verb": "list", "resource": "pods"});
    let plain = question(&pods).to_string();
    let json = |name, body: Value| form(name, JSON, body.to_string());
    let path = json!({"path": "/metrics", "verb": "get"});
    let both = json!({"resourceAttributes": pods, "nonResourceAttributes": path});
    let full = json!({
        "namespace": "default", "verb": "get", "group": "apps", "version": "v1",
        "resource": "deployments", "subresource": "scale", "name": "a\"<&>\u{2028}é",
    });
    let selected = json!({
        "verb": "list", "resource": "pods",
        "labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}]},
        "fieldSelector": {"rawSelector": "spec.nodeName=a"},
    });
    let mut forms = vec![
        json("client-go's", question(&pods)),
        json(
            "kubectl's",
            question(&json!({"namespace": "default", "verb": "get", "resource": "pods"})),
        ),
        json("every attribute", question(&full)),
        json(
            "its own right",
            question(&json!({
                "verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews",
            })),
        ),
        json("a path", of_spec(json!({"nonResourceAttributes": path}))),
        json(
            "a path that is allowed",
            of_spec(json!({
                "nonResourceAttributes": {"path": "/openapi", "verb": "get"},
            })),
        ),
        json("selectors", question(&selected)),
        json(
            "a wrong selector",
            question(&json!({
                "verb": "list", "resource": "pods", "labelSelector": {"rawSelector": "a b"},
            })),
        ),
        json(
            "nothing of a selector",
            question(&json!({
                "verb": "list", "resource": "pods", "labelSelector": {},
            })),
        ),
        json("no attribute", question(&json!({}))),
        json("both", of_spec(both)),
        json("neither", of_spec(json!({}))),
        json(
            "an unknown field",
            of_spec(json!({"resourceAttributes": pods, "new": 1})),
        ),
        json(
            "an unknown attribute",
            question(&json!({"verb": "list", "resource": "pods", "new": 1})),
        ),
        json(
            "a null",
            of_spec(json!({"resourceAttributes": pods, "nonResourceAttributes": null})),
        ),
        json(
            "a null attribute",
            question(&json!({"verb": "list", "resource": null})),
        ),
        json(
            "a wrong type",
            question(&json!({"verb": "list", "resource": 7})),
        ),
        json("only a spec", json!({"spec": {"resourceAttributes": pods}})),
        json(
            "no kind",
            json!({"apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes": pods}}),
        ),
        json(
            "a wrong kind",
            json!({
                "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                "spec": {"resourceAttributes": pods, "user": "a"},
            }),
        ),
        json(
            "a wrong version",
            json!({
                "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1beta1",
                "spec": {"resourceAttributes": pods},
            }),
        ),
        json(
            "a name",
            json!({
                "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                "metadata": {"name": "a"}, "spec": {"resourceAttributes": pods},
            }),
        ),
        json(
            "managed fields",
            json!({
                "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                "metadata": {"managedFields": []}, "spec": {"resourceAttributes": pods},
            }),
        ),
        json("nothing", json!({})),
        json("an array", json!([])),
        json(
            "a status",
            json!({
                "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                "spec": {"resourceAttributes": pods},
                "status": {"allowed": true, "denied": true, "reason": "mine", "evaluationError": "no"},
            }),
        ),
        form(
            "a field twice",
            JSON,
            plain.replace("\"verb\":", "\"verb\":\"get\",\"verb\":"),
        ),
        form("another case", JSON, plain.replace("\"verb\"", "\"Verb\"")),
        form("spaces", JSON, plain.replace(':', " : \n")),
        form("no type", "", plain.clone()),
        form(
            "a parameter of the type",
            "application/json; charset=utf-8",
            plain.clone(),
        ),
        form("another type", "text/plain", plain.clone()),
        form("the wrong type", PROTOBUF, plain.clone()),
        form("protobuf", PROTOBUF, in_protobuf(&plain).expect("protobuf")),
        form(
            "every attribute in protobuf",
            PROTOBUF,
            in_protobuf(&question(&full).to_string()).expect("protobuf"),
        ),
        form(
            "selectors in protobuf",
            PROTOBUF,
            in_protobuf(&question(&selected).to_string()).expect("protobuf"),
        ),
        form(
            "cut protobuf",
            PROTOBUF,
            in_protobuf(&plain).expect("protobuf")[..30].to_vec(),
        ),
        form(
            "protobuf without envelope",
            PROTOBUF,
            &in_protobuf(&plain).expect("protobuf")[4..],
        ),
        form(
            "YAML",
            YAML,
            "spec: {resourceAttributes: {verb: list, resource: pods}}\n",
        ),
        form("half of it", JSON, &plain.as_bytes()[..60]),
        form(
            "no text",
            JSON,
            plain.replace("pods", "\u{1}\u{2}").into_bytes(),
        ),
        form("no UTF-8", JSON, [plain.as_bytes(), &b"\xff"[..]].concat()),
        form("deep", JSON, "[".repeat(9_000)),
        form("an empty body", JSON, ""),
    ];
    for (name, query) in [
        ("strict", "?fieldValidation=Strict"),
        ("careless", "?fieldValidation=Ignore"),
        ("a dry run", "?dryRun=All"),
        ("a manager", "?fieldManager=me"),
        ("pretty", "?pretty=true"),
        ("a question mark", "?"),
        ("an unknown parameter", "?new=1"),
    ] {
        forms.push(Form {
            query,
            kept: false,
            ..json(name, of_spec(json!({"resourceAttributes": pods, "new": 1})))
        });
        forms.push(Form {
            query,
            kept: false,
            ..json(name, question(&pods))
        });
    }
    forms.push(Form {
        kept: false,
        ..json(
            "long",
            question(&json!({"verb": "x".repeat(40_000), "resource": "pods"})),
        )
    });
    forms.push(Form {
        kept: false,
        ..json(
            "very long",
            question(&json!({"verb": "x".repeat(100_000), "resource": "pods"})),
        )
    });
    // The answer would take too much memory.
    forms.push(Form {
        kept: false,
        ..json(
            "rather long",
            question(&json!({"verb": "x".repeat(5_000), "resource": "pods"})),
        )
    });
    forms
}

async fn same_answers(direct: &Client, front: &Client) {
    let (mut differences, mut kept) = (Vec::new(), 0);
    let mut asked = 0;
    for form in forms() {
        for accept in [JSON, PROTOBUF, YAML, "*/*", TABLE, "text/html", ""] {
            let mut headers = vec![
                ("x-apifront-debug", "cache"),
                ("user-agent", "kubectl/v1 (x)"),
            ];
            headers
                .extend(Some(("content-type", form.content_type)).filter(|(_, v)| !v.is_empty()));
            headers.extend(Some(("accept", accept)).filter(|(_, v)| !v.is_empty()));
            let path = format!("{PATH}{}", form.query);
            let send = |client: &Client| {
                let (client, path, body) = (client.clone(), path.clone(), form.body.clone());
                let headers = headers.clone();
                async move { client.send(Method::POST, &path, &headers, body).await }
            };
            let theirs = send(direct).await;
            for again in [false, true] {
                let ours = send(front).await;
                asked += 1;
                let found = compare(&timeless(&theirs), &timeless(&ours));
                if !found.is_empty() {
                    differences.push(format!(
                        "{} as {accept}, again {again}:\n{found}",
                        form.name
                    ));
                }
                let may_be_kept = again
                    && form.kept
                    && theirs.status == 201
                    && theirs.header("warning").is_empty()
                    && [JSON, PROTOBUF].contains(&theirs.header("content-type"));
                kept += usize::from(is_remembered(&ours));
                if !oracle() && is_remembered(&ours) != may_be_kept {
                    let by = ours.header("x-apifront-cache");
                    differences.push(format!("{} as {accept}, again {again}: {by}", form.name));
                }
            }
        }
    }
    println!("{asked} answers compared, {kept} of them from memory");
    assert!(
        differences.is_empty(),
        "(- direct, + front)\n{}",
        differences.join("\n")
    );
}

async fn front(cluster: &Cluster, change: impl FnOnce(&mut Value)) -> Apifront {
    Apifront::start(cluster, |config| {
        config["authorization"]["subjectAccessReview"] =
            json!({"allowTTL": "10m", "denyTTL": "10m"});
        change(config);
    })
    .await
}

#[tokio::test]
async fn every_form_has_kube_apiservers_answer() {
    let cluster = Cluster::shared();
    let front = front(cluster, |_| {}).await;
    for protocol in [Protocol::Http2, Protocol::Http1] {
        let user = cluster.certificates.client(&unique("asks"), &["askers"]);
        let (direct, front) = (cluster.client(Some(&user)), front.client(Some(&user)));
        same_answers(&direct.over(protocol), &front.over(protocol)).await;
    }
}

/// A caller who may have views but has no rights also gets kube-apiserver's answers.
#[tokio::test]
async fn who_has_no_view_has_kube_apiservers_answer() {
    skip_under_oracle!("kube-apiserver has no views");
    let cluster = Cluster::shared();
    let name = unique("asks");
    let front = front(cluster, |config| config["views"] = json!({"users": [name]})).await;
    let user = cluster.certificates.client(&name, &["askers"]);
    let (direct, front) = (cluster.client(Some(&user)), front.client(Some(&user)));
    same_answers(&direct, &front).await;
}

/// Browsers and similar programs get indented answers.
#[tokio::test]
async fn an_answer_is_kept_for_its_program() {
    let cluster = Cluster::shared();
    let front = front(cluster, |_| {}).await;
    let user = cluster.certificates.client(&unique("asks"), &[]);
    let (direct, front) = (cluster.client(Some(&user)), front.client(Some(&user)));
    let body = question(&json!({"verb": "list", "resource": "pods"})).to_string();
    for agent in [
        "kubectl/v1",
        "curl/8",
        "Mozilla/5.0 (X11)",
        "kubectl/v2",
        "",
        "k9s\u{e9}/1",
    ] {
        let headers = [("content-type", JSON), ("user-agent", agent)];
        let theirs = direct
            .send(Method::POST, PATH, &headers, body.clone())
            .await;
        for _ in 0..2 {
            let ours = front.send(Method::POST, PATH, &headers, body.clone()).await;
            let found = compare(&timeless(&theirs), &timeless(&ours));
            assert!(found.is_empty(), "{agent}: {found}");
        }
    }
}
