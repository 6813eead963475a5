//! Tests kubectl's use of the documents.

use crate::harness::apifront::Apifront;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::kubectl::Both;
use crate::kubectl::both;

#[tokio::test]
async fn explain() {
    let both = both(Cluster::quiet(), Apifront::quiet());
    for arguments in [
        &["pods", "--recursive"][..],
        &["deployments.apps", "--recursive"],
        &["deployments.spec.template.spec.containers"],
        &["customresourcedefinitions", "--recursive"],
        &["apiservices"],
        &["cronjobs", "--api-version=batch/v1", "--recursive"],
        &["pods.spec.nothing"],
        &["nothing"],
        &["pods", "--output=plaintext-openapiv2"],
    ] {
        let mut command = vec!["explain"];
        command.extend_from_slice(arguments);
        both.must_be_same(&command).await;
    }
}

/// The documents tell kubectl whether the server validates fields. With
/// `--validate=strict` it reports the server's findings.
#[tokio::test]
async fn validation() {
    let Both { direct, front, .. } = both(Cluster::quiet(), Apifront::quiet());
    let name = unique("unknown-field");
    let wrong = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default}}, dta: {{a: b}}}}"
    );
    for validate in ["strict", "warn", "ignore"] {
        let validate = format!("--validate={validate}");
        let command = ["create", "--dry-run=server", validate.as_str(), "-f", "-"];
        let d = direct.run_with_input(&command, &wrong).await;
        let f = front.run_with_input(&command, &wrong).await;
        assert_eq!(f, d, "{command:?}");
    }
}
