//! Discovery of the served API: versions, groups, resources, aggregated
//! discovery, OpenAPI and health.

mod aggregated;
mod hash;
mod health;
mod openapi;

use http::{Response, StatusCode};
use serde_json::json;

use hash::hash;
pub(crate) use health::health;
pub(crate) use openapi::{index as openapi_v3_index, v2 as openapi_v2, v3 as openapi_v3};

use kubernetes_wire::api::{Status, go_json};
use kubernetes_wire::negotiation::DiscoveryOffer;

use super::{
    http::{
        head::Head,
        reply::{Body, page_not_found, ready, with_type},
    },
    registry::{Resource, Served},
};

/// `/api` and `/apis` also have the aggregated document. go-restful's router is
/// before `/api` and before the resource lists of built-in versions.
const API: DiscoveryOffer = DiscoveryOffer {
    aggregated: true,
    v2beta1: false,
    routed: true,
    perhaps_more: false,
};
const APIS: DiscoveryOffer = DiscoveryOffer {
    aggregated: true,
    v2beta1: false,
    routed: false,
    perhaps_more: false,
};
const GROUP: DiscoveryOffer = DiscoveryOffer {
    aggregated: false,
    v2beta1: false,
    routed: false,
    perhaps_more: false,
};

/// The version of Kubernetes that is imitated, marked as an imitation. Clients
/// parse it.
pub(crate) const GIT_VERSION: &str = "v1.37.1+apifront";

pub(crate) fn version() -> Result<Response<Body>, Status> {
    // The real server writes the fields in the order of version.Info, and
    // indented.
    let text = format!(
        r#"{{
  "major": "1",
  "minor": "37",
  "emulationMajor": "1",
  "emulationMinor": "37",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "36",
  "gitVersion": "{GIT_VERSION}",
  "gitCommit": "",
  "gitTreeState": "clean",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "",
  "compiler": "rustc",
  "platform": "{}/{}"
}}"#,
        std::env::consts::OS,
        match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        },
    );
    Ok(with_type(StatusCode::OK, "application/json", text))
}

pub(crate) fn root(served: &Served) -> Result<Response<Body>, Status> {
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis", "/apis/"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    for (group, versions) in served.groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.sort();
    for path in [
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ] {
        paths.push(path.to_owned());
    }
    let text =
        serde_json::to_vec_pretty(&json!({ "paths": paths })).map_err(Status::internal_error)?;
    Ok(with_type(StatusCode::OK, "application/json", text))
}

pub(crate) fn core(served: &Served, head: &Head) -> Result<Response<Body>, Status> {
    let wanted = head.negotiate_discovery(API)?;
    if wanted.aggregated.is_some() {
        return aggregated::core(served, head, wanted);
    }
    // Go writes versions before addresses; serde_json would sort the keys.
    let address = go_json::to_vec(&head.host);
    let text = format!(
        "{{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[{{\"clientCIDR\":\"0.0.0.0/0\",\"serverAddress\":{}}}]}}\n",
        String::from_utf8_lossy(&address)
    );
    Ok(ready(text.into_bytes()))
}

pub(crate) fn groups(served: &Served, head: &Head) -> Result<Response<Body>, Status> {
    let wanted = head.negotiate_discovery(APIS)?;
    if wanted.aggregated.is_some() {
        return aggregated::groups(served, head, wanted);
    }
    let groups: Vec<String> = served
        .groups()
        .iter()
        .map(|(group, versions)| group_json(group, versions, ""))
        .collect();
    let text = format!(
        "{{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{}]}}\n",
        groups.join(",")
    );
    Ok(ready(text.into_bytes()))
}

pub(crate) fn group(served: &Served, name: &str, head: &Head) -> Result<Response<Body>, Status> {
    let groups = served.groups();
    let Some((group, versions)) = groups.iter().find(|(group, _)| group == name) else {
        return Ok(page_not_found());
    };
    head.negotiate_discovery(GROUP)?;
    let text = group_json(
        group,
        versions,
        "\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",",
    );
    Ok(ready(format!("{text}\n").into_bytes()))
}

fn group_json(group: &str, versions: &[String], prefix: &str) -> String {
    let version = |v: &String| format!("{{\"groupVersion\":\"{group}/{v}\",\"version\":\"{v}\"}}");
    let all: Vec<String> = versions.iter().map(version).collect();
    let preferred = versions.first().map(version).unwrap_or_default();
    format!(
        "{{{prefix}\"name\":\"{group}\",\"versions\":[{}],\"preferredVersion\":{preferred}}}",
        all.join(",")
    )
}

pub(crate) fn resources(
    served: &Served,
    group: &str,
    version: &str,
    head: &Head,
) -> Result<Response<Body>, Status> {
    let entries: Vec<String> = served
        .in_version(group, version)
        .flat_map(|resource| entries(resource))
        .map(|entry| String::from_utf8_lossy(&go_json::to_vec(&entry)).into_owned())
        .collect();
    if entries.is_empty() {
        // Unknown versions of known groups get a Status, unknown groups a page.
        return if served.is_built_in_group(group) {
            Err(Status::unknown_path())
        } else {
            Ok(page_not_found())
        };
    }
    head.negotiate_discovery(DiscoveryOffer {
        aggregated: false,
        v2beta1: false,
        routed: served.is_built_in_group(group),
        perhaps_more: false,
    })?;
    // The core list has no apiVersion of its own.
    let (api_version, name) = if group.is_empty() {
        ("", version.to_owned())
    } else {
        ("\"apiVersion\":\"v1\",", format!("{group}/{version}"))
    };
    let text = format!(
        "{{\"kind\":\"APIResourceList\",{api_version}\"groupVersion\":\"{name}\",\"resources\":[{}]}}\n",
        entries.join(",")
    );
    Ok(ready(text.into_bytes()))
}

/// `metav1.APIResource`.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    singular_name: String,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'static str,
    kind: String,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    storage_version_hash: String,
}

fn entries(resource: &Resource) -> Vec<Entry> {
    let mut out = vec![Entry {
        name: resource.gvr.resource.clone(),
        singular_name: resource.singular.clone(),
        namespaced: resource.namespaced,
        group: "",
        version: "",
        kind: resource.kind.clone(),
        verbs: resource.verbs.list(resource.custom.is_some()),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        storage_version_hash: resource.storage_version_hash.clone(),
    }];
    for subresource in &resource.subresources {
        let (group, version, kind) = match subresource.own_kind() {
            Some((group, version, kind)) => (group, version, kind.to_owned()),
            None => ("", "", resource.kind.clone()),
        };
        out.push(Entry {
            name: format!("{}/{}", resource.gvr.resource, subresource.name()),
            singular_name: String::new(),
            namespaced: resource.namespaced,
            group,
            version,
            kind,
            verbs: subresource.verbs(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: String::new(),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::schema::Schema;

    use super::GIT_VERSION;

    /// The server's release must match the fields that it serves.
    #[test]
    fn the_release_is_that_of_the_schema() {
        let release = Schema::builtin().kubernetes_version();
        assert_eq!(GIT_VERSION, format!("{release}+apifront"));
    }
}
