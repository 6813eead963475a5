//! Aggregated discovery: apidiscovery.k8s.io/v2 (KEP-3352).

use http::{HeaderValue, Response, StatusCode, header};
use kubernetes_wire::{
    api::{Status, go_json},
    negotiation::DiscoveryRepresentation,
};
use serde::Serialize;

use super::hash;
use crate::{
    http::{
        head::Head,
        reply::{Body, empty, with_type},
    },
    registry::{Resource, Served},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupList {
    kind: &'static str,
    api_version: &'static str,
    metadata: Meta,
    items: Vec<Group>,
}

#[derive(Serialize)]
struct Meta {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
}

#[derive(Serialize)]
struct Group {
    metadata: Meta,
    versions: Vec<Version>,
}

#[derive(Serialize)]
struct Version {
    version: String,
    resources: Vec<Entry>,
    freshness: &'static str,
}

#[derive(Serialize)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    resource: String,
    response_kind: Kind,
    scope: &'static str,
    singular_resource: String,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subentry>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Subentry {
    subresource: &'static str,
    response_kind: Kind,
    verbs: &'static [&'static str],
}

pub(super) fn core(
    served: &Served,
    head: &Head,
    wanted: DiscoveryRepresentation,
) -> Result<Response<Body>, Status> {
    answer(vec![group(served, "", &["v1".to_owned()])], head, wanted)
}

pub(super) fn groups(
    served: &Served,
    head: &Head,
    wanted: DiscoveryRepresentation,
) -> Result<Response<Body>, Status> {
    let items = served
        .groups()
        .iter()
        .map(|(name, versions)| group(served, name, versions))
        .collect();
    answer(items, head, wanted)
}

fn group(served: &Served, name: &str, versions: &[String]) -> Group {
    Group {
        metadata: Meta {
            name: name.to_owned(),
        },
        versions: versions
            .iter()
            .map(|version| Version {
                version: version.clone(),
                resources: served
                    .in_version(name, version)
                    .map(|resource| entry(resource))
                    .collect(),
                freshness: "Current",
            })
            .collect(),
    }
}

fn entry(resource: &Resource) -> Entry {
    // Built-in kinds omit group and version, custom resources do not.
    let own = |kind: &str| Kind {
        group: match resource.custom {
            Some(_) => resource.gvr.group.clone(),
            None => String::new(),
        },
        version: match resource.custom {
            Some(_) => resource.gvr.version.clone(),
            None => String::new(),
        },
        kind: kind.to_owned(),
    };
    Entry {
        resource: resource.gvr.resource.clone(),
        response_kind: own(&resource.kind),
        scope: if resource.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        },
        singular_resource: resource.singular.clone(),
        verbs: resource.verbs.list(resource.custom.is_some()),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        subresources: resource
            .subresources
            .iter()
            .map(|subresource| Subentry {
                subresource: subresource.name(),
                response_kind: match subresource.own_kind() {
                    Some((group, version, kind)) => Kind {
                        group: group.to_owned(),
                        version: version.to_owned(),
                        kind: kind.to_owned(),
                    },
                    None => own(&resource.kind),
                },
                verbs: subresource.verbs(),
            })
            .collect(),
    }
}

fn answer(
    items: Vec<Group>,
    head: &Head,
    wanted: DiscoveryRepresentation,
) -> Result<Response<Body>, Status> {
    let mut json = go_json::to_vec(&GroupList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Meta {
            name: String::new(),
        },
        items,
    });
    let etag = format!("\"{}\"", hash(&json));
    json.push(b'\n');
    let fresh = head
        .headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let mut response = if fresh {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        let body = head.body(&json.into(), wanted.media_type, wanted.pretty)?;
        with_type(StatusCode::OK, wanted.content_type(), body)
    };
    let out = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&etag) {
        out.insert(header::ETAG, value);
    }
    out.insert(header::VARY, HeaderValue::from_static("Accept"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}
