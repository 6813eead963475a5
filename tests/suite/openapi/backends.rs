//! Compares the sample API server's documents merged by apifront with those merged
//! by kube-apiserver. Their upstream is the same, before and after it has the same
//! APIServices.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{V2_PROTOBUF, V3_PROTOBUF};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare_bytes;
use crate::harness::twins::{NAMESPACE, Registration, SETTLES_WITHIN, configure, register};
use crate::harness::wardle::{GROUP, Wardle};
use crate::harness::{eventually, process};

/// Keys that both servers describe, but only one description is shown.
/// kube-aggregator shows the last one that it finds, apifront shows the upstream's.
const OF_EITHER: [&str; 2] = ["apis", "version"];

struct Documents {
    v2: Answer,
    v2_protobuf: Answer,
    /// The URL, the JSON and the protobuf of each key.
    v3: BTreeMap<String, (String, Answer, Answer)>,
}

async fn documents(client: &Client) -> Documents {
    let root = client.get("/openapi/v3").await.expect(200);
    let mut v3 = BTreeMap::new();
    for (key, item) in root["paths"].as_object().expect("paths") {
        let url = item["serverRelativeURL"].as_str().expect("a URL");
        if !OF_EITHER.contains(&key.as_str()) {
            let json = client.get(url).await;
            let protobuf = client.get_as(url, V3_PROTOBUF).await;
            v3.insert(key.clone(), (url.to_owned(), json, protobuf));
        }
    }
    Documents {
        v2: client.get("/openapi/v2").await,
        v2_protobuf: client.get_as("/openapi/v2", V2_PROTOBUF).await,
        v3,
    }
}

#[track_caller]
fn same(what: &str, direct: &Answer, front: &Answer) {
    assert_eq!(direct.status, 200, "{what}");
    assert_eq!(front.status, 200, "{what}");
    for header in [
        "content-type",
        "etag",
        "vary",
        "cache-control",
        "accept-ranges",
    ] {
        let values = |answer: &Answer| -> Vec<String> {
            let values = answer.headers.get_all(header).iter();
            values.map(|v| format!("{v:?}")).collect()
        };
        assert_eq!(values(front), values(direct), "{what}: {header}");
    }
    assert!(
        front.body == direct.body,
        "{what}\n{}",
        compare_bytes(&direct.body, &front.body)
    );
}

async fn shows_both_versions(client: &Client) {
    eventually(
        "both versions are described",
        SETTLES_WITHIN * 3,
        || async {
            let root = client.get("/openapi/v3").await.text();
            let v2 = client.get("/openapi/v2").await.text();
            ["v1alpha1", "v1beta1"].iter().all(|version| {
                root.contains(&format!("apis/{GROUP}/{version}"))
                    && v2.contains(&format!("/apis/{GROUP}/{version}/"))
            })
        },
    )
    .await;
}

#[tokio::test]
async fn merged_documents_are_kube_aggregators() {
    skip_under_oracle!("kube-aggregator is what the documents are compared with");
    let cluster = Cluster::leased(&[]).await;
    let direct = cluster.admin_client();
    let serving = cluster.certificates.serving_for(
        "extensions",
        &[&format!("*.{NAMESPACE}.svc"), "localhost", "127.0.0.1"],
    );
    let wardle = Wardle::start(&cluster, &serving, &cluster.certificates.front_proxy.cert).await;
    let registered = ["v1alpha1", "v1beta1"].map(|version| {
        Registration::new(GROUP, version, "wardle", wardle.port).trust(cluster.ca())
    });
    let manifests = process::temporary_folder("openapi");
    let front = Apifront::start(&cluster, |config| {
        configure(config, &manifests, &registered)
    })
    .await;
    let client = front.admin_client();
    shows_both_versions(&client).await;
    let ours = documents(&client).await;

    let namespace: Value =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    direct
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    for registration in &registered {
        register(&direct, registration).await;
    }
    shows_both_versions(&direct).await;
    let theirs = documents(&direct).await;

    same("v2", &theirs.v2, &ours.v2);
    same("v2 in protobuf", &theirs.v2_protobuf, &ours.v2_protobuf);
    let urls = |documents: &Documents| -> Vec<String> {
        documents.v3.values().map(|(url, ..)| url.clone()).collect()
    };
    assert_eq!(urls(&ours), urls(&theirs));
    for (key, (_, json, protobuf)) in &theirs.v3 {
        let (_, our_json, our_protobuf) = &ours.v3[key];
        same(key, json, our_json);
        same(key, protobuf, our_protobuf);
    }

    // Now the upstream has the APIServices, too. apifront's take precedence, and the
    // documents stay the same.
    let again = documents(&client).await;
    same("v2, known to both", &theirs.v2, &again.v2);
    assert_eq!(urls(&again), urls(&theirs));
}
