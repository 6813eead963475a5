//! Extension API servers may answer each caller differently. An answer to one caller
//! is never kept for another, unless the owner says that the server answers all
//! alike.

use http::Method;
use serde_json::json;

use super::HOSTILE;
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::process;
use crate::harness::twins::{Registration, WardleTwins, configure};
use crate::harness::wardle;

const READS: [&str; 6] = [
    "",
    "?resourceVersion=0",
    "?resourceVersion=0&limit=1",
    "?limit=1",
    "/none?resourceVersion=0",
    "?watch=1&resourceVersion=0&timeoutSeconds=1",
];

/// Asks everything twice: if the first question filled the cache, that would answer
/// the second.
async fn reads_are_forwarded(both: &mut Differential, flunders: &str) {
    for _ in 0..2 {
        for read in READS {
            let question = both.expect(Expect::Bypass("aggregated"));
            question.get(&format!("{flunders}{read}")).await;
        }
    }
}

fn flunders(namespace: &str) -> String {
    let group = wardle::GROUP;
    format!("/apis/{group}/v1alpha1/namespaces/{namespace}/flunders")
}

#[tokio::test]
async fn a_group_of_the_clusters_aggregator_is_forwarded() {
    skip_under_oracle!("kube-apiserver has no cache of other servers' objects");
    let twins = &WardleTwins::shared().twins;
    let front = Apifront::start(&twins.oracle, |_| {}).await;
    let mut both = Differential::new(twins.direct_client(), front.admin_client());
    // apifront knows the APIServices by the time it would answer for a custom
    // resource.
    both.warm("/apis/apps/v1/deployments?resourceVersion=0")
        .await;
    reads_are_forwarded(&mut both, &flunders("default")).await;
    let hit = both.expect(Expect::Hit);
    hit.get("/apis/apps/v1/deployments?resourceVersion=0").await;
    both.finish();
    front.stop().await;
}

/// The owner has said that this server answers all alike.
#[tokio::test]
async fn a_group_that_is_named_is_cached() {
    skip_under_oracle!("kube-apiserver has no cache of other servers' objects");
    let twins = &WardleTwins::shared().twins;
    let front = Apifront::start(&twins.oracle, |config| {
        config["cache"]["aggregated"] = json!([format!("*.{}", wardle::GROUP)]);
    })
    .await;
    let client = front.admin_client();
    let list = format!("{}?resourceVersion=0", flunders("default"));
    front.warm(&client, &list).await;
    let hit = client.send(Method::GET, &list, &[DEBUG], "").await;
    assert_eq!(Expect::Hit.unmet(&hit), "");
    assert_eq!(hit.json()["kind"], "FlunderList");
    front.stop().await;
}

/// The group is behind an APIService in apifront's configuration.
#[tokio::test]
async fn a_group_of_the_configuration_is_forwarded() {
    skip_under_oracle!("kube-apiserver has no cache of other servers' objects");
    let wardle = WardleTwins::shared();
    let registration = Registration::new(wardle::GROUP, "v1alpha1", "wardle", wardle.wardle.port);
    let registered = [registration.trust(wardle.twins.oracle.ca())];
    let folder = process::temporary_folder("by-caller");
    let manifests = folder.join("apiservices");
    std::fs::create_dir_all(&manifests).expect("a folder");
    let front = Apifront::start(Cluster::shared(), |config| {
        config["cache"]["aggregated"] = json!([format!("*.{HOSTILE}")]);
        configure(config, &manifests, &registered);
    })
    .await;
    let name = format!("v1alpha1.{}", wardle::GROUP);
    crate::harness::twins::settled(&front.admin_client(), &name, true).await;
    let namespace = wardle.namespace("by-caller").await;
    let direct = wardle.twins.direct_client();
    let mut both = Differential::new(direct, front.admin_client());
    reads_are_forwarded(&mut both, &flunders(&namespace)).await;
    both.finish();
    front.stop().await;
}
