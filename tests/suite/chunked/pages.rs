//! Pages are the same with every limit and from every server.

use super::*;

/// Pages through the lists with all limits. Every page must be the same from
/// all three servers, and each is asked with every token.
async fn page_through(sample: &Sample, selectors: &[&str]) {
    let servers = Servers::get();
    servers.reach(&sample.lists[0], sample.version).await;
    for list in &sample.lists {
        for selector in selectors {
            for accept in [JSON, TABLE_OR_JSON, PARTIAL_LIST] {
                for limit in [1, 2, OBJECTS - 1, OBJECTS, 0] {
                    let query = format!("{list}?limit={limit}{selector}");
                    let exact = format!(
                        "{query}&resourceVersion={}&resourceVersionMatch=Exact",
                        sample.version
                    );
                    let mut page = servers.same(&exact, accept).await;
                    for _ in 0..PAGES {
                        let Some(token) = token_of(&page) else {
                            break;
                        };
                        page = servers
                            .same(&format!("{query}&continue={token}"), accept)
                            .await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn pages_of_pods() {
    let admin = Cluster::shared().admin_client();
    let sample = sample(&admin, "/api/v1", "pods", |name, n| {
        pod_on_node(name, labels(n), &format!("n{}", n % 2))
    })
    .await;
    page_through(
        &sample,
        &[
            "",
            "&labelSelector=odd%3D1",
            "&labelSelector=odd%3D7",
            "&fieldSelector=spec.nodeName%3Dn0",
            "&fieldSelector=metadata.name%3Do-2,spec.nodeName%3Dn0",
        ],
    )
    .await;
}

#[tokio::test]
async fn pages_of_config_maps() {
    let admin = Cluster::shared().admin_client();
    let sample = sample(&admin, "/api/v1", "configmaps", |name, n| {
        config_map(name, labels(n), json!({ "n": n.to_string() }))
    })
    .await;
    let ns = sample.lists[1].split('/').nth(4).expect("namespace");
    page_through(
        &sample,
        &[
            "",
            "&labelSelector=odd%3D0",
            "&fieldSelector=metadata.name!%3Do-3",
            &format!("&fieldSelector=metadata.namespace%3D{ns}"),
        ],
    )
    .await;
}

#[tokio::test]
async fn pages_of_nodes() {
    let admin = Cluster::shared().admin_client();
    for list in ["/api/v1/nodes", "/api/v1/namespaces"] {
        Servers::get().warm(list).await;
    }
    let mark = unique("node");
    let mut version = 0;
    for n in 0..OBJECTS {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("{mark}-{n}"), "labels": { "mark": mark } },
        });
        let made = admin.post("/api/v1/nodes", &node).await;
        version = version_of(&made.expect(201));
    }
    let sample = Sample {
        lists: vec!["/api/v1/nodes".to_owned()],
        version,
    };
    let name = format!("&fieldSelector=metadata.name%3D{mark}-2");
    let label = format!("&labelSelector=mark%3D{mark}");
    page_through(&sample, &["", &label, &name]).await;
    let namespaces = Sample {
        lists: vec!["/api/v1/namespaces".to_owned()],
        version: version_of(
            &admin
                .get(&format!(
                    "/api/v1/namespaces/{}",
                    Cluster::shared().namespace("chunked").await
                ))
                .await
                .expect(200),
        ),
    };
    page_through(&namespaces, &["", "&fieldSelector=status.phase%3DActive"]).await;
}

#[tokio::test]
async fn pages_of_custom_resources() {
    let admin = Cluster::shared().admin_client();
    let group = format!("{}.chunked.test", unique("crd"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = admin.post(definitions, &widget_definition(&group)).await;
    made.expect(201);
    let base = format!("/apis/{group}/v1");
    eventually("served", Duration::from_secs(30), || async {
        let path = format!("{base}/namespaces/default/widgets");
        let made = admin.post(&path, &widget(&group, "first", "red", 1)).await;
        [201, 409].contains(&made.status.as_u16())
    })
    .await;
    let sample = sample(&admin, &base, "widgets", |name, n| {
        let mut object = widget(&group, name, if n % 2 == 0 { "red" } else { "blue" }, 1);
        object["metadata"]["labels"] = labels(n);
        object
    })
    .await;
    page_through(&sample, &["", "&labelSelector=odd%3D1"]).await;
}
