//! `k8s.io/sample-apiserver`'s flunders and fischers.

use crate::harness::twins::WardleTwins;

#[tokio::test]
async fn discovery_of_the_version_is_the_backends() {
    let twins = &WardleTwins::shared().twins;
    let mut both = twins.differential();
    for version in ["v1alpha1", "v1beta1"] {
        both.get(&format!("/apis/wardle.example.com/{version}"))
            .await;
    }
    both.finish();
}
