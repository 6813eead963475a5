//! The question of a SelfSubjectAccessReview, as far as apifront understands it. All
//! other questions are left to upstream.

use kubernetes_wire::negotiation::MediaType;
use kubernetes_wire::representation::protobuf_envelope::Answer;
use kubernetes_wire::representation::transcode;
use kubernetes_wire::schema::Schema;
use serde::Deserialize;
use serde::de::IgnoredAny;

const API_VERSION: &str = "authorization.k8s.io/v1";
const KIND: &str = "SelfSubjectAccessReview";

/// A SelfSubjectAccessReview. In protobuf, kind and apiVersion are outside of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Object {
    kind: Option<String>,
    api_version: Option<String>,
    #[expect(dead_code, reason = "upstream judges it")]
    metadata: Option<IgnoredAny>,
    pub(super) spec: Spec,
    #[expect(dead_code, reason = "upstream replaces it")]
    status: Option<IgnoredAny>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Spec {
    resource_attributes: ResourceAttributes,
}

/// The attributes without selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
}

/// A question about a list or watch of a whole resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OfWhole<'a> {
    pub(super) verb: &'static str,
    pub(super) group: &'a str,
    /// `None` if the question names no version.
    pub(super) version: Option<&'a str>,
    pub(super) resource: &'a str,
}

impl Object {
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let object: Self = serde_json::from_slice(json).ok()?;
        let is = |found: &Option<String>, name| found.as_ref().is_none_or(|found| found == name);
        (is(&object.kind, KIND) && is(&object.api_version, API_VERSION)).then_some(object)
    }
}

impl Spec {
    /// Reads the question from a request's body. Returns `None` if it has anything
    /// that is not understood here.
    pub(super) fn of_request(media_type: MediaType, body: &[u8]) -> Option<Self> {
        match media_type {
            MediaType::Json => Some(Object::parse(body)?.spec),
            MediaType::Protobuf => Some(Object::parse(&json_of(body)?)?.spec),
            MediaType::Yaml => None,
        }
    }

    pub(super) fn of_whole(&self) -> Option<OfWhole<'_>> {
        let asked = &self.resource_attributes;
        let verb = ["list", "watch"].into_iter().find(|v| *v == asked.verb)?;
        let is_of_all =
            asked.namespace.is_empty() && asked.name.is_empty() && asked.subresource.is_empty();
        let is_of_one = asked.group != "*" && !matches!(asked.resource.as_str(), "" | "*");
        (is_of_all && is_of_one).then(|| OfWhole {
            verb,
            group: &asked.group,
            version: Some(asked.version.as_str()).filter(|version| !matches!(*version, "" | "*")),
            resource: &asked.resource,
        })
    }
}

/// Returns the JSON of a SelfSubjectAccessReview in protobuf, without kind and
/// apiVersion.
pub(super) fn json_of(body: &[u8]) -> Option<Vec<u8>> {
    let whole = Answer::parse(body)?;
    if (whole.api_version, whole.kind) != (API_VERSION, KIND) {
        return None;
    }
    let message = Schema::builtin().kind(API_VERSION, KIND)?;
    let mut json = Vec::new();
    transcode::to_json(message, whole.message, &mut json).ok()?;
    Some(json)
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::representation::protobuf_envelope::Type;
    use serde_json::{Value, json};

    use super::*;

    fn object(spec: Value) -> Vec<u8> {
        let object = json!({
            "kind": KIND, "apiVersion": API_VERSION, "metadata": {"creationTimestamp": null},
            "spec": spec, "status": {"allowed": false},
        });
        object.to_string().into_bytes()
    }

    fn about(attributes: Value) -> Option<Spec> {
        let body = object(json!({ "resourceAttributes": &attributes }));
        let spec = Spec::of_request(MediaType::Json, &body);
        // The same question in protobuf, which has no null.
        let mut message = Vec::new();
        let of_kind = Schema::builtin().kind(API_VERSION, KIND).unwrap();
        let encoded = transcode::to_protobuf(of_kind, &body, &mut message);
        if spec.is_some() || encoded.is_ok() && !attributes["resource"].is_null() {
            encoded.unwrap();
            let body = Type::new(API_VERSION, KIND).answer(&message);
            assert_eq!(Spec::of_request(MediaType::Protobuf, &body), spec);
        }
        spec
    }

    #[test]
    fn lists_and_watches_of_whole_resources_are_understood() {
        let spec = about(json!({"verb": "list", "resource": "pods"})).unwrap();
        let whole = OfWhole {
            verb: "list",
            group: "",
            version: None,
            resource: "pods",
        };
        assert_eq!(spec.of_whole(), Some(whole));
        let spec = about(json!({
            "verb": "watch", "group": "apps", "version": "v1", "resource": "deployments",
        }));
        let whole = OfWhole {
            verb: "watch",
            group: "apps",
            version: Some("v1"),
            resource: "deployments",
        };
        assert_eq!(spec.unwrap().of_whole(), Some(whole));
        let spec = about(json!({"verb": "list", "version": "*", "resource": "pods"})).unwrap();
        assert_eq!(spec.of_whole().unwrap().version, None);
    }

    #[test]
    fn nothing_else_is() {
        for attributes in [
            json!({"verb": "get", "resource": "pods"}),
            json!({"verb": "*", "resource": "pods"}),
            json!({"verb": "list", "resource": "*"}),
            json!({"verb": "list"}),
            json!({"verb": "list", "group": "*", "resource": "pods"}),
            json!({"verb": "list", "resource": "pods", "namespace": "a"}),
            json!({"verb": "list", "resource": "pods", "name": "a"}),
            json!({"verb": "list", "resource": "pods", "subresource": "log"}),
        ] {
            let spec = about(attributes.clone()).unwrap();
            assert_eq!(spec.of_whole(), None, "{attributes}");
        }
        let selector = json!({"requirements": [{"key": "a", "operator": "Exists"}]});
        for attributes in [
            json!({"verb": "list", "resource": "pods", "labelSelector": selector}),
            json!({"verb": "list", "resource": "pods", "fieldSelector": selector}),
            json!({"verb": "list", "resource": "pods", "new": ""}),
            json!({"verb": "list", "resource": 7}),
            json!({"verb": "list", "resource": null}),
        ] {
            assert_eq!(about(attributes.clone()), None, "{attributes}");
        }
        let pods = json!({"verb": "list", "resource": "pods"});
        let both = json!({
            "resourceAttributes": pods, "nonResourceAttributes": {"path": "/", "verb": "get"},
        });
        for body in [
            object(both),
            object(json!({"nonResourceAttributes": {"path": "/", "verb": "get"}})),
            object(json!({})),
            b"{}".to_vec(),
            br#"{"kind":"SubjectAccessReview","spec":{"resourceAttributes":{"verb":"list"}}}"#
                .to_vec(),
            br#"{"spec":{"resourceAttributes":{"verb":"get","verb":"list","resource":"pods"}}}"#
                .to_vec(),
            br#"{"spec":{"resourceAttributes":{}},"spec":{"resourceAttributes":{}}}"#.to_vec(),
            b"[".repeat(10_000),
        ] {
            assert_eq!(Spec::of_request(MediaType::Json, &body), None);
            assert_eq!(Spec::of_request(MediaType::Protobuf, &body), None);
            assert_eq!(Spec::of_request(MediaType::Yaml, &body), None);
        }
    }
}
