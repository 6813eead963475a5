//! The configured APIServices as objects of the API.
//!
//! They look like kube-apiserver's own: fields in the order of the Go struct,
//! defaults filled in, the condition in the status. There are two differences: an
//! annotation names the APIService's file, and a request that would change the
//! object is refused with a reference to that file. `server/forward/aggregate.rs`
//! decides which are, the text is here.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use kubernetes_wire::api::status::{self, Details};
use kubernetes_wire::api::{GroupResource, GroupVersionResource, Status, go_json};
use kubernetes_wire::representation::list::List;
use kubernetes_wire::representation::scan;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::condition::{Condition, Reason};
use super::settings::ApiService;

pub const GROUP: &str = "apiregistration.k8s.io";
pub const VERSION: &str = "v1";
pub const RESOURCE: &str = "apiservices";
/// Returns the resource of APIServices, which tell what the API server serves
/// itself.
pub fn api_services() -> GroupVersionResource {
    GroupVersionResource::new(GROUP, VERSION, RESOURCE)
}

/// The annotation with the file of a configured APIService. Only configured
/// APIServices have it.
const SOURCE_ANNOTATION: &str = "apifront.dev/source";

#[derive(Serialize)]
struct Item<'a> {
    metadata: Metadata<'a>,
    spec: Spec<'a>,
    status: ObjectStatus<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    uid: String,
    resource_version: String,
    creation_timestamp: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    version: &'a str,
    #[serde(rename = "insecureSkipTLSVerify", skip_serializing_if = "is_false")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    ca_bundle: String,
    group_priority_minimum: i32,
    version_priority: i32,
}

#[derive(Serialize)]
struct Service<'a> {
    namespace: &'a str,
    name: &'a str,
    port: u16,
}

#[derive(Serialize)]
struct ObjectStatus<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[ObjectCondition<'a>; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectCondition<'a> {
    r#type: &'static str,
    status: &'static str,
    last_transition_time: String,
    reason: &'static str,
    message: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Returns the object as an item of a list. `since` is the time at which the
/// configuration was read. `resource_version` is one of upstream's, so that a watch
/// can begin at it.
pub fn item(
    api_service: &ApiService,
    condition: &Condition,
    since: DateTime<Utc>,
    resource_version: u64,
) -> Bytes {
    let group_version = &api_service.group_version;
    let mut annotations = written(api_service, "annotations");
    annotations.insert(
        SOURCE_ANNOTATION.to_owned(),
        api_service.file.display().to_string().into(),
    );
    let service = api_service.service.as_ref();
    let checked = condition.reason != Reason::Unchecked;
    let item = Item {
        metadata: Metadata {
            name: &api_service.name,
            uid: uid(&api_service.name),
            resource_version: resource_version.to_string(),
            creation_timestamp: since.to_rfc3339_opts(SecondsFormat::Secs, true),
            labels: written(api_service, "labels"),
            annotations,
        },
        spec: Spec {
            service: service.map(|s| Service {
                namespace: &s.namespace,
                name: &s.name,
                port: s.port,
            }),
            group: &group_version.group,
            version: &group_version.version,
            insecure_skip_tls_verify: api_service.insecure_skip_tls_verify,
            ca_bundle: base64(&api_service.ca_bundle),
            group_priority_minimum: api_service.group_priority_minimum,
            version_priority: api_service.version_priority,
        },
        status: ObjectStatus {
            conditions: checked.then(|| {
                [ObjectCondition {
                    r#type: "Available",
                    status: condition.status.as_str(),
                    last_transition_time: condition.last_transition_text(),
                    reason: condition.reason.as_str(),
                    message: &condition.message,
                }]
            }),
        },
    };
    go_json::to_vec(&item).into()
}

/// Returns the labels or annotations of the manifest.
fn written(api_service: &ApiService, field: &str) -> Map<String, Value> {
    let found = api_service.manifest.pointer(&format!("/metadata/{field}"));
    let map = found.and_then(Value::as_object).cloned();
    let mut map = map.unwrap_or_default();
    map.retain(|_, value| value.is_string());
    map
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Returns a UID that is the same after a restart and in every replica: a UUID of
/// version 8 (RFC 9562), whose bits are free to choose.
fn uid(name: &str) -> String {
    let digest = Sha256::digest(format!("{SOURCE_ANNOTATION}/{name}"));
    let mut bytes = [0; 16];
    for (byte, from) in bytes.iter_mut().zip(digest) {
        *byte = from;
    }
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

#[derive(Clone, Debug)]
pub struct Upstreams {
    pub resource_version: u64,
    items: BTreeMap<String, Bytes>,
}

impl Upstreams {
    /// Parses an APIServiceList. `None` if it is malformed.
    pub fn parse(list: &[u8]) -> Option<Self> {
        let list = List::from_json(list, usize::MAX).ok()?;
        let named = |item: &&[u8]| {
            let name = scan::text_at(item, &["metadata", "name"])?;
            Some((name.into_owned(), Bytes::copy_from_slice(item)))
        };
        Some(Self {
            resource_version: list.resource_version.parse().ok()?,
            items: list.items.iter().map(named).collect::<Option<_>>()?,
        })
    }

    pub fn has(&self, name: &str) -> bool {
        self.items.contains_key(name)
    }

    /// Returns versions that no object has, between `after` and the list's version,
    /// the newest first. Leaves out the `spared` oldest of them.
    pub fn versions_between(&self, after: u64, spared: usize) -> impl Iterator<Item = u64> + use<> {
        let version = |item: &Bytes| {
            let version = scan::text_at(item, &["metadata", "resourceVersion"])?;
            version.parse::<u64>().ok()
        };
        let versions = after.saturating_add(1)..=self.resource_version;
        let used = self.items.values().filter_map(version);
        let used: HashSet<_> = used.filter(|used| versions.contains(used)).collect();
        let all = self.resource_version.saturating_sub(after);
        let all = usize::try_from(all).unwrap_or(usize::MAX);
        let room = all.saturating_sub(used.len()).saturating_sub(spared);
        let free = versions
            .rev()
            .filter(move |version| !used.contains(version));
        free.take(room)
    }

    /// Adds the configured objects and returns all, sorted by name. A configured
    /// object replaces upstream's of the same name.
    pub fn with(mut self, ours: impl IntoIterator<Item = (String, Bytes)>) -> Vec<Bytes> {
        self.items.extend(ours);
        self.items.into_values().collect()
    }
}

/// Returns the error for a request that would change or delete a configured
/// APIService.
pub fn read_only(api_service: &ApiService) -> Status {
    let name = &api_service.name;
    let resource = GroupResource {
        group: GROUP.to_owned(),
        resource: RESOURCE.to_owned(),
    };
    let file = api_service.file.display();
    let mut status = Status::failure(
        403,
        status::Reason::Forbidden,
        format!(
            "{resource} {name:?} is forbidden: it is configured in {file} and cannot be changed through the API"
        ),
    );
    status.details = Some(Box::new(Details {
        name: name.clone(),
        group: resource.group,
        kind: resource.resource,
        ..Details::default()
    }));
    status
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use kubernetes_wire::api::GroupVersion;
    use serde_json::json;

    use super::*;
    use crate::aggregation::ServiceReference;

    fn wardle() -> ApiService {
        ApiService {
            name: "v1alpha1.wardle.example.com".to_owned(),
            group_version: GroupVersion::parse("wardle.example.com/v1alpha1").unwrap(),
            service: Some(ServiceReference {
                namespace: "wardle".to_owned(),
                name: "api".to_owned(),
                port: 443,
            }),
            ca_bundle: b"PEM".to_vec(),
            insecure_skip_tls_verify: false,
            group_priority_minimum: 1000,
            version_priority: 15,
            manifest: json!({ "metadata": { "labels": { "a": "<b>" }, "annotations": { "x": 1 } } }),
            file: PathBuf::from("/etc/wardle.yaml"),
        }
    }

    #[test]
    fn fields_are_in_the_order_of_go() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let condition = Condition::checked(Ok(()), at(60));
        let text = |service: &ApiService, condition: &Condition| {
            String::from_utf8(item(service, condition, at(0), 7).to_vec()).unwrap()
        };
        let uid = uid("v1alpha1.wardle.example.com");
        let expected = format!(
            r#"{{"metadata":{{"name":"v1alpha1.wardle.example.com","uid":"{uid}","resourceVersion":"7","creationTimestamp":"1970-01-01T00:00:00Z","labels":{{"a":"\u003cb\u003e"}},"annotations":{{"apifront.dev/source":"/etc/wardle.yaml"}}}},"spec":{{"service":{{"namespace":"wardle","name":"api","port":443}},"group":"wardle.example.com","version":"v1alpha1","caBundle":"UEVN","groupPriorityMinimum":1000,"versionPriority":15}},"status":{{"conditions":[{{"type":"Available","status":"True","lastTransitionTime":"1970-01-01T00:01:00Z","reason":"Passed","message":"all checks passed"}}]}}}}"#
        );
        assert_eq!(text(&wardle(), &condition), expected);
        let unchecked = text(&wardle(), &Condition::unchecked(at(1)));
        assert!(unchecked.ends_with(r#","status":{}}"#), "{unchecked}");
        let local = ApiService {
            service: None,
            ca_bundle: Vec::new(),
            ..wardle()
        };
        let local = text(&local, &Condition::local(at(1)));
        assert!(local.contains(r#""spec":{"group":"#) && local.contains(r#""reason":"Local""#));
        assert!(uuid::Uuid::parse_str(&uid).unwrap().get_version_num() == 8);
    }

    #[test]
    fn versions_are_those_that_nobody_has() {
        let item = |name: &str, version: &str| json!({ "metadata": { "name": name, "resourceVersion": version } });
        let list = json!({
            "metadata": { "resourceVersion": "12" },
            "items": [item("v1.a", "3"), item("v1.b", "12"), item("v1.c", "10")],
        });
        let upstreams = Upstreams::parse(list.to_string().as_bytes()).unwrap();
        assert!(upstreams.has("v1.a") && !upstreams.has("v1"));
        for (after, spared, expected) in [
            (8, 0, &[11, 9][..]),
            (8, 1, &[11]),
            (8, 2, &[]),
            (8, 9, &[]),
            (9, 0, &[11]),
            (11, 0, &[]),
            (12, 0, &[]),
            (13, 0, &[]),
            (u64::MAX, 0, &[]),
        ] {
            let versions: Vec<_> = upstreams.versions_between(after, spared).collect();
            assert_eq!(versions, expected, "{after} {spared}");
        }
    }

    #[test]
    fn ours_stand_where_their_names_belong() {
        let item = |name: &str, whose: &str| json!({ "metadata": { "name": name }, "spec": whose });
        let list = json!({
            "kind": "APIServiceList",
            "metadata": { "resourceVersion": "12" },
            "items": [item("v1.a", "up"), item("v1.c", "up")],
        });
        let upstreams = Upstreams::parse(list.to_string().as_bytes()).unwrap();
        assert_eq!(upstreams.resource_version, 12);
        let ours = ["v1.b", "v1.c"]
            .map(|name| (name.to_owned(), Bytes::from(item(name, "ours").to_string())));
        let merged: Vec<String> = upstreams
            .with(ours)
            .iter()
            .map(|item| {
                let item: Value = serde_json::from_slice(item).unwrap();
                format!("{} {}", item["metadata"]["name"], item["spec"])
            })
            .collect();
        assert_eq!(
            merged,
            [r#""v1.a" "up""#, r#""v1.b" "ours""#, r#""v1.c" "ours""#]
        );
        let empty = br#"{"metadata":{"resourceVersion":"1"},"items":null}"#;
        assert!(Upstreams::parse(empty).unwrap().with([]).is_empty());
        assert!(Upstreams::parse(b"<html>").is_none());
        assert!(Upstreams::parse(br#"{"kind":"Status","metadata":{}}"#).is_none());
    }

    #[test]
    fn a_refusal_names_the_file() {
        let status = read_only(&wardle());
        assert_eq!(status.code, 403);
        let expected = concat!(
            r#"apiservices.apiregistration.k8s.io "v1alpha1.wardle.example.com" is forbidden: "#,
            "it is configured in /etc/wardle.yaml and cannot be changed through the API",
        );
        assert_eq!(status.message, expected);
    }
}
