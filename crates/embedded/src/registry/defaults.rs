//! Write strategies: the fields that the server sets, resets and fills in.

use base64::Engine;
use serde_json::{Map, Value, json};

use super::resource::{Resource, Subresource};
use crate::meta::map_at as child;

/// Prepares a new object. Removes status, which only the status subresource may
/// write, and fills in the most common defaults.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    if resource.has(Subresource::Status)
        && let Some(map) = object.as_object_mut()
        && resource.kind != "Node"
    {
        map.remove("status");
    }
    if resource.custom.is_none() {
        built_in_defaults(resource, object, true);
    } else if let Some(schema) = resource.schema() {
        schema.fill(object);
    }
}

/// Prepares the next state of an object. A write of the status subresource
/// takes only status from `object`; any other write keeps the old status.
pub(crate) fn prepare_update(resource: &Resource, object: &mut Value, old: &Value, status: bool) {
    if status {
        let metadata = object.get("metadata").cloned();
        let new_status = object.get("status").cloned();
        *object = old.clone();
        if let Some(map) = object.as_object_mut() {
            match new_status {
                Some(status) => map.insert("status".into(), status),
                None => map.remove("status"),
            };
        }
        if resource.custom.is_none()
            && let (Some(new), Some(Value::Object(given))) = (
                object.get_mut("metadata").and_then(Value::as_object_mut),
                metadata,
            )
        {
            for key in ["labels", "annotations"] {
                match given.get(key) {
                    Some(value) => new.insert(key.into(), value.clone()),
                    None => new.remove(key),
                };
            }
        }
    } else if resource.has(Subresource::Status)
        && let Some(map) = object.as_object_mut()
    {
        match old.get("status") {
            Some(status) => map.insert("status".into(), status.clone()),
            None => map.remove("status"),
        };
    }
    if resource.custom.is_none() {
        built_in_defaults(resource, object, false);
    } else if let Some(schema) = resource.schema() {
        schema.fill(object);
    }
}

fn built_in_defaults(resource: &Resource, object: &mut Value, create: bool) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    match resource.kind.as_str() {
        "Pod" => pod(map, create),
        "Namespace" => namespace(map, create),
        "Deployment" => {
            let spec = child(map, "spec");
            or(spec, "replicas", json!(1));
            or(spec, "revisionHistoryLimit", json!(10));
            or(spec, "progressDeadlineSeconds", json!(600));
            or(
                spec,
                "strategy",
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}),
            );
            template(spec);
            child(map, "status");
        }
        "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
            let spec = child(map, "spec");
            or(spec, "replicas", json!(1));
            template(spec);
            or(child(map, "status"), "replicas", json!(0));
        }
        "DaemonSet" => {
            let spec = child(map, "spec");
            or(spec, "revisionHistoryLimit", json!(10));
            template(spec);
            let status = child(map, "status");
            for key in [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
            ] {
                or(status, key, json!(0));
            }
        }
        "Job" => {
            let spec = child(map, "spec");
            for (key, value) in [
                ("parallelism", json!(1)),
                ("completions", json!(1)),
                ("backoffLimit", json!(6)),
                ("completionMode", json!("NonIndexed")),
                ("suspend", json!(false)),
            ] {
                or(spec, key, value);
            }
            template(spec);
            child(map, "status");
        }
        "CronJob" => {
            let spec = child(map, "spec");
            or(spec, "concurrencyPolicy", json!("Allow"));
            or(spec, "suspend", json!(false));
            child(map, "status");
        }
        "Service" => service(map),
        "Secret" => secret(map),
        "Node" => {
            child(map, "spec");
            child(map, "status");
        }
        "PersistentVolumeClaim" => {
            or(child(map, "spec"), "volumeMode", json!("Filesystem"));
            or(child(map, "status"), "phase", json!("Pending"));
        }
        "PersistentVolume" => {
            let spec = child(map, "spec");
            or(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
            or(spec, "volumeMode", json!("Filesystem"));
            or(child(map, "status"), "phase", json!("Pending"));
        }
        "Ingress" => or(child(map, "status"), "loadBalancer", json!({})),
        "APIService" => drop(child(map, "status")),
        "FlowSchema" => {
            or(child(map, "spec"), "matchingPrecedence", json!(1000));
            child(map, "status");
        }
        "PriorityLevelConfiguration" => {
            let limited = child(map, "spec").get_mut("limited");
            if let Some(limited) = limited.and_then(Value::as_object_mut) {
                or(limited, "nominalConcurrencyShares", json!(30));
                or(limited, "lendablePercent", json!(0));
            }
            child(map, "status");
        }
        _ => {}
    }
}

fn namespace(map: &mut Map<String, Value>, create: bool) {
    if create {
        child(map, "spec").insert("finalizers".into(), json!(["kubernetes"]));
        child(map, "status").insert("phase".into(), json!("Active"));
    }
    let metadata = child(map, "metadata");
    if let Some(name) = metadata.get("name").cloned() {
        child(metadata, "labels").insert("kubernetes.io/metadata.name".into(), name);
    }
}

fn pod(map: &mut Map<String, Value>, create: bool) {
    let spec = child(map, "spec");
    pod_spec(spec);
    or(
        spec,
        "tolerations",
        json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ]),
    );
    or(spec, "priority", json!(0));
    or(spec, "enableServiceLinks", json!(true));
    or(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    if create {
        let status = child(map, "status");
        or(status, "phase", json!("Pending"));
        or(status, "qosClass", json!("BestEffort"));
    }
}

fn template(spec: &mut Map<String, Value>) {
    let template = child(spec, "template");
    child(template, "metadata");
    pod_spec(child(template, "spec"));
}

fn pod_spec(spec: &mut Map<String, Value>) {
    for (key, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("securityContext", json!({})),
        ("schedulerName", json!("default-scheduler")),
    ] {
        or(spec, key, value);
    }
    for container in objects(spec.get_mut("containers")) {
        let latest = container
            .get("image")
            .and_then(Value::as_str)
            .is_none_or(|image| {
                match image
                    .rsplit_once('/')
                    .map_or(image, |(_, n)| n)
                    .split_once(':')
                {
                    Some((_, tag)) => tag == "latest",
                    None => true,
                }
            });
        let policy = if latest { "Always" } else { "IfNotPresent" };
        for (key, value) in [
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("imagePullPolicy", json!(policy)),
        ] {
            or(container, key, value);
        }
        for port in objects(container.get_mut("ports")) {
            or(port, "protocol", json!("TCP"));
        }
    }
}

fn service(map: &mut Map<String, Value>) {
    let (address, node_port) = (cluster_ip(map), node_port(map));
    let spec = child(map, "spec");
    or(spec, "type", json!("ClusterIP"));
    or(spec, "sessionAffinity", json!("None"));
    or(spec, "internalTrafficPolicy", json!("Cluster"));
    or(spec, "ipFamilies", json!(["IPv4"]));
    or(spec, "ipFamilyPolicy", json!("SingleStack"));
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        or(spec, "clusterIP", address.into());
        let first = spec.get("clusterIP").cloned().unwrap_or_default();
        or(spec, "clusterIPs", json!([first]));
    }
    let on_nodes = matches!(
        spec.get("type").and_then(Value::as_str),
        Some("NodePort" | "LoadBalancer")
    );
    for (port, node_port) in objects(spec.get_mut("ports")).zip(node_port..) {
        or(port, "protocol", json!("TCP"));
        if on_nodes {
            or(port, "nodePort", json!(node_port));
        }
        let target = port.get("port").cloned().unwrap_or_default();
        or(port, "targetPort", target);
    }
    or(child(map, "status"), "loadBalancer", json!({}));
}

/// Returns an address of 10.96.0.0/12, derived from the uid. This needs no
/// allocator that could run out, and equal addresses of two services do no harm
/// here.
fn cluster_ip(map: &Map<String, Value>) -> String {
    let [_, b, c, d] = uid_hash(map).to_be_bytes();
    format!("10.{}.{c}.{}", 96 | (b & 15), d.max(1))
}

/// Returns a port of 30000–32767, also derived from the uid. It leaves room for the
/// ports after the first.
fn node_port(map: &Map<String, Value>) -> u32 {
    (uid_hash(map) % 2_700).saturating_add(30_000)
}

fn uid_hash(map: &Map<String, Value>) -> u32 {
    map.get("metadata")
        .and_then(|metadata| metadata.get("uid")?.as_str())
        .unwrap_or_default()
        .bytes()
        .fold(0u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)))
}

fn secret(map: &mut Map<String, Value>) {
    or(map, "type", json!("Opaque"));
    let Some(Value::Object(plain)) = map.remove("stringData") else {
        return;
    };
    let data = child(map, "data");
    for (key, value) in plain {
        let text = value.as_str().unwrap_or_default();
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        data.insert(key, encoded.into());
    }
}

fn or(map: &mut Map<String, Value>, key: &str, value: Value) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

fn objects(value: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    value
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(kind: &str) -> Resource {
        super::super::built_in::resources()
            .into_iter()
            .find(|r| r.kind == kind)
            .unwrap()
    }

    #[test]
    fn status_is_written_through_its_subresource_only() {
        let deployments = resource("Deployment");
        let mut made = json!({"metadata": {}, "spec": {"replicas": 2}, "status": {"replicas": 9}});
        prepare_create(&deployments, &mut made);
        assert_eq!(made["status"], json!({}));
        assert_eq!(made["spec"]["revisionHistoryLimit"], 10);

        let mut next = made.clone();
        next["spec"]["replicas"] = json!(3);
        next["status"] = json!({"replicas": 3});
        let mut main = next.clone();
        prepare_update(&deployments, &mut main, &made, false);
        assert_eq!(
            (&main["spec"]["replicas"], &main["status"]),
            (&json!(3), &json!({}))
        );
        prepare_update(&deployments, &mut next, &made, true);
        assert_eq!(
            (&next["spec"]["replicas"], &next["status"]),
            (&json!(2), &json!({"replicas": 3}))
        );
    }
}
