//! The types of backends' discovery documents, and the change of an older backend's
//! APIResourceList into the aggregated form. Like kube-aggregator, they drop unknown
//! fields when they read a document, and they write JSON as Go does.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The discovery document of all groups: `apidiscovery.k8s.io` v2.
#[derive(Debug, Deserialize)]
pub(super) struct GroupDiscoveryList {
    pub(super) kind: String,
    #[serde(default, deserialize_with = "or_null")]
    pub(super) items: Vec<GroupDiscovery>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GroupDiscovery {
    #[serde(default, deserialize_with = "or_null")]
    pub(super) metadata: Metadata,
    #[serde(default, deserialize_with = "or_null")]
    pub(super) versions: Vec<VersionDiscovery>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata {
    #[serde(default, deserialize_with = "or_null")]
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct VersionDiscovery {
    #[serde(default, deserialize_with = "or_null")]
    pub(super) version: String,
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(super) resources: Vec<ResourceDiscovery>,
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub(super) freshness: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceDiscovery {
    #[serde(deserialize_with = "or_null")]
    resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_kind: Option<GroupVersionKind>,
    #[serde(deserialize_with = "or_null")]
    scope: String,
    #[serde(deserialize_with = "or_null")]
    singular_resource: String,
    /// `None` and an empty list are different values in Go's JSON.
    verbs: Option<Vec<String>>,
    #[serde(deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct SubresourceDiscovery {
    #[serde(deserialize_with = "or_null")]
    subresource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_kind: Option<GroupVersionKind>,
    #[serde(deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    accepted_types: Vec<GroupVersionKind>,
    verbs: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct GroupVersionKind {
    #[serde(deserialize_with = "or_null")]
    group: String,
    #[serde(deserialize_with = "or_null")]
    version: String,
    #[serde(deserialize_with = "or_null")]
    kind: String,
}

/// The plain document at `/apis/G/V`, which a server without an
/// `APIGroupDiscoveryList` is asked for.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceList {
    kind: String,
    #[serde(default, deserialize_with = "or_null")]
    resources: Vec<ListedResource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedResource {
    #[serde(deserialize_with = "or_null")]
    name: String,
    #[serde(deserialize_with = "or_null")]
    singular_name: String,
    #[serde(deserialize_with = "or_null")]
    namespaced: bool,
    #[serde(deserialize_with = "or_null")]
    group: String,
    #[serde(deserialize_with = "or_null")]
    version: String,
    #[serde(deserialize_with = "or_null")]
    kind: String,
    verbs: Option<Vec<String>>,
    #[serde(deserialize_with = "or_null")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "or_null")]
    categories: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("not JSON of the expected form: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a {0:?}, not what was asked for")]
    Kind(String),
    #[error("{0} and its subresource {1} do not agree about namespaces")]
    Scope(String, String),
}

fn or_null<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl GroupDiscoveryList {
    pub(super) fn parse(json: &[u8]) -> Result<Self, Unreadable> {
        let mut list: Self = serde_json::from_slice(json)?;
        if list.kind != "APIGroupDiscoveryList" {
            return Err(Unreadable::Kind(list.kind));
        }
        let versions = list.items.iter_mut().flat_map(|g| &mut g.versions);
        for resource in versions.flat_map(|v| &mut v.resources) {
            // Old clients panic without a kind (kubernetes issue 118361).
            resource.response_kind.get_or_insert_default();
            for subresource in &mut resource.subresources {
                subresource.response_kind.get_or_insert_default();
            }
        }
        Ok(list)
    }
}

impl ResourceList {
    pub(super) fn parse(json: &[u8]) -> Result<Self, Unreadable> {
        let list: Self = serde_json::from_slice(json)?;
        if list.kind != "APIResourceList" {
            return Err(Unreadable::Kind(list.kind));
        }
        Ok(list)
    }

    /// Converts the list as `ConvertGroupVersionIntoToDiscovery` of
    /// k8s.io/apiserver does.
    pub(super) fn into_discovery(self, version: &str) -> Result<VersionDiscovery, Unreadable> {
        let scope = |namespaced| if namespaced { "Namespaced" } else { "Cluster" };
        let (subresources, resources): (Vec<_>, Vec<_>) = self
            .resources
            .into_iter()
            .partition(|r| r.name.contains('/'));
        let mut found: Vec<ResourceDiscovery> = resources
            .into_iter()
            .map(|r| ResourceDiscovery {
                resource: r.name,
                response_kind: Some(GroupVersionKind {
                    group: r.group,
                    version: r.version,
                    kind: r.kind,
                }),
                scope: scope(r.namespaced).to_owned(),
                singular_resource: r.singular_name,
                verbs: r.verbs,
                short_names: r.short_names,
                categories: r.categories,
                subresources: Vec::new(),
            })
            .collect();
        // If several resources have one name, the last one counts, as in Go's map.
        let names = found.iter().enumerate();
        let mut places: HashMap<String, usize> =
            names.map(|(at, r)| (r.resource.clone(), at)).collect();
        for listed in subresources {
            let (parent, name) = listed.name.split_once('/').unwrap_or_default();
            let at = places.get(parent).copied().unwrap_or_else(|| {
                let at = found.len();
                places.insert(parent.to_owned(), at);
                found.push(ResourceDiscovery {
                    resource: parent.to_owned(),
                    scope: scope(listed.namespaced).to_owned(),
                    response_kind: Some(GroupVersionKind::default()),
                    ..ResourceDiscovery::default()
                });
                at
            });
            let Some(resource) = found.get_mut(at) else {
                continue;
            };
            if resource.scope != scope(listed.namespaced) {
                return Err(Unreadable::Scope(parent.to_owned(), name.to_owned()));
            }
            let kind = if listed.kind.is_empty() {
                GroupVersionKind::default()
            } else {
                GroupVersionKind {
                    group: listed.group,
                    version: listed.version,
                    kind: listed.kind,
                }
            };
            resource.subresources.push(SubresourceDiscovery {
                subresource: name.to_owned(),
                response_kind: Some(kind),
                accepted_types: Vec::new(),
                verbs: listed.verbs,
            });
        }
        Ok(VersionDiscovery {
            version: version.to_owned(),
            resources: found,
            freshness: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::go_json;

    use super::*;

    #[test]
    fn a_plain_list_becomes_discovery() {
        let list = br#"{"kind":"APIResourceList","groupVersion":"g/v1","resources":[
            {"name":"a/status","namespaced":true,"kind":"A","verbs":["get"]},
            {"name":"a","singularName":"x","namespaced":true,"kind":"A","verbs":["list"],"shortNames":["s"]},
            {"name":"b/scale","namespaced":false,"group":"autoscaling","version":"v1","kind":"Scale","verbs":null}]}"#;
        let version = ResourceList::parse(list).unwrap().into_discovery("v1");
        assert_eq!(
            String::from_utf8(go_json::to_vec(&version.unwrap())).unwrap(),
            concat!(
                r#"{"version":"v1","resources":[{"resource":"a","responseKind":{"group":"","version":"","kind":"A"},"#,
                r#""scope":"Namespaced","singularResource":"x","verbs":["list"],"shortNames":["s"],"#,
                r#""subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":"A"},"verbs":["get"]}]},"#,
                r#"{"resource":"b","responseKind":{"group":"","version":"","kind":""},"scope":"Cluster","singularResource":"","verbs":null,"#,
                r#""subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":null}]}]}"#,
            )
        );
    }

    /// Searching each subresource among all resources once took hours for this
    /// document, which a backend may send.
    #[test]
    fn a_resource_is_looked_up() {
        let names = (0..400_000).map(|n| format!("{{\"name\":\"{n}/s\"}}"));
        let names: Vec<_> = names.collect();
        let list = format!(
            "{{\"kind\":\"APIResourceList\",\"resources\":[{}]}}",
            names.join(",")
        );
        assert!(list.len() < 8 << 20);
        let list = ResourceList::parse(list.as_bytes()).unwrap();
        assert_eq!(list.into_discovery("v1").unwrap().resources.len(), 400_000);
    }

    #[test]
    fn nonsense_is_an_error() {
        for bad in [
            "",
            "<html>",
            "[]",
            r#"{"kind":"Status"}"#,
            r#"{"kind":"APIGroupDiscoveryList","items":{}}"#,
        ] {
            assert!(GroupDiscoveryList::parse(bad.as_bytes()).is_err(), "{bad}");
            assert!(ResourceList::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let scopes = br#"{"kind":"APIResourceList","resources":[{"name":"a","namespaced":true},{"name":"a/b"}]}"#;
        let list = ResourceList::parse(scopes).unwrap();
        assert!(list.into_discovery("v1").is_err());
    }
}
