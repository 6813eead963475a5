//! Compares everything that kube-apiserver has with what apifront shows.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::differential::Differential;
use harness::eventually;
use harness::expect::{DEBUG, is_late};

const ACCEPTS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];
/// kube-apiserver probes components for each request, and lists them in the order in
/// which they answer.
const UNORDERED: &str = "componentstatuses";
const WITHIN: Duration = Duration::from_secs(60);

/// Compares the lists of every resource in every shape, and returns a summary. Fails
/// with the first differences.
pub async fn everything(cluster: &Cluster, front: &Apifront) -> String {
    let client = front.admin_client();
    eventually("apifront is ready", WITHIN, || async {
        let answer = client.try_send(Method::GET, "/readyz", &[], "").await;
        answer.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    let both = Differential::new(cluster.admin_client(), client.clone());
    let (mut compared, mut hits) = (0, 0);
    let mut differences = Vec::new();
    let lists = lists(&cluster.admin_client()).await;
    for list in &lists {
        // The first request may only make the cache list the resource.
        eventually("the cache has listed a resource", WITHIN, || async {
            let answer = client.send(Method::GET, list, &[DEBUG], "").await;
            !is_late(&answer)
        })
        .await;
        for accept in ACCEPTS {
            let headers = [("accept", accept)];
            let outcome = both.unforeseen(Method::GET, list, &headers).await;
            compared += 1;
            hits += usize::from(outcome.front.is_some_and(|answer| answer.is_hit()));
            if !outcome.difference.is_empty() {
                differences.push(outcome.difference);
            }
        }
    }
    let shown = differences.iter().take(5).cloned().collect::<String>();
    assert!(
        differences.is_empty(),
        "{} differences:\n{shown}",
        differences.len()
    );
    assert!(hits * 2 > compared, "{hits} of {compared} from the cache");
    format!(
        "{compared} answers of {} resources, {hits} from the cache, 0 differences",
        lists.len()
    )
}

/// Returns the paths of all lists that kube-apiserver serves.
async fn lists(admin: &Client) -> Vec<String> {
    let groups = admin.get("/apis").await.expect(200);
    let groups = groups["groups"].as_array().cloned().unwrap_or_default();
    let versions = groups.iter().flat_map(|group| {
        let versions = group["versions"].as_array().cloned().unwrap_or_default();
        versions
            .into_iter()
            .map(|version| format!("/apis/{}", text(&version["groupVersion"])))
    });
    let mut lists = Vec::new();
    for base in ["/api/v1".to_owned()].into_iter().chain(versions) {
        let answer = admin.get(&base).await;
        if answer.status != 200 {
            continue;
        }
        let found = answer.json();
        for resource in found["resources"].as_array().into_iter().flatten() {
            let verbs = resource["verbs"].as_array();
            let is_list = verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            if is_list && text(&resource["name"]) != UNORDERED {
                lists.push(format!("{base}/{}", text(&resource["name"])));
            }
        }
    }
    lists
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
