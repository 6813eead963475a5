//! Builds the objects that tests create.

use serde_json::{Value, json};

pub fn pod(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "example.test/image:1" }],
        },
    })
}

/// Returns a pod that is bound to `node`, as the scheduler would bind it.
pub fn pod_on_node(name: &str, labels: Value, node: &str) -> Value {
    let mut pod = pod(name, labels);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

pub fn config_map(name: &str, labels: Value, data: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "labels": labels },
        "data": data,
    })
}

/// Returns a CustomResourceDefinition `widgets.GROUP` with printer columns, a
/// selectable field, a status and a schema.
pub fn widget_definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList", "shortNames": ["wd"], "categories": ["all"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "selectableFields": [{ "jsonPath": ".spec.color" }],
                "additionalPrinterColumns": [
                    { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
                    { "name": "Size", "type": "integer", "jsonPath": ".spec.size",
                      "description": "How large it is", "priority": 1 },
                    { "name": "Ready", "type": "boolean", "jsonPath": ".status.ready" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "color": { "type": "string" },
                                "size": { "type": "integer", "minimum": 0 },
                                "ratio": { "type": "number" },
                                "note": { "type": "string" },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": { "ready": { "type": "boolean" } },
                        },
                    },
                }},
            }],
        },
    })
}

pub fn widget(group: &str, name: &str, color: &str, size: i64) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "Widget",
        "metadata": { "name": name, "labels": { "color": color } },
        "spec": { "color": color, "size": size, "ratio": 0.5, "note": "<b>&amp;</b> \u{2028} ü" },
    })
}

pub const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

pub fn flow_schema(name: &str, spec: Value) -> Value {
    flow_control("FlowSchema", name, spec)
}

pub fn priority_level(name: &str, spec: Value) -> Value {
    flow_control("PriorityLevelConfiguration", name, spec)
}

fn flow_control(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": name },
        "spec": spec,
    })
}

pub fn role(name: &str, groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": groups, "resources": resources, "verbs": verbs }],
    })
}

pub fn role_binding(name: &str, role: &str, subject_kind: &str, subject: &str) -> Value {
    binding("RoleBinding", "Role", name, role, subject_kind, subject)
}

pub fn cluster_role_binding(name: &str, role: &str, subject_kind: &str, subject: &str) -> Value {
    binding(
        "ClusterRoleBinding",
        "ClusterRole",
        name,
        role,
        subject_kind,
        subject,
    )
}

fn binding(
    kind: &str,
    role_kind: &str,
    name: &str,
    role: &str,
    subject_kind: &str,
    subject: &str,
) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": name },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role,
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": subject_kind, "name": subject,
        }],
    })
}
