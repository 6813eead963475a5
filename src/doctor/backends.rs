//! Do the servers of registered API groups answer: those that the configuration
//! names, and those behind the API server?

use std::collections::BTreeSet;
use std::time::Duration;

use kubernetes_wire::api::GroupVersion;
use serde_json::Value;

use super::client::Client;
use super::{Finding, Section};
use crate::aggregation::{Aggregation, AvailabilityMetrics, Reason};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::server;

const SECTION: Section = Section::Backends;
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// A check makes five attempts at the same time, of 5 s each.
const CHECKED_WITHIN: Duration = Duration::from_secs(8);

pub(super) async fn configured(config: &Config, metrics: &Metrics) -> Vec<Finding> {
    let prepared = match server::backends(config, metrics) {
        Ok(prepared) => prepared,
        Err(error) => {
            let finding = Finding::fault(SECTION, "aggregation", error.to_string());
            return vec![finding.mended_by("correct the field that the text names")];
        }
    };
    let availability = match AvailabilityMetrics::register(&prometheus::Registry::new()) {
        Ok(availability) => availability,
        Err(error) => return vec![Finding::fault(SECTION, "aggregation", error.to_string())],
    };
    let aggregation = prepared.apply(&Aggregation::default(), &availability);
    let mut findings = Vec::new();
    for registered in aggregation.registered() {
        let name = registered.service.name.as_str();
        let Some(remote) = &registered.remote else {
            findings.push(Finding::good(
                SECTION,
                name,
                "served by the API servers themselves",
            ));
            continue;
        };
        let mut changes = remote.availability.subscribe();
        let checked = changes.wait_for(|condition| condition.reason != Reason::Unchecked);
        let checked = tokio::time::timeout(CHECKED_WITHIN, checked).await;
        let backend = &remote.backend.name;
        findings.push(match checked {
            Ok(Ok(condition)) if condition.is_true() => {
                Finding::good(SECTION, name, format!("{backend} answers"))
            }
            Ok(Ok(condition)) => {
                let found = format!("{backend} does not: {}", condition.message);
                let remedy = "start the backend, or correct aggregation.backends (servers, \
                              serverName) and the APIService's caBundle; it must trust \
                              identity.proxyClientCertFile";
                Finding::fault(SECTION, name, found).mended_by(remedy)
            }
            _ => Finding::fault(SECTION, name, format!("{backend}: no answer in time"))
                .mended_by("start the backend, or correct aggregation.backends"),
        });
    }
    findings
}

/// Returns the APIServices of the cluster, or the reason why they are unknown.
pub(super) async fn api_services(client: &Client) -> Result<Vec<Value>, String> {
    let answer = client.get(API_SERVICES).await?;
    let listed = answer.json().filter(|_| answer.status.is_success());
    let listed = listed.ok_or_else(|| answer.error())?;
    let items = listed.get("items").and_then(Value::as_array);
    items.cloned().ok_or_else(|| "there is no list".to_owned())
}

/// Returns the group versions that the API server does not serve itself.
pub(super) fn remote(api_services: &Result<Vec<Value>, String>) -> BTreeSet<GroupVersion> {
    let items = api_services.iter().flatten();
    let group_version = |item: &Value| {
        let spec = item.get("spec")?;
        let text = |field: &str| Some(spec.get(field)?.as_str()?.to_owned());
        Some(GroupVersion {
            group: text("group").unwrap_or_default(),
            version: text("version")?,
        })
    };
    let remote = items.filter(|item| is_remote(item));
    remote.filter_map(group_version).collect()
}

fn is_remote(api_service: &Value) -> bool {
    let service = api_service.get("spec").and_then(|spec| spec.get("service"));
    service.is_some_and(|service| !service.is_null())
}

/// Examines the cluster's APIServices whose groups the API server does not serve
/// itself.
pub(super) fn of_the_cluster(api_services: &Result<Vec<Value>, String>) -> Vec<Finding> {
    let items = match api_services {
        Ok(items) => items,
        Err(why) => {
            let subject = "APIServices of the cluster";
            let found = format!("cannot be listed, so custom resources are forwarded: {why}");
            let remedy = "allow apifront's user to list and watch apiservices: apply \
                          examples/cluster/rbac.yaml";
            return vec![Finding::neutral(SECTION, subject, found).mended_by(remedy)];
        }
    };
    let remote = items.iter().filter(|item| is_remote(item));
    let findings: Vec<Finding> = remote.filter_map(of_item).collect();
    if findings.is_empty() {
        let found = "all are served by the API server itself";
        return vec![Finding::good(SECTION, "APIServices of the cluster", found)];
    }
    findings
}

fn of_item(item: &Value) -> Option<Finding> {
    let name = item.get("metadata")?.get("name")?.as_str()?;
    let conditions = item
        .get("status")
        .and_then(|status| status.get("conditions")?.as_array());
    let available = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Available"));
    let text = |field: &str| Some(available?.get(field)?.as_str()?.to_owned());
    if text("status").as_deref() == Some("True") {
        return Some(Finding::good(SECTION, name, "available upstream"));
    }
    let message = text("message").unwrap_or_else(|| "no condition".to_owned());
    let remedy = "it fails without apifront too: see its pods and its Service";
    let found = format!("not available upstream: {message}");
    Some(Finding::neutral(SECTION, name, found).mended_by(remedy))
}
