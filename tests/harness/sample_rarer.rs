//! The part of the [`super::sample`] with kinds that few clusters have objects
//! of.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

/// Returns collection paths and the object to create in each. Namespaced
/// objects go to `namespace`.
pub fn objects(namespace: &str) -> Vec<(String, Value)> {
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let resource = "/apis/resource.k8s.io/v1";
    let storage = "/apis/storage.k8s.io/v1";
    let namespaced = |base: &str| format!("{base}/namespaces/{namespace}");
    [
        policies(admission),
        webhooks(admission),
        devices(resource, &namespaced(resource)),
        volumes(storage, &namespaced(storage)),
        vec![signing_request()],
    ]
    .concat()
}

fn object(base: &str, resource: &str, kind: &str, name: &str, rest: Value) -> (String, Value) {
    let version = base.trim_start_matches("/apis/");
    let version = version.split("/namespaces/").next().unwrap_or(version);
    let mut object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": name, "labels": { "app": "sample" } },
    });
    if let (Some(into), Value::Object(from)) = (object.as_object_mut(), rest) {
        into.extend(from);
    }
    (format!("{base}/{resource}"), object)
}

/// Returns a rule for a group that nobody serves, so that the policies and
/// webhooks hold up nothing.
fn nowhere() -> Value {
    json!({
        "apiGroups": ["none.test"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["nothing"],
    })
}

fn policies(base: &str) -> Vec<(String, Value)> {
    let mutating = json!({ "spec": {
        "failurePolicy": "Ignore", "reinvocationPolicy": "Never",
        "matchConstraints": { "resourceRules": [nowhere()] },
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": { "expression": "Object{metadata: Object.metadata{labels: {\"a\": \"b\"}}}" },
        }],
    }});
    let binding = json!({ "spec": { "policyName": "sample" } });
    let validating_binding = json!({ "spec": {
        "policyName": "sample", "validationActions": ["Audit"],
        "paramRef": { "name": "x", "parameterNotFoundAction": "Allow" },
    }});
    vec![
        object(
            base,
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            "sample",
            mutating,
        ),
        object(
            base,
            "mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
            "sample",
            binding,
        ),
        object(
            base,
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            "sample",
            validating_binding,
        ),
    ]
}

fn webhooks(base: &str) -> Vec<(String, Value)> {
    let hook = json!({ "webhooks": [{
        "name": "sample.example.test", "sideEffects": "None", "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"], "rules": [nowhere()],
        "clientConfig": { "service": { "namespace": "none", "name": "none", "path": "/a" } },
    }]});
    vec![
        object(
            base,
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            "sample",
            hook.clone(),
        ),
        object(
            base,
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            "sample",
            hook,
        ),
    ]
}

fn devices(base: &str, namespaced: &str) -> Vec<(String, Value)> {
    let claim = json!({ "devices": { "requests": [{
        "name": "one", "exactly": { "deviceClassName": "sample", "count": 2 },
    }]}});
    let class = json!({ "spec": { "selectors": [{ "cel": { "expression": "device.driver == \"example.test\"" } }] } });
    let slice = json!({ "spec": {
        "driver": "example.test", "nodeName": "node-1",
        "pool": { "name": "pool", "generation": 1, "resourceSliceCount": 1 },
        "devices": [{
            "name": "gpu-0",
            "attributes": { "model": { "string": "a<b>" }, "cores": { "int": 9 }, "fast": { "bool": true } },
            "capacity": { "memory": { "value": "1.5Gi" } },
        }],
    }});
    vec![
        object(base, "deviceclasses", "DeviceClass", "sample", class),
        object(base, "resourceslices", "ResourceSlice", "sample", slice),
        object(
            namespaced,
            "resourceclaims",
            "ResourceClaim",
            "sample",
            json!({ "spec": claim }),
        ),
        object(
            namespaced,
            "resourceclaimtemplates",
            "ResourceClaimTemplate",
            "sample",
            json!({ "spec": { "metadata": { "labels": { "a": "b" } }, "spec": claim } }),
        ),
    ]
}

fn volumes(base: &str, namespaced: &str) -> Vec<(String, Value)> {
    let attachment = json!({ "spec": {
        "attacher": "example.test", "nodeName": "node-1",
        "source": { "persistentVolumeName": "sample" },
    }});
    let capacity = json!({
        "storageClassName": "sample", "capacity": "1.5Gi", "maximumVolumeSize": "100M",
        "nodeTopology": { "matchLabels": { "zone": "a" } },
    });
    let class = json!({ "driverName": "example.test", "parameters": { "iops": "5", "a": "1" } });
    vec![
        object(
            base,
            "volumeattachments",
            "VolumeAttachment",
            "sample",
            attachment,
        ),
        object(
            base,
            "volumeattributesclasses",
            "VolumeAttributesClass",
            "sample",
            class,
        ),
        object(
            namespaced,
            "csistoragecapacities",
            "CSIStorageCapacity",
            "sample",
            capacity,
        ),
    ]
}

fn signing_request() -> (String, Value) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    let name = &mut params.distinguished_name;
    name.push(rcgen::DnType::CommonName, "sample");
    let request = params.serialize_request(&key).expect("a request");
    let pem = request.pem().expect("PEM");
    object(
        "/apis/certificates.k8s.io/v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        "sample",
        json!({ "spec": {
            "request": STANDARD.encode(pem), "usages": ["client auth"], "expirationSeconds": 3600,
            "signerName": "kubernetes.io/kube-apiserver-client",
        }}),
    )
}
