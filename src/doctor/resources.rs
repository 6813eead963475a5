//! Which resources will be answered from memory, and which will be forwarded, wholly
//! or in part?

use std::collections::BTreeSet;
use std::sync::Arc;

use apifront_upstream::Upstream;
use apifront_watch_cache::reflector::{Diagnosis, diagnose};
use futures::StreamExt;
use futures::stream;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use serde_json::Value;

use super::client::Client;
use super::rights::names;
use super::{Finding, Section};
use crate::config::Config;

const SECTION: Section = Section::Resources;

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const AT_ONCE: usize = 8;

/// Returns the resources that can be listed and watched, in each group's preferred
/// version, or the reason why they are unknown.
pub(super) async fn discover(client: &Client) -> Result<Vec<GroupVersionResource>, String> {
    let mut found = Vec::new();
    for path in ["/api", "/apis"] {
        let answer = client.get_as(path, DISCOVERY).await?;
        let groups = answer.json();
        let groups = groups
            .as_ref()
            .and_then(|list| list.get("items")?.as_array());
        let groups = groups.ok_or_else(|| format!("{path}: {}", answer.error()))?;
        found.extend(groups.iter().filter_map(of_group).flatten());
    }
    Ok(found)
}

fn of_group(group: &Value) -> Option<Vec<GroupVersionResource>> {
    let name = group.get("metadata").and_then(|m| m.get("name")?.as_str());
    let name = name.unwrap_or_default();
    let preferred = group.get("versions")?.as_array()?.first()?;
    let version = preferred.get("version")?.as_str()?;
    let resources = preferred.get("resources")?.as_array()?.iter();
    let watchable = resources.filter(|resource| {
        let verbs = resource.get("verbs").and_then(Value::as_array);
        verbs.is_some_and(|verbs| {
            ["list", "watch"]
                .iter()
                .all(|v| verbs.contains(&(*v).into()))
        })
    });
    let names = watchable.filter_map(|resource| resource.get("resource")?.as_str());
    let found = names.map(|resource| GroupVersionResource::new(name, version, resource));
    Some(found.collect())
}

/// Examines the resources by one object of each. `remote` are the group versions
/// that the API server does not serve itself.
pub(super) async fn examine(
    upstream: &Arc<Upstream>,
    config: &Config,
    resources: &[GroupVersionResource],
    remote: &BTreeSet<GroupVersion>,
) -> Vec<Finding> {
    let shown = &config.apis.runtime_config;
    let (cached, excluded): (Vec<_>, Vec<_>) = resources
        .iter()
        .partition(|gvr| config.cache.caches(gvr) && shown.is_resource_enabled(gvr));
    let mut findings = Vec::new();
    if !excluded.is_empty() {
        let names = names(excluded.iter().map(|gvr| gvr.group_resource().to_string()));
        let found = format!("{names}, as cache.include, cache.exclude or apis.runtimeConfig say");
        findings.push(Finding::neutral(SECTION, "not cached", found));
    }
    let (forwarded, cached): (Vec<_>, Vec<_>) = cached
        .into_iter()
        .partition(|gvr| remote.contains(&gvr.group_version()) && !config.cache.trusts(gvr));
    if !forwarded.is_empty() {
        let names = names(forwarded.iter().map(|gvr| gvr.group_resource().to_string()));
        let found = format!("{names}: their server may show each caller something else");
        let remedy = "name them in cache.aggregated if it shows every caller who may list all \
                      objects the same";
        findings.push(Finding::neutral(SECTION, "forwarded", found).mended_by(remedy));
    }
    let examined = cached
        .iter()
        .map(|gvr| async move { (*gvr, diagnose(&**upstream, gvr).await) });
    let examined: Vec<_> = stream::iter(examined).buffered(AT_ONCE).collect().await;
    let whole = examined
        .iter()
        .filter(|(_, d)| d.is_answered_whole())
        .count();
    let subject = "answered from memory";
    let found = format!("{whole} of {} resources in all forms", examined.len());
    findings.push(match whole {
        0 => Finding::neutral(SECTION, subject, found),
        _ => Finding::good(SECTION, subject, found),
    });
    findings.extend(
        examined
            .iter()
            .flat_map(|(gvr, diagnosis)| partly(gvr, diagnosis)),
    );
    findings
}

fn partly(gvr: &GroupVersionResource, diagnosis: &Diagnosis) -> Vec<Finding> {
    let subject = gvr.group_resource().to_string();
    diagnosis
        .limits()
        .map(|limit| Finding::neutral(SECTION, subject.clone(), limit.to_string()))
        .collect()
}
