//! Creates objects of many kinds, for comparisons in a cluster where nothing
//! changes. They are manifests in the folder `sample`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use super::client::Client;
use super::objects::{config_map, widget, widget_definition};
use super::release::{Release, tell_left_out};
use super::{eventually, manifests};

pub const NAMESPACE: &str = "sample";
pub const OTHER_NAMESPACE: &str = "sample-b";
pub const GROUP: &str = "sample.example.test";

const SOON: Duration = Duration::from_secs(30);

/// Creates the sample. On return, the API server's cache has all of it.
pub async fn create(admin: &Client) {
    for name in [NAMESPACE, OTHER_NAMESPACE] {
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { "app": "sample" } },
        });
        admin.post("/api/v1/namespaces", &body).await.expect(201);
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(definitions, &widget_definition(GROUP))
        .await
        .expect(201);
    let mut objects = objects();
    objects.retain(is_served);
    manifests::create(admin, &objects).await;
    let statuses = manifests::parse(include_str!("sample/pod_statuses.yaml"));
    manifests::patch_statuses(admin, &statuses).await;
    // This deletion waits for the node.
    let pod = format!("/api/v1/namespaces/{NAMESPACE}/pods/terminating");
    let path = format!("{pod}?gracePeriodSeconds=3600");
    admin.send(Method::DELETE, &path, &[], "").await.expect(200);
    widgets(admin).await;
}

async fn widgets(admin: &Client) {
    let widgets = format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets");
    eventually("widgets are served", SOON, || async {
        admin.get(&widgets).await.status == 200
    })
    .await;
    for (name, color, size) in [
        ("red", "red", 1),
        ("blue", "blue", 0),
        ("long", "long", 1 << 40),
    ] {
        admin
            .post(&widgets, &widget(GROUP, name, color, size))
            .await
            .expect(201);
    }
    // kube-apiserver rebuilds the document of group versions in steps.
    let discovery = format!("/apis/{GROUP}/v1");
    eventually("discovery is complete", SOON, || async {
        let groups = admin.get("/apis").await.text();
        groups.contains(GROUP) && admin.get(&discovery).await.status == 200
    })
    .await;
}

fn objects() -> Vec<Value> {
    let pods = manifests::parse(include_str!("sample/pods.yaml"));
    let pods = [NAMESPACE, OTHER_NAMESPACE].map(|namespace| {
        let mut pods = pods.clone();
        for pod in &mut pods {
            pod["metadata"]["namespace"] = json!(namespace);
        }
        pods
    });
    [
        pods.concat(),
        large_config_maps(),
        manifests::parse(include_str!("sample/objects.yaml")),
        manifests::parse(include_str!("sample/rare.yaml")),
        vec![signing_request(), trust_bundle()],
    ]
    .concat()
}

/// Tells whether the release under test has the object's kind, and reports it
/// if not.
fn is_served(object: &Value) -> bool {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let since = match (text("apiVersion"), text("kind")) {
        (
            "admissionregistration.k8s.io/v1",
            "MutatingAdmissionPolicy" | "MutatingAdmissionPolicyBinding",
        ) => 36,
        ("resource.k8s.io/v1", "DeviceTaintRule")
        | ("storagemigration.k8s.io/v1", _)
        | ("certificates.k8s.io/v1", "ClusterTrustBundle" | "PodCertificateRequest") => 37,
        ("resource.k8s.io/v1", _) | ("storage.k8s.io/v1", "VolumeAttributesClass") => 34,
        ("networking.k8s.io/v1", "IPAddress" | "ServiceCIDR") => 33,
        _ => 0,
    };
    if !Release::at_least(since) {
        tell_left_out(&format!("{} of the sample", text("kind")));
    }
    Release::at_least(since)
}

/// Makes enough text for answers of several megabytes.
fn large_config_maps() -> Vec<Value> {
    let of_number = |n: usize| {
        let text = format!("line {n} <html> & \"quotes\" \\ ü 日本 \u{2028}\t\n").repeat(160);
        let name = format!("large-{n:02}");
        let mut map = config_map(&name, json!({ "app": "sample" }), json!({ "text": text }));
        map["metadata"]["namespace"] = json!(NAMESPACE);
        map
    };
    (0..40).map(of_number).collect()
}

fn trust_bundle() -> Value {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate");
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle",
        "metadata": { "name": "sample", "labels": { "app": "sample" } },
        "spec": { "trustBundle": certificate.pem() },
    })
}

fn signing_request() -> Value {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    let name = &mut params.distinguished_name;
    name.push(rcgen::DnType::CommonName, "sample");
    let request = params.serialize_request(&key).expect("a request");
    let pem = request.pem().expect("PEM");
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "name": "sample", "labels": { "app": "sample" } },
        "spec": {
            "request": STANDARD.encode(pem), "usages": ["client auth"], "expirationSeconds": 3600,
            "signerName": "kubernetes.io/kube-apiserver-client",
        },
    })
}
