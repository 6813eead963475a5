//! Makes a cluster read-only, so that tests can compare all of its objects.

use std::time::Duration;

use serde_json::json;

use super::client::Client;
use super::eventually;

const NAME: &str = "read-only";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// From now on the API server refuses each write of a test. It accepts dry runs, which
/// store nothing, and goes on with writes of its own.
pub(crate) async fn make(admin: &Client) {
    let message = "this cluster is only read, as tests compare all of its objects: \
                   write to Cluster::shared(), or lease a cluster";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": NAME },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*/*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }] },
            "matchConditions": [
                { "name": "stores", "expression": "request.dryRun != true" },
                {
                    "name": "of-a-test",
                    "expression": "request.userInfo.username != 'system:apiserver'",
                },
            ],
            "validations": [{ "expression": "false", "message": message }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": NAME },
        "spec": { "policyName": NAME, "validationActions": ["Deny"] },
    });
    admin.post(POLICIES, &policy).await.expect(201);
    admin.post(BINDINGS, &binding).await.expect(201);
    // A patch that changes nothing is no write, but is asked about like one.
    let patch = json!({ "metadata": { "labels": null } });
    eventually(
        "the cluster is read-only",
        Duration::from_secs(30),
        || async {
            let path = "/api/v1/namespaces/default";
            let answer = admin.patch(path, "merge-patch+json", &patch).await;
            answer.text().contains(message)
        },
    )
    .await;
}
