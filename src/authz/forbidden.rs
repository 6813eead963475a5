//! The text of a 403: `responsewriters.ForbiddenStatusError` of k8s.io/apiserver.

use kubernetes_wire::api::query::go_quote;
use kubernetes_wire::api::status::Details;
use kubernetes_wire::api::{Attributes, Reason, Status, UserInfo};

/// Returns the 403 for a caller who lacks the right. `reason` is the
/// authorizer's, and may be empty.
pub(super) fn forbidden(user: &UserInfo, attributes: &Attributes, reason: &str) -> Status {
    let mut why = sanitize(&cannot(user, attributes));
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    refuse(attributes, &why)
}

/// Returns the 403 of the API server's `NewForbidden` with `why` as its error.
pub(super) fn refuse(attributes: &Attributes, why: &str) -> Status {
    let (message, details) = match attributes {
        Attributes::NonResource { .. } => (format!("forbidden: {why}"), Details::default()),
        Attributes::Resource { gvr, name, .. } => {
            let resource = gvr.group_resource();
            let message = match (resource.resource.is_empty(), name.is_empty()) {
                (true, _) if resource.group.is_empty() => format!("forbidden: {why}"),
                (_, true) => format!("{resource} is forbidden: {why}"),
                (_, false) => format!("{resource} {} is forbidden: {why}", go_quote(name)),
            };
            (message, Details::named(&resource, name))
        }
    };
    Status::failure(403, Reason::Forbidden, message).with_details(details)
}

fn cannot(user: &UserInfo, attributes: &Attributes) -> String {
    let user = go_quote(&user.name);
    match attributes {
        Attributes::NonResource { verb, path } => {
            format!("User {user} cannot {verb} path {}", go_quote(path))
        }
        Attributes::Resource {
            verb,
            gvr,
            namespace,
            subresource,
            ..
        } => {
            let resource = if subresource.is_empty() {
                go_quote(&gvr.resource)
            } else {
                go_quote(&format!("{}/{subresource}", gvr.resource))
            };
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", go_quote(namespace))
            };
            let group = go_quote(&gvr.group);
            format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
        }
    }
}

/// Escapes HTML in an error. Quotes are harmless.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::GroupVersionResource;

    use super::*;

    #[test]
    fn texts_are_those_of_kube_apiserver() {
        let user = UserInfo {
            name: "jane <b>".into(),
            ..UserInfo::default()
        };
        let resource = |gvr: (&str, &str, &str), namespace: &str, name: &str, sub: &str| {
            Attributes::Resource {
                verb: "get".into(),
                gvr: GroupVersionResource::new(gvr.0, gvr.1, gvr.2),
                namespace: namespace.into(),
                name: name.into(),
                subresource: sub.into(),
                field_selector: String::new(),
                label_selector: String::new(),
            }
        };
        let pods = ("", "v1", "pods");
        for (attributes, reason, message) in [
            (
                resource(pods, "ns", "", ""),
                "",
                r#"pods is forbidden: User "jane &lt;b&gt;" cannot get resource "pods" in API group "" in the namespace "ns""#,
            ),
            (
                resource(pods, "ns", "x", "log"),
                "RBAC: <none>",
                r#"pods "x" is forbidden: User "jane &lt;b&gt;" cannot get resource "pods/log" in API group "" in the namespace "ns": RBAC: <none>"#,
            ),
            (
                resource(("apps", "v1", "deployments"), "", "", ""),
                "",
                r#"deployments.apps is forbidden: User "jane &lt;b&gt;" cannot get resource "deployments" in API group "apps" at the cluster scope"#,
            ),
            (
                Attributes::NonResource {
                    verb: "get".into(),
                    path: "/x&y".into(),
                },
                "",
                r#"forbidden: User "jane &lt;b&gt;" cannot get path "/x&amp;y""#,
            ),
        ] {
            let status = forbidden(&user, &attributes, reason);
            assert_eq!(status.message, message);
            assert_eq!((status.code, status.reason), (403, Reason::Forbidden));
        }
        let bytes = forbidden(&user, &resource(pods, "ns", "x", ""), "").to_json();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            text.contains(r#""details":{"name":"x","kind":"pods"},"code":403"#),
            "{text}"
        );
    }
}
