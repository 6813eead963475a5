//! A caller without a view gets kube-apiserver's 403, byte for byte.

use http::Method;
use serde_json::json;

use super::world::{MAPS, SOON, World};
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::watch::Watch;

const PATHS: [&str; 7] = [
    MAPS,
    "/api/v1/configmaps?limit=1",
    "/api/v1/configmaps?watch=1",
    "/api/v1/configmaps?watch=1&resourceVersion=1",
    "/api/v1/watch/configmaps",
    "/api/v1/configmaps?fieldSelector=metadata.name%3Da",
    "/api/v1/secrets",
];

async fn same(front: &Client, direct: &Client, headers: &[(&str, &str)]) {
    for path in PATHS {
        let ours = front.send(Method::GET, path, headers, "").await;
        let theirs = direct.send(Method::GET, path, headers, "").await;
        assert_eq!(theirs.status, 403, "{path}");
        assert_eq!(
            (ours.status, ours.text()),
            (theirs.status, theirs.text()),
            "{path}"
        );
        assert_eq!(ours.header("content-type"), theirs.header("content-type"));
        assert_eq!(ours.header("x-apifront-view"), "", "{path}");
    }
}

#[tokio::test]
async fn others_get_the_403_of_kube_apiserver() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |_| {}).await;
    world.grant(&world.namespaces[0]).await;
    let certificates = &world.cluster.certificates;
    let asks = [("x-apifront-view", "true")];
    // A caller with the same rights whom the configuration does not name.
    let other = format!("{}-other", world.tenant);
    world
        .bind(&world.namespaces[1], &world.role, "User", &other)
        .await;
    let certificate = certificates.client(&other, &["tenants"]);
    let (front, direct) = (
        world.front.client(Some(&certificate)),
        world.cluster.client(Some(&certificate)),
    );
    let own = format!("/api/v1/namespaces/{}/configmaps", world.namespaces[1]);
    eventually("the right", SOON, || async {
        front.get(&own).await.status == 200
    })
    .await;
    same(&front, &direct, &[]).await;
    same(&front, &direct, &asks).await;
    // The tenant has rights in one namespace, and none to the other resource.
    let client = world.client();
    world.settled(&client, &[&world.namespaces[0]]).await;
    let secrets = client.get("/api/v1/secrets").await;
    let theirs = world.direct().get("/api/v1/secrets").await;
    assert_eq!(
        (secrets.status, secrets.text()),
        (theirs.status, theirs.text())
    );
    let legacy = client.get("/api/v1/watch/configmaps").await;
    assert_eq!(legacy.status, 403, "{}", legacy.text());
    // A view that lost everything leaves nothing behind.
    world.revoke(&world.namespaces[0]).await;
    eventually("the loss", SOON, || async {
        client.get(MAPS).await.status == 403
    })
    .await;
    eventually("the same loss upstream", SOON, || async {
        let own = format!("/api/v1/namespaces/{}/configmaps", world.namespaces[0]);
        world.direct().get(&own).await.status == 403
    })
    .await;
    same(&client, &world.direct(), &[]).await;
}

#[tokio::test]
async fn a_header_asks_for_a_view_where_it_may() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |config| {
        config["views"] = json!({ "requestHeader": true });
    })
    .await;
    world.grant(&world.namespaces[1]).await;
    let (client, direct) = (world.client(), world.direct());
    same(&client, &direct, &[]).await;
    for value in ["True", "1", "", "true, true"] {
        same(&client, &direct, &[("x-apifront-view", value)]).await;
    }
    let asking = client.separate().with_header("x-apifront-view", "true");
    world.settled(&asking, &[&world.namespaces[1]]).await;
    let twice = asking.clone().with_header("x-apifront-view", "true");
    assert_eq!(twice.get(MAPS).await.status, 403);
    let mut watch = Watch::open(&asking, &format!("{MAPS}?watch=1")).await;
    assert_eq!(watch.take(3).await.len(), 3);
    // A caller who may see everything has no view.
    let admin = world
        .front
        .admin_client()
        .with_header("x-apifront-view", "true");
    let all = admin.get(MAPS).await;
    assert_eq!(
        (all.status.as_u16(), all.header("x-apifront-view")),
        (200, "")
    );
}

#[tokio::test]
async fn bounds_are_told() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(3, |config| {
        config["views"]["maxGrantsPerView"] = json!(2);
    })
    .await;
    for namespace in &world.namespaces[..2] {
        world.grant(namespace).await;
    }
    let client = world.client();
    let granted: Vec<&String> = world.namespaces[..2].iter().collect();
    world.settled(&client, &granted).await;
    world.grant(&world.namespaces[2]).await;
    eventually("the bound", SOON, || async {
        client.get(MAPS).await.status == 403
    })
    .await;
    let status = client.get(MAPS).await.json();
    let message = status["message"].as_str().expect("a message");
    assert!(message.contains("views.maxGrantsPerView"), "{message}");
    world.revoke(&world.namespaces[2]).await;
    world.settled(&client, &granted).await;
}
