//! Views of single names: objects in namespaces, and cluster-wide objects.

use serde_json::json;

use super::world::{MAPS, RBAC, World, keys};
use crate::harness::eventually;

#[tokio::test]
async fn single_names_are_visible_where_they_are_granted() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(3, |_| {}).await;
    let named = format!("{}-named", world.role);
    let namespaces = &world.namespaces;
    let role = json!({
        "metadata": {"name": named},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["b", "nothing"],
             "verbs": ["list", "watch"]},
            {"apiGroups": [""], "resources": ["namespaces"],
             "resourceNames": [namespaces[0], namespaces[2]], "verbs": ["list"]},
        ],
    });
    let admin = world.admin();
    let path = format!("{RBAC}/clusterroles");
    admin.post(&path, &role).await.expect(201);
    world.grant(&namespaces[0]).await;
    world
        .bind(&namespaces[0], &named, "User", &world.tenant)
        .await;
    world
        .bind(&namespaces[1], &named, "User", &world.tenant)
        .await;
    let client = world.client();
    eventually("the view", super::world::SOON, || async {
        let list = client.get(MAPS).await;
        list.header("x-apifront-view") == "namespaces=1, names=2"
    })
    .await;
    let list = client.get(MAPS).await;
    assert_eq!(list.header("warning"), "");
    let mut expected: Vec<String> = ["a", "b", "c"]
        .map(|name| format!("{}/{name}", namespaces[0]))
        .into();
    expected.push(format!("{}/b", namespaces[1]));
    expected.sort();
    assert_eq!(keys(&list.json()), expected);
    // kube-apiserver answers each of these lists.
    let direct = world.direct();
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?fieldSelector=metadata.name%3Db",
        namespaces[1]
    );
    assert_eq!(
        keys(&direct.get(&path).await.expect(200)),
        [format!("{}/b", namespaces[1])]
    );

    // Namespaces are cluster-wide, so a ClusterRoleBinding names them.
    assert_eq!(client.get("/api/v1/namespaces").await.status, 403);
    let binding = json!({
        "metadata": {"name": named},
        "subjects": [{
            "kind": "User", "name": world.tenant, "apiGroup": "rbac.authorization.k8s.io",
        }],
        "roleRef": {
            "kind": "ClusterRole", "name": named, "apiGroup": "rbac.authorization.k8s.io",
        },
    });
    let path = format!("{RBAC}/clusterrolebindings");
    admin.post(&path, &binding).await.expect(201);
    eventually("the namespaces", super::world::SOON, || async {
        client.get("/api/v1/namespaces").await.status == 200
    })
    .await;
    let list = client.get("/api/v1/namespaces").await;
    assert_eq!(list.header("x-apifront-view"), "namespaces=0, names=2");
    let mut expected = [&namespaces[0], &namespaces[2]].map(|name| format!("/{name}"));
    expected.sort();
    assert_eq!(keys(&list.json()), expected);
    assert_eq!(client.get("/api/v1/namespaces?watch=1").await.status, 403);
    assert!(
        list.header("warning").contains("watch"),
        "{}",
        list.header("warning")
    );
    // `b` may now be listed in every namespace. A view cannot express that.
    eventually("the warning", super::world::SOON, || async {
        client
            .get(MAPS)
            .await
            .header("warning")
            .contains("by name in every namespace")
    })
    .await;
    admin.delete(&format!("{path}/{named}")).await.expect(200);
}
