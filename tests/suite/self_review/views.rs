//! A caller with a view gets a yes where the list succeeds.

use http::Method;
use serde_json::{Value, json};

use super::asking::{
    PATH, ask, in_protobuf, is_allowed, is_remembered, last_field, may, question, timeless,
};
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::differential::compare;
use crate::harness::encodings::unwrap;
use crate::harness::eventually;
use crate::harness::media_types::{JSON, PROTOBUF, YAML};
use crate::harness::watch::Watch;
use crate::views::world::{MAPS, RBAC, SOON, World};

fn maps(verb: &str) -> Value {
    json!({"verb": verb, "resource": "configmaps"})
}

fn remembering(config: &mut Value) {
    config["authorization"]["subjectAccessReview"] = json!({"allowTTL": "10m", "denyTTL": "10m"});
}

/// Returns kube-apiserver's answer with another status.
fn allowed(answer: &Answer, reason: &str) -> Answer {
    let mut object = answer.json();
    object["status"] = json!({"allowed": true, "reason": reason});
    Answer {
        body: serde_json::to_vec(&object).expect("JSON").into(),
        ..answer.clone()
    }
}

/// Compares the answers as values: the order of members does not matter here.
fn same_value(theirs: &Answer, ours: &Answer) {
    let (theirs, ours) = (timeless(theirs), timeless(ours));
    assert_eq!(theirs.json(), ours.json());
}

#[tokio::test]
async fn a_question_says_what_the_list_says() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(3, remembering).await;
    let granted = [&world.namespaces[0], &world.namespaces[2]];
    for namespace in granted {
        world.grant(namespace).await;
    }
    let (client, direct) = (world.client(), world.direct());
    world.settled(&client, &granted).await;
    let reason = "apifront: a view of 2 namespaces and 0 names, each allowed by a review";
    for protocol in [Protocol::Http2, Protocol::Http1] {
        let (client, direct) = (client.over(protocol), direct.over(protocol));
        for verb in ["list", "watch"] {
            for version in ["", "v1", "*"] {
                let mut attributes = maps(verb);
                attributes["version"] = json!(version);
                let theirs = may(&direct, &attributes).await;
                assert!(!is_allowed(&theirs));
                for again in [false, true] {
                    let ours = may(&client, &attributes).await;
                    // Both protocols share the remembered answers.
                    let kept = again || protocol == Protocol::Http1;
                    assert_eq!(is_remembered(&ours), kept, "{attributes}");
                    assert_eq!(ours.header("content-type"), JSON);
                    same_value(&allowed(&theirs, reason), &ours);
                    let text = timeless(&ours).text();
                    let (head, tail) = text.split_once("\"status\":").expect("a status");
                    assert_eq!(
                        timeless(&theirs)
                            .text()
                            .split_once("\"status\":")
                            .map(|(head, _)| head),
                        Some(head)
                    );
                    assert!(tail.ends_with("}}\n"), "{text}");
                }
            }
        }
    }
    let counted = async |answer: &'static str| {
        let name = "apifront_self_subject_access_reviews_total";
        world.front.metric(name, &[("answer", answer)]).await
    };
    assert_eq!(
        (counted("view").await, counted("upstream").await),
        (24.0, 0.0)
    );
    // Other answers are kube-apiserver's.
    let namespace = &world.namespaces[0];
    let different = format!("{}-x", world.namespaces[1]);
    for attributes in [
        json!({"verb": "get", "resource": "configmaps"}),
        json!({"verb": "create", "resource": "configmaps"}),
        json!({"verb": "delete", "resource": "configmaps"}),
        json!({"verb": "deletecollection", "resource": "configmaps"}),
        json!({"verb": "*", "resource": "configmaps"}),
        json!({"verb": "list", "resource": "*"}),
        json!({"verb": "list", "resource": "*", "group": "*"}),
        json!({"verb": "list", "resource": "secrets"}),
        json!({"verb": "list", "resource": "none"}),
        json!({"verb": "list", "resource": "configmaps", "version": "v2"}),
        json!({"verb": "list", "resource": "configmaps", "group": "apps"}),
        json!({"verb": "list", "resource": "configmaps", "name": "a"}),
        json!({"verb": "list", "resource": "configmaps", "subresource": "status"}),
        json!({"verb": "list", "resource": "configmaps", "namespace": namespace}),
        json!({"verb": "list", "resource": "configmaps", "namespace": different}),
        json!({
            "verb": "list", "resource": "configmaps",
            "labelSelector": {"rawSelector": "a=b"},
        }),
        json!({"verb": "list", "resource": "configmaps", "new": 1}),
    ] {
        let theirs = may(&direct, &attributes).await;
        for _ in 0..2 {
            let ours = may(&client, &attributes).await;
            let found = compare(&timeless(&theirs), &timeless(&ours));
            assert!(found.is_empty(), "{attributes}: {found}");
        }
    }
    for query in [
        "?fieldManager=a",
        "?dryRun=All",
        "?pretty=true",
        "?fieldValidation=Strict",
    ] {
        let path = format!("{PATH}{query}");
        let headers = [("content-type", JSON)];
        let body = question(&maps("list")).to_string();
        let theirs = direct
            .send(Method::POST, &path, &headers, body.clone())
            .await;
        let ours = client.send(Method::POST, &path, &headers, body).await;
        let found = compare(&timeless(&theirs), &timeless(&ours));
        assert!(found.is_empty(), "{query}: {found}");
    }
}

#[tokio::test]
async fn it_says_so_in_every_encoding_that_it_can() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(1, remembering).await;
    world.grant(&world.namespaces[0]).await;
    let (client, direct) = (world.client(), world.direct());
    world.settled(&client, &[&world.namespaces[0]]).await;
    let text = question(&maps("list")).to_string();
    let message = in_protobuf(&text).expect("protobuf");
    let reason = b"apifront: a view of 1 namespaces and 0 names, each allowed by a review";
    for (content_type, body) in [(JSON, text.clone().into_bytes()), (PROTOBUF, message)] {
        for agent in ["kubectl/v1", "curl/8"] {
            let with = |accept| {
                [
                    ("content-type", content_type),
                    ("accept", accept),
                    ("user-agent", agent),
                ]
            };
            for _ in 0..2 {
                let theirs = ask(&direct, body.clone(), &with(PROTOBUF)).await;
                let ours = ask(&client, body.clone(), &with(PROTOBUF)).await;
                assert_eq!(ours.header("content-type"), PROTOBUF);
                let (theirs, ours) = (timeless(&theirs), timeless(&ours));
                let (theirs, ours) = (unwrap(&theirs.body), unwrap(&ours.body));
                let status = [
                    &b"\x08\x01\x12"[..],
                    &[reason.len() as u8],
                    reason,
                    b"\x1a\0\x20\0",
                ];
                let status = status.concat();
                let no = b"\x1a\x08\x08\0\x12\0\x1a\0\x20\0";
                let before = theirs.strip_suffix(no).expect("upstream's status");
                let expected = [before, &[0x1a, status.len() as u8], &status[..]].concat();
                assert_eq!(ours, expected);
                let theirs = ask(&direct, body.clone(), &with(JSON)).await;
                let ours = ask(&client, body.clone(), &with(JSON)).await;
                let reason = String::from_utf8_lossy(reason);
                same_value(&allowed(&theirs, &reason), &ours);
                assert_eq!(
                    ours.text().contains("\n    \"reason\": "),
                    agent == "curl/8"
                );
                // apifront does not understand this answer, so the upstream's stays.
                let theirs = ask(&direct, body.clone(), &with(YAML)).await;
                let ours = ask(&client, body.clone(), &with(YAML)).await;
                let found = compare(&timeless(&theirs), &timeless(&ours));
                assert!(found.is_empty(), "{found}");
            }
        }
    }
    let theirs = direct
        .send(Method::POST, PATH, &[("content-type", YAML)], text.clone())
        .await;
    let ours = client
        .send(Method::POST, PATH, &[("content-type", YAML)], text)
        .await;
    let found = compare(&timeless(&theirs), &timeless(&ours));
    assert!(found.is_empty(), "{found}");
}

async fn says(client: &Client, expected: bool) {
    eventually("the question and the list", SOON, || async {
        let list = client.get(MAPS).await.status == 200;
        let may_list = is_allowed(&may(client, &maps("list")).await);
        list == expected && may_list == expected
    })
    .await;
    let may_watch = is_allowed(&may(client, &maps("watch")).await);
    let watch = Watch::open(client, &format!("{MAPS}?watch=1")).await;
    drop(watch);
    assert_eq!(may_watch, expected);
}

#[tokio::test]
async fn it_follows_the_rights() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, remembering).await;
    let client = world.client();
    assert!(!is_allowed(&may(&client, &maps("list")).await));
    world.grant(&world.namespaces[0]).await;
    says(&client, true).await;
    world.revoke(&world.namespaces[0]).await;
    eventually("the loss", SOON, || async {
        let list = client.get(MAPS).await.status == 403;
        list && !is_allowed(&may(&client, &maps("list")).await)
    })
    .await;
}

#[tokio::test]
async fn upstreams_yes_is_upstreams() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(1, |_| {}).await;
    world.grant(&world.namespaces[0]).await;
    let client = world.client();
    world.settled(&client, &[&world.namespaces[0]]).await;
    let binding = crate::harness::objects::cluster_role_binding(
        &world.role,
        &world.role,
        "User",
        &world.tenant,
    );
    let path = format!("{RBAC}/clusterrolebindings");
    world.admin().post(&path, &binding).await.expect(201);
    let direct = world.direct();
    eventually("the right", SOON, || async {
        is_allowed(&may(&direct, &maps("list")).await)
    })
    .await;
    eventually("the same answer", SOON, || async {
        let (theirs, ours) = (
            may(&direct, &maps("list")).await,
            may(&client, &maps("list")).await,
        );
        compare(&timeless(&theirs), &timeless(&ours)).is_empty()
    })
    .await;
}

/// The upstream does not send the length of a long answer.
#[tokio::test]
async fn long_answers_say_yes_too() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(1, remembering).await;
    world.grant(&world.namespaces[0]).await;
    let (client, direct) = (world.client(), world.direct());
    world.settled(&client, &[&world.namespaces[0]]).await;
    // The reason names each binding whose role is missing.
    for n in 0..60 {
        let name = format!("{}-{n}-{}", world.tenant, "x".repeat(40));
        let binding =
            crate::harness::objects::cluster_role_binding(&name, &name, "User", &world.tenant);
        let path = format!("{RBAC}/clusterrolebindings");
        world.admin().post(&path, &binding).await.expect(201);
    }
    eventually("the errors", SOON, || async {
        let answer = may(&direct, &maps("list")).await;
        answer.text().matches("not found").count() >= 60
            && answer.header("content-length").is_empty()
    })
    .await;
    let body = question(&maps("list")).to_string();
    for protocol in [Protocol::Http2, Protocol::Http1] {
        let client = client.over(protocol);
        for _ in 0..2 {
            let answer = may(&client, &maps("list")).await;
            assert!(is_allowed(&answer), "{}", answer.text());
            assert!(!is_remembered(&answer), "it is too long for that");
            let headers = [("content-type", JSON), ("accept", PROTOBUF)];
            let answer = ask(&client, body.clone(), &headers).await;
            let status = last_field(&unwrap(&answer.body));
            assert!(status.starts_with(&[8, 1]), "allowed");
        }
    }
}

/// A list that fails is no reason for a yes.
#[tokio::test]
async fn a_view_that_fails_says_nothing() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |config| {
        config["views"]["maxGrantsPerView"] = json!(1);
        config["cache"] = json!({"exclude": ["pods"]});
    })
    .await;
    for namespace in &world.namespaces {
        world.grant(namespace).await;
    }
    let (client, direct) = (world.client(), world.direct());
    eventually("the bound", SOON, || async {
        client.get(MAPS).await.text().contains("maxGrantsPerView")
    })
    .await;
    for resource in ["configmaps", "pods"] {
        let attributes = json!({"verb": "list", "resource": resource});
        let (theirs, ours) = (
            may(&direct, &attributes).await,
            may(&client, &attributes).await,
        );
        assert!(!is_allowed(&ours), "{resource}");
        let found = compare(&timeless(&theirs), &timeless(&ours));
        assert!(found.is_empty(), "{found}");
    }
}

#[tokio::test]
async fn others_are_told_what_upstream_says() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(1, |config| config["views"] = json!({"requestHeader": true})).await;
    world.grant(&world.namespaces[0]).await;
    let (client, direct) = (world.client(), world.direct());
    let asking = client.separate().with_header("x-apifront-view", "true");
    world.settled(&asking, &[&world.namespaces[0]]).await;
    let theirs = may(&direct, &maps("list")).await;
    let ours = may(&client, &maps("list")).await;
    let found = compare(&timeless(&theirs), &timeless(&ours));
    assert!(found.is_empty(), "{found}");
    assert!(is_allowed(&may(&asking, &maps("list")).await));
    assert!(!is_allowed(&may(&client, &maps("list")).await));
    // The same holds for an impersonated user.
    let admin = world.front.admin_client();
    let body = question(&maps("list")).to_string();
    let as_tenant = [
        ("impersonate-user", &*world.tenant),
        ("content-type", JSON),
        ("x-apifront-view", "true"),
    ];
    assert!(is_allowed(&ask(&admin, body.clone(), &as_tenant).await));
    assert!(!is_allowed(&ask(&admin, body, &as_tenant[..2]).await));
}

/// Rules reviews concern one namespace, and remain kube-apiserver's.
#[tokio::test]
async fn rules_reviews_are_upstreams() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, remembering).await;
    world.grant(&world.namespaces[0]).await;
    let (client, direct) = (world.client(), world.direct());
    world.settled(&client, &[&world.namespaces[0]]).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    for namespace in [&*world.namespaces[0], &*world.namespaces[1], ""] {
        let body = json!({
            "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1",
            "spec": {"namespace": namespace},
        });
        eventually("the same rules", SOON, || async {
            let (theirs, ours) = (
                direct.post(path, &body).await,
                client.post(path, &body).await,
            );
            let rules = |answer: &Answer| answer.json()["status"].to_string().len();
            theirs.status == ours.status && rules(&theirs) == rules(&ours)
        })
        .await;
    }
}
