//! Checks one APIService manifest, as kube-apiserver does (kube-aggregator,
//! `validation/validation.go`).

use std::path::Path;

use base64::Engine;
use kubernetes_wire::api::GroupVersion;
use kubernetes_wire::api::dns_name::is_dns_label;
use serde::Deserialize;
use serde_json::Value;

use crate::aggregation::{ApiService, ServiceReference};

const API_VERSION: &str = "apiregistration.k8s.io/v1";
/// The port of a service whose manifest names none.
const DEFAULT_PORT: u16 = 443;

#[derive(Deserialize)]
pub(super) struct Object {
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    pub(super) items: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    service: Option<RawService>,
    group: Option<String>,
    version: Option<String>,
    #[serde(rename = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
    ca_bundle: Option<String>,
    group_priority_minimum: i64,
    version_priority: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawService {
    namespace: String,
    name: String,
    port: Option<i64>,
}

/// `None` after a problem was reported.
pub(super) fn checked(
    object: Object,
    manifest: Value,
    file: &Path,
    problem: &mut dyn FnMut(&str, &str),
) -> Option<ApiService> {
    let mut fine = true;
    let mut wrong = |field: &str, why: &str| {
        fine = false;
        problem(field, why);
    };
    if object.api_version != API_VERSION {
        wrong("apiVersion", &format!("must be {API_VERSION}"));
    }
    let spec = object.spec;
    let group_version = group_version(&spec, &mut wrong);
    let name = format!("{}.{}", group_version.version, group_version.group);
    if object.metadata.name != name {
        wrong(
            "metadata.name",
            &format!("must be spec.version + \".\" + spec.group: {name}"),
        );
    }
    let mut priority = |field: &str, value: i64, most: i32| match i32::try_from(value) {
        Ok(n) if (1..=most).contains(&n) => n,
        _ => {
            wrong(field, &format!("must be between 1 and {most}"));
            0
        }
    };
    let group_priority_minimum = priority(
        "spec.groupPriorityMinimum",
        spec.group_priority_minimum,
        20_000,
    );
    let version_priority = priority("spec.versionPriority", spec.version_priority, 1_000);
    let ca_bundle = ca_bundle(&spec, &mut wrong);
    let service = spec.service.map(|raw| service(raw, &mut wrong));
    fine.then(|| ApiService {
        name,
        group_version,
        service,
        ca_bundle,
        insecure_skip_tls_verify: spec.insecure_skip_tls_verify,
        group_priority_minimum,
        version_priority,
        manifest,
        file: file.to_owned(),
    })
}

fn group_version(spec: &Spec, wrong: &mut dyn FnMut(&str, &str)) -> GroupVersion {
    let group = spec.group.clone().unwrap_or_default();
    let version = spec.version.clone().unwrap_or_default();
    if version.is_empty() {
        wrong("spec.version", "needed");
    } else if !is_dns_label(&version) {
        wrong("spec.version", "must be a DNS label like v1beta1");
    }
    if group.is_empty() && version != "v1" {
        wrong("spec.group", "needed: only v1 may have an empty group");
    } else if !group.is_empty() && !group.split('.').all(is_dns_label) {
        wrong("spec.group", "must be a DNS name");
    }
    GroupVersion { group, version }
}

/// Returns the CA bundle for the service's certificate. Also checks the other fields
/// of the spec about that certificate.
fn ca_bundle(spec: &Spec, wrong: &mut dyn FnMut(&str, &str)) -> Vec<u8> {
    let bundle = match spec.ca_bundle.as_deref().map(decode) {
        None => Vec::new(),
        Some(Ok(pem)) => pem,
        Some(Err(why)) => {
            wrong("spec.caBundle", why);
            Vec::new()
        }
    };
    if spec.insecure_skip_tls_verify && !bundle.is_empty() {
        wrong(
            "spec.insecureSkipTLSVerify",
            "may not be true if caBundle is present",
        );
    }
    if spec.service.is_none() {
        if !bundle.is_empty() {
            wrong("spec.caBundle", "a local APIService may not have one");
        }
        if spec.insecure_skip_tls_verify {
            wrong(
                "spec.insecureSkipTLSVerify",
                "a local APIService may not have it",
            );
        }
    }
    bundle
}

fn service(raw: RawService, wrong: &mut dyn FnMut(&str, &str)) -> ServiceReference {
    if !raw.namespace.split('.').all(is_dns_label) {
        wrong("spec.service.namespace", "needed, a DNS label");
    }
    if !raw.name.split('.').all(is_dns_label) {
        wrong("spec.service.name", "needed, a DNS label");
    }
    let port = match raw.port.map(u16::try_from) {
        None => DEFAULT_PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => {
            wrong("spec.service.port", "must be between 1 and 65535");
            DEFAULT_PORT
        }
    };
    ServiceReference {
        namespace: raw.namespace,
        name: raw.name,
        port,
    }
}

fn decode(text: &str) -> Result<Vec<u8>, &'static str> {
    let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|_| "must be base64")
}
