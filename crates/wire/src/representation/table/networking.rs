//! Ingresses, ingress classes, network policies and IP addresses.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::NotPrintable;
use super::meta::{Meta, Object, lower, nullable};
use super::row::{Cell, Row};
use super::selector::{Selector, format_selector};

/// The number of hosts that a cell lists before it counts the rest.
const SHOWN_HOSTS: usize = 3;

const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IngressSpec {
    ingress_class_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    rules: Vec<Rule>,
    #[serde(deserialize_with = "nullable")]
    tls: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Rule {
    host: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IngressStatus {
    load_balancer: LoadBalancer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    #[serde(deserialize_with = "nullable")]
    ingress: Vec<Address>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    ip: String,
    hostname: String,
}

pub(crate) fn print_ingress(object: &[u8]) -> Result<Row, NotPrintable> {
    let ingress: Object<IngressSpec, IngressStatus> = serde_json::from_slice(object)?;
    let spec = &ingress.spec;
    let addresses: BTreeSet<&str> = ingress
        .status
        .load_balancer
        .ingress
        .iter()
        .map(|a| if a.ip.is_empty() { &a.hostname } else { &a.ip })
        .filter(|address| !address.is_empty())
        .map(String::as_str)
        .collect();
    let addresses: Vec<&str> = addresses.into_iter().collect();
    let ports = if spec.tls.is_empty() { "80" } else { "80, 443" };
    Ok(Row::new(vec![
        Cell::text(&ingress.metadata.name),
        Cell::text(spec.ingress_class_name.as_deref().unwrap_or("<none>")),
        Cell::text(&hosts(&spec.rules)),
        Cell::text(&addresses.join(",")),
        Cell::text(ports),
        ingress.metadata.age(),
    ]))
}

/// Lists the first hosts. Once the list is full, any further rule, with or without
/// a host, makes the cell end with the number of rules less the limit.
fn hosts(rules: &[Rule]) -> String {
    let mut shown = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == SHOWN_HOSTS;
        if !more && !rule.host.is_empty() {
            shown.push(rule.host.as_str());
        }
    }
    if shown.is_empty() {
        return "*".to_owned();
    }
    let hosts = shown.join(",");
    if more {
        let others = rules.len().saturating_sub(SHOWN_HOSTS);
        format!("{hosts} + {others} more...")
    } else {
        hosts
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClassSpec {
    controller: String,
    parameters: Option<Parameters>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Parameters {
    api_group: Option<String>,
    kind: String,
    name: String,
}

pub(crate) fn print_ingress_class(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(class_row(&serde_json::from_slice(object)?))
}

/// Prints an ingress class as releases before 1.36 do, without marking the
/// default class.
pub(super) fn print_ingress_class_before_1_36(object: &[u8]) -> Result<Row, NotPrintable> {
    let mut class: IngressClass = serde_json::from_slice(object)?;
    class.metadata.annotations.clear();
    Ok(class_row(&class))
}

type IngressClass = Object<ClassSpec, serde::de::IgnoredAny>;

fn class_row(class: &IngressClass) -> Row {
    let is_default = class
        .metadata
        .annotations
        .get(DEFAULT_CLASS_ANNOTATION)
        .is_some_and(|value| value == "true");
    let suffix = if is_default { " (default)" } else { "" };
    let parameters = match &class.spec.parameters {
        None => "<none>".to_owned(),
        Some(p) => match &p.api_group {
            Some(group) => format!("{}.{group}/{}", p.kind, p.name),
            None => format!("{}/{}", p.kind, p.name),
        },
    };
    Row::new(vec![
        Cell::text(&format!("{}{suffix}", class.metadata.name)),
        Cell::text(&class.spec.controller),
        Cell::text(&parameters),
        class.metadata.age(),
    ])
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NetworkPolicy {
    metadata: Meta,
    spec: PolicySpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicySpec {
    #[serde(deserialize_with = "nullable")]
    pod_selector: Selector,
}

pub(crate) fn print_network_policy(object: &[u8]) -> Result<Row, NotPrintable> {
    let policy: NetworkPolicy = serde_json::from_slice(object)?;
    Ok(Row::new(vec![
        Cell::text(&policy.metadata.name),
        Cell::text(&format_selector(Some(&policy.spec.pod_selector))?),
        policy.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AddressSpec {
    parent_ref: Option<Parent>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parent {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

pub(crate) fn print_ip_address(object: &[u8]) -> Result<Row, NotPrintable> {
    let address: Object<AddressSpec, serde::de::IgnoredAny> = serde_json::from_slice(object)?;
    let parent = match &address.spec.parent_ref {
        None => "<none>".to_owned(),
        Some(parent) => {
            let resource = match parent.group.as_str() {
                "" => parent.resource.clone(),
                group => format!("{}.{group}", parent.resource),
            };
            let namespace = match parent.namespace.as_str() {
                "" => String::new(),
                namespace => format!("/{namespace}"),
            };
            format!("{}{namespace}/{}", lower(&resource)?, parent.name)
        }
    };
    // There is no column for the age.
    Ok(Row::new(vec![
        Cell::text(&address.metadata.name),
        Cell::text(&parent),
        address.metadata.age(),
    ]))
}
