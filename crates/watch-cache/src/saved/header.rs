//! The header of a saved store: the facts that decide whether the store may be used,
//! and the facts that a list would otherwise supply.

use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::{BookmarkTemplate, Envelope, Form};
use serde::{Deserialize, Serialize};

const MAX_NAME_BYTES: usize = 200;

const EXTENSION: &str = ".store";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    /// The uid of the namespace kube-system, which identifies a cluster for its
    /// whole life.
    pub(crate) cluster: String,
    /// The `gitVersion` of the kube-apiserver that was listed.
    pub(crate) git_version: String,
    /// The CustomResourceDefinition that was in force when the store was saved.
    pub(crate) definition: Option<Revision>,
    /// Milliseconds since 1970.
    pub(crate) saved_at: u64,
    /// The version of the objects.
    pub(crate) since: u64,
    /// The newest version, to which the events lead.
    pub(crate) resource_version: u64,
    pub(crate) namespaced: bool,
    pub(crate) go_struct: bool,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    /// Upstream's protobuf is not understood.
    pub(crate) json_only: bool,
    /// Upstream is asked for JSON, because of `json_only` or for another reason.
    pub(crate) reads_json: bool,
    /// The field labels that upstream accepts in field selectors.
    pub(crate) fields: Vec<String>,
    pub(crate) initial_events: bool,
    #[serde(default)]
    pub(crate) lacks_initial_events: bool,
    pub(crate) blueprint: bool,
    /// An empty bookmark's object.
    pub(crate) bookmark: Option<String>,
    pub(crate) columns: Columns,
    /// The forms in which clients listed the resource lately.
    #[serde(default)]
    pub(crate) list_forms: Vec<String>,
}

/// A value that changes whenever a CustomResourceDefinition does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Revision {
    pub(crate) uid: String,
    pub(crate) generation: i64,
}

/// The columns in which a server shows a resource as a Table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Columns {
    /// The columns are not known.
    #[default]
    Unknown,
    /// The server knows no Tables.
    NoTables,
    /// A Table without rows, as the server writes it.
    Table(String),
}

impl Header {
    pub(crate) fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, &self.version, &self.resource)
    }

    pub(crate) fn envelope(&self) -> Envelope {
        let form = if self.go_struct {
            Form::Struct
        } else {
            Form::Map
        };
        Envelope::new(form, &self.api_version, &self.kind, &self.list_kind)
    }

    pub(crate) fn bookmark(&self) -> Option<BookmarkTemplate> {
        BookmarkTemplate::learn(self.bookmark.as_ref()?.as_bytes())
    }
}

/// Returns the name of a resource's file. `None` if the resource's name is not safe
/// in a file's name.
pub(super) fn file_name(gvr: &GroupVersionResource) -> Option<String> {
    let name = format!("{}_{}_{}{EXTENSION}", gvr.resource, gvr.version, gvr.group);
    (gvr_of(&name).as_ref() == Some(gvr)).then_some(name)
}

/// Returns the resource that a file's name stands for.
pub(super) fn gvr_of(name: &str) -> Option<GroupVersionResource> {
    let parts: Vec<&str> = name.strip_suffix(EXTENSION)?.split('_').collect();
    let &[resource, version, group] = parts.as_slice() else {
        return None;
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let safe = |part: &str| part.chars().all(plain) && !part.starts_with('.');
    let named = !resource.is_empty() && !version.is_empty() && name.len() <= MAX_NAME_BYTES;
    (named && parts.iter().all(|part| safe(part)))
        .then(|| GroupVersionResource::new(group, version, resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_for_their_resources() {
        for (group, version, resource, expected) in [
            ("", "v1", "pods", Some("pods_v1_.store")),
            (
                "apps",
                "v1",
                "deployments",
                Some("deployments_v1_apps.store"),
            ),
            (
                "a.example.com",
                "v1beta1",
                "x-y",
                Some("x-y_v1beta1_a.example.com.store"),
            ),
            ("", "v1", "../pods", None),
            ("", "v1", "a/b", None),
            ("", "v1", "", None),
            ("", "", "pods", None),
            ("a_b", "v1", "pods", None),
            ("..", "v1", "pods", None),
            ("apps", "v1", "Pods", None),
        ] {
            let gvr = GroupVersionResource::new(group, version, resource);
            assert_eq!(file_name(&gvr).as_deref(), expected, "{gvr}");
            if let Some(name) = expected {
                assert_eq!(gvr_of(name), Some(gvr));
            }
        }
        let long = GroupVersionResource::new(&"a".repeat(200), "v1", "pods");
        assert_eq!(file_name(&long), None);
        for other in [
            "pods_v1_",
            "pods.store",
            ".lock",
            "a_b_c_d.store",
            ".x_v1_.store",
        ] {
            assert_eq!(gvr_of(other), None, "{other}");
        }
    }
}
