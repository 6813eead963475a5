//! A query shows nothing, and counts nothing, that a list of its caller would not show.

use serde_json::{Value, json};

use super::{QUERIES, enable, query};
use crate::harness::client::Client;
use crate::harness::cluster::{grant_everywhere, unique};
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::objects::cluster_role_binding;
use crate::views::world::{MAPS, SOON, World};

/// Gives somebody the right to ask queries.
pub(super) async fn may_ask(world: &World, user: &str) {
    let name = unique("may-ask");
    let role = json!({
        "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": ["query.apifront.dev"], "resources": ["queries"], "verbs": ["create"] }],
    });
    let binding = cluster_role_binding(&name, &name, "User", user);
    grant_everywhere(&world.admin(), &[role, binding]).await;
}

fn maps(namespaces: &[&String]) -> Value {
    query(&json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "namespaces": namespaces,
        "where": "object.metadata.name in ['a', 'b', 'c']",
        "countBy": ["object.metadata.namespace"],
    }))
}

async fn refused(client: &Client, body: &Value, what: &str) {
    let status = client.post(QUERIES, body).await.expect(403);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(what), "{message}");
}

#[tokio::test]
async fn each_namespace_needs_the_right_to_list_in_it() {
    skip_under_oracle!("kube-apiserver has no queries");
    let world = World::start(3, |config| {
        enable(config);
        config["views"] = json!({});
        config.as_object_mut().unwrap().remove("views");
        // Rights that are given and taken show at once.
        config["authorization"] =
            json!({ "subjectAccessReview": { "allowTTL": "0s", "denyTTL": "0s" } });
    })
    .await;
    let client = world.client().with_header(DEBUG.0, DEBUG.1);
    let [one, two, three] = [
        &world.namespaces[0],
        &world.namespaces[1],
        &world.namespaces[2],
    ];
    refused(&client, &maps(&[one]), "cannot create resource \"queries\"").await;
    may_ask(&world, &world.tenant).await;
    eventually("the right to ask", SOON, || async {
        let status = client.post(QUERIES, &maps(&[one])).await.expect(403);
        !status["message"].as_str().unwrap().contains("queries")
    })
    .await;
    refused(
        &client,
        &maps(&[one]),
        &format!(
            "cannot list resource \"configmaps\" in API group \"\" in the namespace \"{one}\""
        ),
    )
    .await;
    world.grant(one).await;
    world.grant(two).await;
    eventually("rights in two namespaces", SOON, || async {
        client.post(QUERIES, &maps(&[one, two])).await.status == 201
    })
    .await;
    let answer = client.post(QUERIES, &maps(&[two, one, two])).await;
    assert!(answer.is_hit(), "{}", answer.text());
    let status = &answer.expect(201)["status"];
    assert_eq!(status["total"], 6);
    assert_eq!(status["rows"].as_array().unwrap().len(), 6);
    // Not even a count tells of the third namespace.
    refused(&client, &maps(&[one, two, three]), three).await;
    refused(&client, &maps(&[]), "at the cluster scope").await;
    world.revoke(one).await;
    eventually("the right is gone", SOON, || async {
        client.post(QUERIES, &maps(&[one])).await.status == 403
    })
    .await;
    let admin = world.front.admin_client();
    let all = admin.post(QUERIES, &maps(&[])).await.expect(201);
    assert!(all["status"]["total"].as_u64().unwrap() >= 9, "{all}");
    world.front.stop().await;
}

/// With views, a query without namespaces shows what the caller may see.
#[tokio::test]
async fn a_query_of_all_namespaces_shows_the_view() {
    skip_under_oracle!("kube-apiserver has no queries");
    let world = World::start(4, enable).await;
    let client = world.client();
    may_ask(&world, &world.tenant).await;
    eventually("the right to ask", SOON, || async {
        let status = client.post(QUERIES, &maps(&[])).await.expect(403);
        !status["message"].as_str().unwrap().contains("queries")
    })
    .await;
    let granted = &world.namespaces[..2];
    for namespace in granted {
        world.grant(namespace).await;
    }
    let both: Vec<&String> = granted.iter().collect();
    world.settled(&client, &both).await;
    eventually("the view", SOON, || async {
        let answer = client.post(QUERIES, &maps(&[])).await.expect(201);
        answer["status"]["total"] == 6
    })
    .await;
    let answer = client.post(QUERIES, &maps(&[])).await.expect(201);
    let counts = answer["status"]["counts"].as_array().unwrap();
    let mut counted: Vec<&str> = counts
        .iter()
        .map(|c| c["values"][0].as_str().unwrap())
        .collect();
    counted.sort_unstable();
    let mut expected: Vec<&str> = granted.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(counted, expected);
    let list = client.get(MAPS).await.expect(200);
    let items = list["items"].as_array().unwrap();
    let listed = items
        .iter()
        .filter(|item| ["a", "b", "c"].contains(&item["metadata"]["name"].as_str().unwrap()));
    assert_eq!(answer["status"]["total"], listed.count());
    world.revoke(&granted[0]).await;
    eventually("the view without a namespace", SOON, || async {
        let answer = client.post(QUERIES, &maps(&[])).await;
        answer.status == 201 && answer.json()["status"]["total"] == 3
    })
    .await;
    world.front.stop().await;
}
