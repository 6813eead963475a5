//! Binds a pod to a node, as a scheduler does (kubernetes
//! `pkg/registry/core/pod/storage`): at `pods/NAME/binding`, and at the older
//! `bindings`.

use http::{Response, StatusCode};
use hyper::body::Incoming;
use kubernetes_wire::api::{GroupResource, Reason, Status, query::go_quote};
use serde_json::{Map, Value, json};

use super::{
    body,
    call::{Call, MAX_WRITE_ATTEMPTS},
    errors,
    reply::{self, Body},
};
use crate::{
    meta,
    storage::{CommitError, Expect, Stored},
};

pub(super) async fn create(call: &Call<'_>, incoming: Incoming) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let binding = body::object_of(call, incoming, "Binding", &["v1"]).await?;
    let dry_run = body::dry_run(call, "CreateOptions")?;
    let name = match (call.target.name.as_str(), meta::name(&binding)) {
        ("", "") => return Err(Status::bad_request("Name parameter required.")),
        ("", given) => given,
        (wanted, given) if wanted == given => given,
        _ => {
            return Err(Status::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
    };
    let node = target(&binding)?;
    let pods = GroupResource {
        group: String::new(),
        resource: "pods".to_owned(),
    };
    let key = format!("{}/{name}", call.target.namespace);
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let stored = call
            .storage()
            .get(&pods, &key)
            .ok_or_else(|| Status::not_found(&pods, name))?;
        check(&stored, &binding, name, &key)?;
        if dry_run {
            return Ok(reply::done(StatusCode::CREATED));
        }
        let mut pod = stored.value.clone();
        bind(&mut pod, &binding, node, &meta::now());
        match call
            .storage()
            .put(&pods, &key, Expect::Revision(stored.revision), pod)
        {
            Ok(_) => return Ok(reply::done(StatusCode::CREATED)),
            Err(CommitError::Changed) => {}
            Err(_) => return Err(Status::not_found(&pods, name)),
        }
    }
    Err(errors::modified(&pods, name))
}

/// Returns the target's node, if a pod may be bound to it. An error is a 500,
/// unlike for all other validation errors.
fn target(binding: &Value) -> Result<&str, Status> {
    let text = |key: &str| {
        binding
            .pointer(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (kind, name) = (text("/target/kind"), text("/target/name"));
    let mut wrong = Vec::new();
    if !matches!(kind, "" | "Node") {
        wrong.push(format!(
            "target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"",
            go_quote(kind)
        ));
    }
    if name.is_empty() {
        wrong.push("target.name: Required value".to_owned());
    }
    let message = match wrong.as_slice() {
        [] => return Ok(name),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(Status::failure(500, Reason::Unknown, message))
}

fn check(pod: &Stored, binding: &Value, name: &str, key: &str) -> Result<(), Status> {
    let (wanted, uid) = (meta::uid(binding), meta::uid(&pod.value));
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        );
        return Err(conflict("pods", name, &why));
    }
    if meta::is_deleting(&pod.value) {
        let why = format!("pod {name} is being deleted, cannot be assigned to a host");
        return Err(conflict("pods/binding", name, &why));
    }
    match pod.value.pointer("/spec/nodeName").and_then(Value::as_str) {
        None | Some("") => {}
        Some(node) => {
            let why = format!("pod {name} is already assigned to node {}", go_quote(node));
            return Err(conflict("pods/binding", name, &why));
        }
    }
    let gates = pod.value.pointer("/spec/schedulingGates");
    if gates
        .and_then(Value::as_array)
        .is_some_and(|g| !g.is_empty())
    {
        let why = format!("pod {name} has non-empty .spec.schedulingGates");
        return Err(conflict("pods/binding", name, &why));
    }
    Ok(())
}

fn conflict(resource: &str, name: &str, why: &str) -> Status {
    let resource = GroupResource {
        group: String::new(),
        resource: resource.to_owned(),
    };
    Status::conflict(&resource, name, why)
}

fn bind(pod: &mut Value, binding: &Value, node: &str, now: &str) {
    let metadata = meta::metadata_mut(pod);
    for key in ["labels", "annotations"] {
        let given = binding.pointer(&format!("/metadata/{key}"));
        if let Some(given) = given.and_then(Value::as_object).filter(|g| !g.is_empty()) {
            meta::map_at(metadata, key).extend(given.clone());
        }
    }
    let Some(pod) = pod.as_object_mut() else {
        return;
    };
    meta::map_at(pod, "spec").insert("nodeName".into(), node.into());
    scheduled(meta::map_at(pod, "status"), now);
}

fn scheduled(status: &mut Map<String, Value>, now: &str) {
    let condition = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now,
    });
    let conditions = status
        .entry("conditions")
        .or_insert_with(|| json!([]))
        .as_array_mut();
    let Some(conditions) = conditions else {
        return;
    };
    conditions.retain(|c| c.get("type").and_then(Value::as_str) != Some("PodScheduled"));
    conditions.push(condition);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_nodes() {
        for (binding, wanted) in [
            (json!({"target": {"kind": "Node", "name": "n"}}), Ok("n")),
            (json!({"target": {"name": "n"}}), Ok("n")),
            (json!({}), Err("target.name: Required value")),
            (
                json!({"target": {"kind": "Pod"}}),
                Err(
                    "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]",
                ),
            ),
        ] {
            let got = target(&binding).map_err(|status| status.message);
            assert_eq!(got, wanted.map_err(str::to_owned));
        }
    }

    #[test]
    fn a_bound_pod_is_scheduled_and_takes_labels() {
        let mut pod = json!({
            "metadata": {"labels": {"a": "b"}},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]},
        });
        let binding = json!({"metadata": {"labels": {"c": "d"}, "annotations": {}}});
        bind(&mut pod, &binding, "n", "now");
        assert_eq!(pod["metadata"], json!({"labels": {"a": "b", "c": "d"}}));
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(
            pod["status"]["conditions"],
            json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "now"}])
        );
        let stored = Stored::new(pod, 1);
        let status = check(&stored, &json!({}), "a", "default/a").unwrap_err();
        assert_eq!(
            status.message,
            "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n\""
        );
    }
}
