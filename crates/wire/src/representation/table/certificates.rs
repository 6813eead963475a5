//! Certificate signing requests and pod certificate requests.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde::Deserialize;

use super::NotPrintable;
use super::age::human_duration;
use super::meta::{Object, nullable};
use super::row::{Cell, Row};
use super::selector::format_labels;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    signer_name: String,
    username: String,
    expiration_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    certificate: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
}

impl Status {
    fn has(&self, r#type: &str) -> bool {
        self.conditions.iter().any(|c| c.r#type == r#type)
    }

    fn text(&self) -> String {
        let decision = if self.has("Denied") {
            "Denied"
        } else if self.has("Approved") {
            "Approved"
        } else {
            "Pending"
        };
        let failed = if self.has("Failed") { ",Failed" } else { "" };
        let issued = match self.certificate.as_str() {
            "" => "",
            _ => ",Issued",
        };
        format!("{decision}{failed}{issued}")
    }
}

pub(crate) fn print_signing_request(object: &[u8]) -> Result<Row, NotPrintable> {
    let request: Object<Spec, Status> = serde_json::from_slice(object)?;
    let spec = &request.spec;
    let signer = match spec.signer_name.as_str() {
        "" => "<none>",
        signer => signer,
    };
    let duration = match spec.expiration_seconds {
        None => Cell::text("<none>"),
        Some(seconds) => {
            let duration = TimeDelta::try_seconds(seconds).ok_or(NotPrintable)?;
            Cell::text(human_duration(duration).as_str())
        }
    };
    Ok(Row::new(vec![
        Cell::text(&request.metadata.name),
        request.metadata.age(),
        Cell::text(signer),
        Cell::text(&spec.username),
        duration,
        Cell::text(&request.status.text()),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    pod_name: String,
    service_account_name: String,
    node_name: String,
    signer_name: String,
    #[serde(deserialize_with = "nullable")]
    unverified_user_annotations: BTreeMap<String, String>,
}

pub(crate) fn print_pod_request(object: &[u8]) -> Result<Row, NotPrintable> {
    let request: Object<PodSpec, Status> = serde_json::from_slice(object)?;
    let spec = &request.spec;
    let decided = ["Issued", "Denied", "Failed"];
    let state = request
        .status
        .conditions
        .iter()
        .rfind(|c| decided.contains(&c.r#type.as_str()))
        .map_or("Pending", |c| &c.r#type);
    Ok(Row::new(vec![
        Cell::text(&request.metadata.name),
        Cell::text(&spec.pod_name),
        Cell::text(&spec.service_account_name),
        Cell::text(&spec.node_name),
        Cell::text(&spec.signer_name),
        Cell::text(state),
        Cell::text(&format_labels(&spec.unverified_user_annotations)),
    ]))
}
