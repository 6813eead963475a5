//! Tests with client-go of the newest release (`tests/informer`): its informers ask
//! for WatchList, and list if that is refused.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{GROUP, NAMESPACE, World};
use crate::harness::apifront::Apifront;
use crate::harness::informer::Informer;
use crate::harness::objects::{config_map, pod, widget};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    lists: usize,
    watches: usize,
    watch_lists: usize,
    refused: usize,
    objects: Vec<String>,
}

fn keys(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    let mut keys: Vec<String> = items
        .iter()
        .map(|item| {
            let meta = &item["metadata"];
            let text = |key: &str| meta[key].as_str().unwrap_or("").to_owned();
            format!(
                "{}/{}@{}",
                text("namespace"),
                text("name"),
                text("resourceVersion")
            )
        })
        .collect();
    keys.sort();
    keys
}

/// An informer that starts before the cache is filled syncs by one watch, and gets
/// later events on it. Before the old server itself it has to list.
#[tokio::test]
async fn informers_sync_by_one_watch() {
    skip_under_oracle!("the upstream lacks the feature");
    let world = World::alone().await;
    let front = Apifront::start(&world.cluster, |_| {}).await;
    let (old, namespaced) = (world.old(), format!("namespaces/{NAMESPACE}"));
    let until = "informed";
    let labels = json!({});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": until },
    });
    for (resource, list, namespace, object) in [
        (
            "v1/configmaps".to_owned(),
            format!("/api/v1/{namespaced}/configmaps"),
            NAMESPACE,
            config_map(until, labels.clone(), json!({})),
        ),
        (
            "v1/pods".to_owned(),
            format!("/api/v1/{namespaced}/pods"),
            NAMESPACE,
            pod(until, labels.clone()),
        ),
        ("v1/nodes".to_owned(), "/api/v1/nodes".to_owned(), "", node),
        (
            format!("{GROUP}/v1/widgets"),
            format!("/apis/{GROUP}/v1/{namespaced}/widgets"),
            NAMESPACE,
            widget(GROUP, until, "red", 1),
        ),
    ] {
        let key = match namespace {
            "" => until.to_owned(),
            namespace => format!("{namespace}/{until}"),
        };
        let who = (world.cluster.ca(), &world.cluster.admin);
        let options = ["-namespace", namespace, "-until", key.as_str()];
        let begin = |server: &str| Informer::start(server, who, &resource, &options);
        let (through, synced): (_, Said) = begin(&front.url()).next().await;
        assert_eq!(synced.objects, keys(&old.get(&list).await.expect(200)));
        let counts = |said: &Said| (said.watch_lists, said.refused, said.lists, said.watches);
        assert_eq!(counts(&synced), (1, 0, 0, 0), "{resource}: {synced:?}");
        let (direct, said): (_, Said) = begin(&world.cluster.server_url()).next().await;
        assert!(said.refused >= 1 && said.lists >= 1, "{resource}: {said:?}");
        old.post(&list, &object).await.expect(201);
        let (_, heard): (_, Said) = through.next().await;
        assert_eq!(heard.objects, keys(&old.get(&list).await.expect(200)));
        assert_eq!(counts(&heard), (1, 0, 0, 0), "{resource}: {heard:?}");
        drop(direct);
        old.delete(&format!("{list}/{until}")).await;
        println!("{resource}: through apifront {synced:?}; directly {said:?}");
    }
    front.stop().await;
}
