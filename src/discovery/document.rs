//! The `APIGroupDiscoveryList`, which describes all groups, as pieces of its JSON.
//! An unchanged piece keeps upstream's bytes, including fields that are unknown
//! here.

use std::collections::HashMap;

use bytes::Bytes;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use kubernetes_wire::representation::scan;
use sha2::{Digest, Sha512};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) versions: Vec<Version>,
    /// Whether the server writes `"creationTimestamp":null`, as servers before 1.34
    /// do.
    pub(super) creation_timestamp: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) name: String,
    /// An `APIVersionDiscovery`.
    pub(super) json: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceFacts {
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

/// Reads the groups of a document. Returns `None` if the document has another form:
/// it can then be passed on, but not changed.
pub(super) fn parse(json: &Bytes) -> Option<Vec<Group>> {
    let mut groups = Vec::new();
    for element in scan::elements(scan::get(json, &["items"])?) {
        let (_, group) = element.ok()?;
        let mut metadata = None;
        let mut versions = Vec::new();
        for member in scan::members(group) {
            let member = member.ok()?;
            match member.key {
                b"metadata" => metadata = Some(read_metadata(member.value)?),
                b"versions" => {
                    for element in scan::elements(member.value) {
                        let (_, version) = element.ok()?;
                        versions.push(Version {
                            name: scan::text_at(version, &["version"])?.into_owned(),
                            json: json.slice_ref(version),
                        });
                    }
                }
                _ => return None,
            }
        }
        let (name, creation_timestamp) = metadata?;
        groups.push(Group {
            name,
            versions,
            creation_timestamp,
        });
    }
    Some(groups)
}

/// Returns the name in `{"name":"apps"}`, and whether a creation timestamp follows.
/// Returns `None` if the metadata holds more. The core group has no name.
fn read_metadata(metadata: &[u8]) -> Option<(String, bool)> {
    let (mut name, mut creation_timestamp) = (String::new(), false);
    for member in scan::members(metadata) {
        let member = member.ok()?;
        match (member.key, member.value) {
            (b"name", value) => name = scan::text(value)?.into_owned(),
            (b"creationTimestamp", b"null") => creation_timestamp = true,
            _ => return None,
        }
    }
    Some((name, creation_timestamp))
}

/// Writes the document as kube-apiserver does. Also returns its ETag, which is the
/// hash of the same JSON without kind and apiVersion.
pub(super) fn write(groups: &[Group], api_version: &str) -> (Bytes, String) {
    let mut body = br#""metadata":{},"items":["#.to_vec();
    for (i, group) in groups.iter().enumerate() {
        if i > 0 {
            body.push(b',');
        }
        body.extend_from_slice(br#"{"metadata":{"#);
        if !group.name.is_empty() {
            body.extend_from_slice(br#""name":"#);
            body.extend_from_slice(&kubernetes_wire::api::go_json::to_vec(&group.name));
        }
        if group.creation_timestamp {
            let comma = if group.name.is_empty() { "" } else { "," };
            body.extend_from_slice(comma.as_bytes());
            body.extend_from_slice(br#""creationTimestamp":null"#);
        }
        body.extend_from_slice(br#"},"versions":["#);
        for (i, version) in group.versions.iter().enumerate() {
            if i > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&version.json);
        }
        body.extend_from_slice(b"]}");
    }
    body.extend_from_slice(b"]}");
    let hash = Sha512::new().chain_update(b"{").chain_update(&body);
    let etag = format!("\"{:X}\"", hash.finalize());
    let head = format!(r#"{{"kind":"APIGroupDiscoveryList","apiVersion":"{api_version}","#);
    let mut json = Vec::with_capacity(body.len().saturating_add(head.len()).saturating_add(1));
    json.extend_from_slice(head.as_bytes());
    json.extend_from_slice(&body);
    json.push(b'\n');
    (json.into(), etag)
}

impl Version {
    /// Returns the version without its hidden resources, or `None` if no
    /// resource is left.
    pub(super) fn without(&self, hidden: impl Fn(&str) -> bool) -> Option<Self> {
        let Some(span) = scan::find(&self.json, &["resources"]) else {
            return Some(self.clone());
        };
        let resources = self.json.slice(span.clone());
        let mut kept: Vec<&[u8]> = Vec::new();
        let mut left_out = false;
        for (_, resource) in scan::elements(&resources).map_while(Result::ok) {
            let name = scan::text_at(resource, &["resource"]);
            if name.is_some_and(|name| hidden(&name)) {
                left_out = true;
            } else {
                kept.push(resource);
            }
        }
        if !left_out {
            return Some(self.clone());
        }
        if kept.is_empty() {
            return None;
        }
        let mut json = self.json.get(..span.start)?.to_vec();
        json.push(b'[');
        json.extend_from_slice(&kept.join(&b','));
        json.push(b']');
        json.extend_from_slice(self.json.get(span.end..)?);
        Some(Self {
            name: self.name.clone(),
            json: json.into(),
        })
    }

    fn facts(&self) -> impl Iterator<Item = (String, ResourceFacts)> {
        let resources = scan::get(&self.json, &["resources"]).unwrap_or_default();
        scan::elements(resources)
            .map_while(Result::ok)
            .filter_map(|(_, resource)| {
                let text = |path: &[&str]| Some(scan::text_at(resource, path)?.into_owned());
                let verbs = scan::get(resource, &["verbs"]).unwrap_or_default();
                let verbs = scan::elements(verbs).map_while(Result::ok);
                let facts = ResourceFacts {
                    kind: text(&["responseKind", "kind"])?,
                    namespaced: text(&["scope"])? == "Namespaced",
                    verbs: verbs
                        .filter_map(|(_, verb)| Some(scan::text(verb)?.into_owned()))
                        .collect(),
                };
                Some((text(&["resource"])?, facts))
            })
    }
}

pub(super) fn facts(groups: &[Group]) -> HashMap<GroupVersionResource, ResourceFacts> {
    let mut all = HashMap::new();
    for (version, json) in versions(groups) {
        for (resource, facts) in json.facts() {
            let gvr = GroupVersionResource::new(&version.group, &version.version, &resource);
            all.insert(gvr, facts);
        }
    }
    all
}

pub(super) fn versions(groups: &[Group]) -> impl Iterator<Item = (GroupVersion, &Version)> {
    groups.iter().flat_map(|group| {
        group.versions.iter().map(|version| {
            let name = GroupVersion {
                group: group.name.clone(),
                version: version.name.clone(),
            };
            (name, version)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = concat!(
        r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"#,
        r#""items":[{"metadata":{"name":"batch"},"versions":[{"version":"v1","resources":["#,
        r#"{"resource":"cronjobs","responseKind":{"group":"","version":"","kind":"CronJob"},"#,
        r#""scope":"Namespaced","verbs":["get","list"]},"#,
        r#"{"resource":"jobs","responseKind":{"kind":"Job"},"scope":"Cluster","verbs":[]}],"#,
        r#""freshness":"Current"}]}]}"#,
        "\n"
    );

    #[test]
    fn what_is_read_is_written_again() {
        let json = Bytes::from(JSON);
        let groups = parse(&json).unwrap();
        assert_eq!(write(&groups, "apidiscovery.k8s.io/v2").0, json);
        let facts = facts(&groups);
        let cron_jobs = &facts[&GroupVersionResource::new("batch", "v1", "cronjobs")];
        assert_eq!(cron_jobs.kind, "CronJob");
        assert!(cron_jobs.namespaced);
        assert_eq!(cron_jobs.verbs, ["get", "list"]);
        assert_eq!(facts.len(), 2);
    }

    #[test]
    fn releases_before_1_34_write_a_creation_timestamp() {
        for (plain, with) in [
            (
                r#"{"name":"batch"}"#,
                r#"{"name":"batch","creationTimestamp":null}"#,
            ),
            (r#"{"name":"batch"}"#, r#"{"creationTimestamp":null}"#),
        ] {
            let json = Bytes::from(JSON.replace(plain, with));
            let groups = parse(&json).unwrap();
            assert_eq!(write(&groups, "apidiscovery.k8s.io/v2").0, json);
        }
    }

    #[test]
    fn resources_are_left_out() {
        let groups = parse(&Bytes::from(JSON)).unwrap();
        let version = &groups[0].versions[0];
        let without = version.without(|name| name == "jobs").unwrap();
        let text = String::from_utf8(without.json.to_vec()).unwrap();
        assert!(
            text.ends_with(r#""verbs":["get","list"]}],"freshness":"Current"}"#),
            "{text}"
        );
        assert_eq!(version.without(|_| true), None);
        assert_eq!(version.without(|_| false).as_ref(), Some(version));
    }

    #[test]
    fn an_unknown_form_is_not_changed() {
        for bad in [
            r#"{"items":[{"metadata":{"name":"a","uid":"b"},"versions":[]}]}"#,
            r#"{"items":[{"metadata":{"name":"a"},"more":1}]}"#,
            r#"{"items":[{"versions":[]}]}"#,
            r#"{"items":{}"#,
            "<html>",
        ] {
            let parsed = parse(&Bytes::from(bad));
            assert!(parsed.is_none_or(|groups| groups.is_empty()), "{bad}");
        }
    }
}
