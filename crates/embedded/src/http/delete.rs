//! DELETE of an object and of a collection; two-phase deletion.

use std::{sync::Arc, time::Duration};

use chrono::{TimeDelta, Utc};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use kubernetes_wire::api::{
    GroupResource, Reason, Status,
    query::go_quote,
    status::{Cause, Details},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    body,
    call::{Call, MAX_WRITE_ATTEMPTS},
    errors, list, list_options, removal,
    reply::{self, Body, ready},
    selection::Selection,
};
use crate::{
    EmbeddedServer,
    meta::{self, GARBAGE_COLLECTION},
    storage::{CommitError, Expect, Stored},
    view,
};

/// The time after which a gracefully terminating pod is gone. There is no kubelet,
/// so the server itself ends pods. `kubectl delete` shows the pod terminating, and
/// returns.
const TERMINATION_DELAY: Duration = Duration::from_secs(1);

/// The delay of the garbage collector's work. There is no garbage collector, so the
/// server does it, late enough that watchers see the mark before the object goes.
const COLLECTION_DELAY: Duration = Duration::from_millis(100);

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Options {
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    pub dry_run: Vec<String>,
    preconditions: Option<Preconditions>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

pub(super) async fn delete(call: &Call<'_>, incoming: Incoming) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let options = options(call, incoming).await?;
    let stored = call.find()?;
    check(call, &options, &stored)?;
    let before = stored.clone();
    match begin(call, &options)? {
        Outcome::Object(stored) => call.object(StatusCode::OK, &stored),
        Outcome::Gone(stored) if call.resource.returns_deleted => {
            call.object(StatusCode::OK, &stored)
        }
        Outcome::Gone(_) => {
            let uid = meta::uid(&before.value);
            Ok(reply::deleted(
                &call.group_resource(),
                &call.target.name,
                uid,
            ))
        }
    }
}

/// Deletes the selected objects. The answer lists them as they were.
pub(super) async fn collection(
    call: &Call<'_>,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let options = options(call, incoming).await?;
    let list_options = list_options::decode(&call.head.query, false)?;
    call.resource.check_fields(&list_options.field_selector)?;
    let selection = Selection::from_call(call, list_options);
    let (items, meta) = list::page(call, &selection).await?;
    for item in &items {
        let mut one = Call::new(
            call.server,
            call.resource.clone(),
            call.target.clone(),
            call.head,
        );
        one.target.name = meta::name(&item.value).to_owned();
        match begin(&one, &options) {
            Err(status) if status.code != 404 => return Err(status),
            _ => {}
        }
    }
    Ok(ready(view::list(&call.resource, &items, &meta)))
}

/// Reads the options. The body takes precedence over the query, as in the real
/// server.
async fn options(call: &Call<'_>, incoming: Incoming) -> Result<Options, Status> {
    let bytes = body::read(incoming).await?;
    let mut options = if bytes.is_empty() {
        let query = &call.head.query;
        Options {
            grace_period_seconds: query
                .get("gracePeriodSeconds")
                .and_then(|text| text.parse().ok()),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            ..Options::default()
        }
    } else {
        let media_type = body::media_type(&call.head.headers)?;
        let value = body::decode(media_type, &bytes).map_err(Status::bad_request)?;
        Options::deserialize(&value).map_err(|error| Status::bad_request(error.to_string()))?
    };
    if body::dry_run(call, "DeleteOptions")? && options.dry_run.is_empty() {
        options.dry_run.push("All".to_owned());
    }
    if let Some(policy) = &options.propagation_policy
        && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
    {
        let message = format!(
            "Unsupported value: {}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            go_quote(policy)
        );
        return Err(errors::invalid_options(
            "DeleteOptions",
            vec![Cause::new(
                "FieldValueNotSupported",
                "propagationPolicy",
                message,
            )],
        ));
    }
    Ok(options)
}

fn check(call: &Call<'_>, options: &Options, stored: &Stored) -> Result<(), Status> {
    let Some(preconditions) = &options.preconditions else {
        return Ok(());
    };
    let kind = call.resource.kind_resource();
    let name = &call.target.name;
    let uid = meta::uid(&stored.value);
    if let Some(wanted) = &preconditions.uid
        && wanted != uid
    {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(&kind, name, &why));
    }
    if let Some(wanted) = &preconditions.resource_version
        && *wanted != stored.revision.to_string()
    {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({}). The object might have been modified",
            stored.revision
        );
        return Err(Status::conflict(&kind, name, &why));
    }
    Ok(())
}

pub(super) enum Outcome {
    /// Deletion has begun, and the object still exists.
    Object(Arc<Stored>),
    Gone(Arc<Stored>),
}

/// Deletes an object, or begins its deletion if something must happen before.
pub(super) fn begin(call: &Call<'_>, options: &Options) -> Result<Outcome, Status> {
    refuse_system_namespaces(call)?;
    let resource = call.group_resource();
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let stored = call.find()?;
        check(call, options, &stored)?;
        let grace = grace_period(call, options, &stored.value);
        let namespace = call.resource.is_namespace();
        // A pod's deletion always has two phases, however short the first is.
        let waits = !finalizers(call, options, &stored.value).is_empty()
            || call.resource.is_pod()
            || namespace
            || call.resource.is_definition();
        if !options.dry_run.is_empty() {
            return Ok(Outcome::Gone(stored));
        }
        if !waits {
            match call.storage().remove(
                &resource,
                &call.key(&call.target.name),
                Expect::Revision(stored.revision),
            ) {
                Ok(removed) => {
                    call.server
                        .namespace_content_removed(&call.target.namespace);
                    return Ok(Outcome::Gone(removed));
                }
                Err(CommitError::Changed) => continue,
                Err(_) => return Err(Status::not_found(&resource, &call.target.name)),
            }
        }
        if let Some(outcome) = mark(call, options, &stored, grace)? {
            return Ok(outcome);
        }
    }
    Err(errors::modified(&resource, &call.target.name))
}

/// Sets deletionTimestamp and begins what must happen before the end. `None` if
/// another write changed the object meanwhile.
fn mark(
    call: &Call<'_>,
    options: &Options,
    stored: &Arc<Stored>,
    grace: i64,
) -> Result<Option<Outcome>, Status> {
    let known_grace = stored
        .value
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let finalizers: Vec<String> = finalizers(call, options, &stored.value)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let is_marked = meta::is_deleting(&stored.value)
        && grace >= known_grace
        && finalizers == meta::finalizers(&stored.value);
    let marked = if is_marked {
        stored.clone()
    } else {
        let value = marked(call, &stored.value, finalizers, grace);
        let result = call.storage().put(
            &call.group_resource(),
            &call.key(&call.target.name),
            Expect::Revision(stored.revision),
            value,
        );
        match result {
            Ok(stored) => stored,
            Err(CommitError::Changed) => return Ok(None),
            Err(_) => {
                return Err(Status::not_found(&call.group_resource(), &call.target.name));
            }
        }
    };
    finish(call, marked, grace).map(Some)
}

fn marked(call: &Call<'_>, object: &Value, finalizers: Vec<String>, grace: i64) -> Value {
    let mut value = object.clone();
    let now = Utc::now();
    let end = TimeDelta::try_seconds(grace).and_then(|grace| now.checked_add_signed(grace));
    let metadata = meta::metadata_mut(&mut value);
    metadata.insert("finalizers".into(), finalizers.into());
    meta::drop_empty(metadata);
    metadata.insert(
        "deletionTimestamp".into(),
        meta::timestamp(end.unwrap_or(now)).into(),
    );
    if call.resource.is_definition() {
        let cleanup = json!(["customresourcecleanup.apiextensions.k8s.io"]);
        metadata.insert("finalizers".into(), cleanup);
    }
    let own_way = call.resource.is_namespace() || call.resource.is_definition();
    if !own_way {
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    if !own_way
        && !meta::is_deleting(object)
        && let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
    {
        metadata.insert("generation".into(), generation.saturating_add(1).into());
    }
    if call.resource.is_namespace()
        && let Some(status) = value.get_mut("status").and_then(Value::as_object_mut)
    {
        status.insert("phase".into(), "Terminating".into());
    }
    value
}

/// Begins the steps that end with the object's removal, or removes it at once.
fn finish(call: &Call<'_>, marked: Arc<Stored>, grace: i64) -> Result<Outcome, Status> {
    let later = |wait, then: fn(&EmbeddedServer, &GroupResource, &str, &str)| {
        let server = call.server.clone();
        let (resource, key) = (call.group_resource(), call.key(&call.target.name));
        let uid = meta::uid(&marked.value).to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            then(&server, &resource, &key, &uid);
        });
    };
    let is_collected = meta::finalizers(&marked.value)
        .into_iter()
        .any(|finalizer| GARBAGE_COLLECTION.contains(&finalizer));
    if is_collected {
        later(COLLECTION_DELAY, EmbeddedServer::finish_collection);
    }
    if call.resource.is_namespace() {
        call.server.empty_namespace(&call.target.name);
    } else if call.resource.is_definition() {
        call.server.remove_definition(&call.target.name);
    } else if grace > 0 {
        later(TERMINATION_DELAY, EmbeddedServer::finish_termination);
    } else if !meta::has_finalizers(&marked.value) {
        return Ok(Outcome::Gone(removal::remove(call, &marked)?));
    }
    Ok(Outcome::Object(marked))
}

/// Returns the finalizers of an object whose deletion was requested (apiserver
/// `registry/generic/registry deletionFinalizersForGarbageCollection`).
fn finalizers<'a>(call: &Call<'_>, options: &Options, object: &'a Value) -> Vec<&'a str> {
    let mut out = meta::finalizers(object);
    let Some(policy) = &options.propagation_policy else {
        return out;
    };
    if call.resource.is_namespace() || call.resource.is_definition() {
        return out;
    }
    out.retain(|finalizer| !GARBAGE_COLLECTION.contains(finalizer));
    match policy.as_str() {
        "Foreground" => out.push("foregroundDeletion"),
        "Orphan" => out.push("orphan"),
        _ => {}
    }
    out
}

/// Returns the seconds that a pod takes to end. Anything but a running pod ends at
/// once.
fn grace_period(call: &Call<'_>, options: &Options, object: &Value) -> i64 {
    let runs = object
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    if !call.resource.is_pod() || !runs || matches!(phase, Some("Succeeded" | "Failed")) {
        return 0;
    }
    options
        .grace_period_seconds
        .or_else(|| {
            object
                .pointer("/spec/terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
        })
        .unwrap_or(30)
        .max(0)
}

/// Refuses to delete the namespaces of the system, as NamespaceLifecycle does.
fn refuse_system_namespaces(call: &Call<'_>) -> Result<(), Status> {
    let name = call.target.name.as_str();
    if !call.resource.is_namespace() || !matches!(name, "default" | "kube-system" | "kube-public") {
        return Ok(());
    }
    Err(Status::failure(
        403,
        Reason::Forbidden,
        format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
    )
    .with_details(Details::named(&call.group_resource(), name)))
}
