//! SubjectAccessReview: request and answer.

use std::collections::BTreeMap;

use apifront_upstream::review::Review;
use kubernetes_wire::api::label_selector::Operator;
use kubernetes_wire::api::{Attributes, FieldSelector, LabelSelector, UserInfo};
use serde::{Deserialize, Serialize};

pub(super) const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ResourceAttributes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<NonResourceAttributes<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceAttributes<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<Requirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Requirements>,
}

#[derive(Serialize)]
struct NonResourceAttributes<'a> {
    path: &'a str,
    verb: &'a str,
}

#[derive(Serialize)]
struct Requirements {
    requirements: Vec<Requirement>,
}

#[derive(Serialize)]
struct Requirement {
    key: String,
    operator: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

pub(super) fn review<'a>(user: &'a UserInfo, attributes: &'a Attributes) -> Review<Spec<'a>> {
    let (resource_attributes, non_resource_attributes) = match attributes {
        Attributes::NonResource { verb, path } => {
            (None, Some(NonResourceAttributes { path, verb }))
        }
        Attributes::Resource {
            verb,
            gvr,
            namespace,
            name,
            subresource,
            field_selector,
            label_selector,
        } => {
            let resource = ResourceAttributes {
                namespace,
                verb,
                group: &gvr.group,
                version: &gvr.version,
                resource: &gvr.resource,
                subresource,
                name,
                field_selector: fields(field_selector),
                label_selector: labels(label_selector),
            };
            (Some(resource), None)
        }
    };
    Review {
        kind: "SubjectAccessReview",
        api_version: "authorization.k8s.io/v1",
        spec: Spec {
            resource_attributes,
            non_resource_attributes,
            user: &user.name,
            groups: &user.groups,
            extra: &user.extra,
            uid: &user.uid,
        },
    }
}

/// Returns a field selector's requirements. A selector that cannot be parsed is left
/// out. The review is then about all objects, which is safe: selectors only ever
/// narrow (KEP-4601).
fn fields(selector: &str) -> Option<Requirements> {
    let requirements: Vec<_> = FieldSelector::parse(selector)
        .ok()?
        .requirements
        .into_iter()
        .map(|r| Requirement {
            key: r.field,
            operator: if r.equal { "In" } else { "NotIn" },
            values: vec![r.value],
        })
        .collect();
    (!requirements.is_empty()).then_some(Requirements { requirements })
}

/// Returns a label selector's requirements. Comparisons are left out too: a review
/// cannot express them.
fn labels(selector: &str) -> Option<Requirements> {
    let requirements: Vec<_> = LabelSelector::parse(selector)
        .ok()?
        .requirements
        .into_iter()
        .filter_map(|r| {
            let operator = match r.operator {
                Operator::In => "In",
                Operator::NotIn => "NotIn",
                Operator::Exists => "Exists",
                Operator::DoesNotExist => "DoesNotExist",
                Operator::GreaterThan | Operator::LessThan => return None,
            };
            Some(Requirement {
                key: r.key,
                operator,
                values: r.values,
            })
        })
        .collect();
    (!requirements.is_empty()).then_some(Requirements { requirements })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub allowed: bool,
    pub denied: bool,
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::GroupVersionResource;

    use super::*;

    #[test]
    fn the_question_has_every_attribute() {
        let user = UserInfo {
            name: "jane".into(),
            uid: "7".into(),
            groups: vec!["devs".into()],
            extra: BTreeMap::from([("k".into(), vec!["v".into()])]),
        };
        let attributes = Attributes::Resource {
            verb: "list".into(),
            gvr: GroupVersionResource::new("apps", "v1", "deployments"),
            namespace: "ns".into(),
            name: String::new(),
            subresource: "scale".into(),
            field_selector: "metadata.name=a,spec.x!=b".into(),
            label_selector: "app in (b,a),!canary,n>3".into(),
        };
        let json = serde_json::to_string(&review(&user, &attributes)).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"#,
                r#""resourceAttributes":{"namespace":"ns","verb":"list","group":"apps","version":"v1","#,
                r#""resource":"deployments","subresource":"scale","#,
                r#""fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["a"]},"#,
                r#"{"key":"spec.x","operator":"NotIn","values":["b"]}]},"#,
                r#""labelSelector":{"requirements":[{"key":"app","operator":"In","values":["a","b"]},"#,
                r#"{"key":"canary","operator":"DoesNotExist"}]}},"#,
                r#""user":"jane","groups":["devs"],"extra":{"k":["v"]},"uid":"7"}}"#
            )
        );
        let path = Attributes::NonResource {
            verb: "get".into(),
            path: "/metrics".into(),
        };
        let json = serde_json::to_string(&review(&UserInfo::default(), &path)).unwrap();
        assert!(
            json.ends_with(r#""spec":{"nonResourceAttributes":{"path":"/metrics","verb":"get"}}}"#)
        );
    }

    #[test]
    fn what_cannot_be_parsed_is_asked_more_broadly() {
        assert!(fields("nonsense").is_none());
        assert!(labels("a b").is_none());
        assert!(labels("n>3").is_none());
        assert!(fields("").is_none());
    }
}
