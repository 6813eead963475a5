//! Services, endpoints and endpoint slices.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::NotPrintable;
use super::meta::{Meta, Object, nullable};
use super::row::{Cell, Row};
use super::selector::format_labels;

/// The number of addresses or ports that a cell lists before it counts the
/// rest.
const MAX_SHOWN_ITEMS: usize = 3;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    r#type: String,
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    cluster_ips: Vec<String>,
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    external_ips: Vec<String>,
    external_name: String,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<Port>,
    #[serde(deserialize_with = "nullable")]
    selector: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    port: i64,
    node_port: i64,
    protocol: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    load_balancer: LoadBalancer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    #[serde(deserialize_with = "nullable")]
    ingress: Vec<Ingress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ingress {
    ip: String,
    hostname: String,
}

pub(crate) fn print_service(object: &[u8]) -> Result<Row, NotPrintable> {
    let service: Object<Spec, Status> = serde_json::from_slice(object)?;
    let spec = &service.spec;
    let cluster_ip = spec.cluster_ips.first().map_or("<none>", String::as_str);
    Ok(Row::new(vec![
        Cell::text(&service.metadata.name),
        Cell::text(&spec.r#type),
        Cell::text(cluster_ip),
        Cell::text(&external_ip(&service)),
        Cell::text(&ports(&spec.ports)),
        service.metadata.age(),
        Cell::text(&format_labels(&spec.selector)),
    ]))
}

fn external_ip(service: &Object<Spec, Status>) -> String {
    let spec = &service.spec;
    match spec.r#type.as_str() {
        "ClusterIP" | "NodePort" if spec.external_ips.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => spec.external_ips.join(","),
        "LoadBalancer" => {
            let assigned: BTreeSet<&str> = service
                .status
                .load_balancer
                .ingress
                .iter()
                .map(|i| if i.ip.is_empty() { &i.hostname } else { &i.ip })
                .filter(|address| !address.is_empty())
                .map(String::as_str)
                .collect();
            let external = spec.external_ips.iter().map(String::as_str);
            let all: Vec<&str> = assigned.into_iter().chain(external).collect();
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        "ExternalName" => spec.external_name.clone(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(ports: &[Port]) -> String {
    if ports.is_empty() {
        return "<none>".to_owned();
    }
    let texts: Vec<String> = ports
        .iter()
        .map(|p| match p.node_port {
            1.. => format!("{}:{}/{}", p.port, p.node_port, p.protocol),
            _ => format!("{}/{}", p.port, p.protocol),
        })
        .collect();
    texts.join(",")
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Endpoints {
    metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    subsets: Vec<Subset>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subset {
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<Address>,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<Port>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    ip: String,
}

pub(crate) fn print_endpoints(object: &[u8]) -> Result<Row, NotPrintable> {
    let endpoints: Endpoints = serde_json::from_slice(object)?;
    let mut all = Vec::new();
    for subset in &endpoints.subsets {
        // Headless services may have no ports.
        if subset.ports.is_empty() {
            all.extend(subset.addresses.iter().map(|a| a.ip.clone()));
        }
        for port in &subset.ports {
            all.extend(subset.addresses.iter().map(|a| host_port(&a.ip, port.port)));
        }
    }
    let shown = if endpoints.subsets.is_empty() {
        "<none>".to_owned()
    } else {
        shorten(&all)
    };
    Ok(Row::new(vec![
        Cell::text(&endpoints.metadata.name),
        Cell::text(&shown),
        endpoints.metadata.age(),
    ]))
}

/// Like Go's `net.JoinHostPort`.
fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

fn shorten(all: &[String]) -> String {
    let shown: Vec<&str> = all
        .iter()
        .take(MAX_SHOWN_ITEMS)
        .map(String::as_str)
        .collect();
    let shown = shown.join(",");
    match all.len().checked_sub(MAX_SHOWN_ITEMS) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} + {more} more..."),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndpointSlice {
    metadata: Meta,
    address_type: String,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<EndpointPort>,
    #[serde(deserialize_with = "nullable")]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EndpointPort {
    name: Option<String>,
    port: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Endpoint {
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<String>,
}

pub(crate) fn print_endpoint_slice(object: &[u8]) -> Result<Row, NotPrintable> {
    let slice: EndpointSlice = serde_json::from_slice(object)?;
    let ports: Vec<String> = slice
        .ports
        .iter()
        .map(|p| match (p.port, &p.name) {
            (Some(port), _) => port.to_string(),
            (None, Some(name)) => name.clone(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = slice
        .endpoints
        .iter()
        .flat_map(|e| e.addresses.iter().cloned())
        .collect();
    let or_unset = |all: &[String]| match shorten(all).as_str() {
        "" => Cell::text("<unset>"),
        shown => Cell::text(shown),
    };
    Ok(Row::new(vec![
        Cell::text(&slice.metadata.name),
        Cell::text(&slice.address_type),
        or_unset(&ports),
        or_unset(&addresses),
        slice.metadata.age(),
    ]))
}
