//! PUT, and the replacement that ends every write of an existing object.

use std::sync::Arc;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use kubernetes_wire::api::{Reason, ResourceVersion, Status, query::go_quote, status::Cause};
use serde_json::Value;

use super::{
    body,
    call::{Call, MAX_WRITE_ATTEMPTS},
    create, errors, field_validation, removal,
    reply::Body,
};
use crate::{
    meta::{self, text},
    registry,
    storage::{CommitError, Expect, Stored},
    view,
};

pub(super) async fn update(
    call: &Call<'_>,
    status: bool,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let resource = &call.resource;
    let mut object = body::object(call, incoming, &resource.kind, &resource.api_version()).await?;
    let dry_run = body::dry_run(call, "UpdateOptions")?;
    field_validation::of_body(call, "UpdateOptions", &mut object)?;
    check_name(call, &object)?;
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let old = match call.find() {
            Ok(old) => old,
            Err(_) if resource.create_on_update && !status => {
                let stored = create::insert(call, object, dry_run)?;
                return call.object(StatusCode::CREATED, &stored);
            }
            Err(status) => return Err(status),
        };
        let version = meta::field(&object, "resourceVersion");
        if version.is_empty() && !resource.unconditional_update {
            return Err(Status::invalid(
                &call.group_resource(),
                &call.target.name,
                vec![Cause::new(
                    "FieldValueInvalid",
                    "metadata.resourceVersion",
                    "Invalid value: 0: must be specified for an update",
                )],
            ));
        }
        if let Some(stored) = replace(call, &old, object.clone(), status, dry_run)? {
            return call.object(StatusCode::OK, &stored);
        }
    }
    Err(errors::modified(&call.group_resource(), &call.target.name))
}

/// Handles a PUT of namespaces/finalize, which changes only spec.finalizers.
pub(super) async fn finalize(
    call: &Call<'_>,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let resource = &call.resource;
    let object = body::object(call, incoming, &resource.kind, &resource.api_version()).await?;
    check_name(call, &object)?;
    let old = call.find()?;
    let mut new = view::value(resource, &old);
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
        match object.pointer("/spec/finalizers") {
            Some(finalizers) => spec.insert("finalizers".into(), finalizers.clone()),
            None => spec.remove("finalizers"),
        };
    }
    match replace(call, &old, new, false, false)? {
        Some(stored) => call.object(StatusCode::OK, &stored),
        None => Err(errors::modified(&call.group_resource(), &call.target.name)),
    }
}

pub(super) fn check_name(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let (given, wanted) = (meta::name(object), call.target.name.as_str());
    if given != wanted {
        return Err(Status::bad_request(if given.is_empty() {
            format!(
                "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            )
        } else {
            format!(
                "the name of the object ({given}) does not match the name on the URL ({wanted})"
            )
        }));
    }
    let namespace = meta::namespace(object);
    if call.resource.namespaced && !namespace.is_empty() && namespace != call.target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Stores `new`, a whole object of the call's version, in place of `old`.
/// `None` if another write came first and the caller may try again.
pub(super) fn replace(
    call: &Call<'_>,
    old: &Arc<Stored>,
    mut new: Value,
    status: bool,
    dry_run: bool,
) -> Result<Option<Arc<Stored>>, Status> {
    let resource = &call.resource;
    let name = call.target.name.as_str();
    let conditional = check_preconditions(call, old, &new)?;
    view::to_stored(resource, &mut new);
    keep_identity(&mut new, &old.value);
    registry::prepare_update(resource, &mut new, &old.value, status);
    meta::drop_empty(meta::metadata_mut(&mut new));
    if resource.is_definition() {
        registry::accept_definition(&mut new, &meta::now())?;
    }
    check_finalizers(call, old, &new)?;
    check_schema(call, old, &new, status)?;
    if resource.generation && !status && content_differs(&new, &old.value) {
        let generation = old
            .value
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        meta::metadata_mut(&mut new)
            .insert("generation".into(), generation.saturating_add(1).into());
    }
    if new == old.value {
        return Ok(Some(old.clone()));
    }
    if dry_run {
        return Ok(Some(Arc::new(Stored::new(new, old.revision))));
    }
    // The last finalizer was removed, so the deletion is completed.
    if meta::is_deleting(&old.value) && removal::is_complete(call, &new) {
        let stored = Stored::new(new, old.revision);
        removal::remove(call, old)?;
        return Ok(Some(Arc::new(stored)));
    }
    let result = call.storage().put(
        &call.group_resource(),
        &call.key(name),
        Expect::Revision(old.revision),
        new,
    );
    match result {
        Ok(stored) => {
            if resource.is_definition() {
                call.server.refresh_definitions();
            }
            Ok(Some(stored))
        }
        Err(_) if conditional => Err(errors::modified(&call.group_resource(), name)),
        Err(CommitError::Changed) => Ok(None),
        Err(CommitError::Missing) => Err(Status::not_found(&call.group_resource(), name)),
        Err(other) => Err(Status::internal_error(other)),
    }
}

/// Checks that uid and resourceVersion, if given in the object, match. Returns
/// whether a resourceVersion was given.
fn check_preconditions(call: &Call<'_>, old: &Stored, new: &Value) -> Result<bool, Status> {
    let resource = call.group_resource();
    let name = call.target.name.as_str();
    let (uid, known) = (meta::uid(new), meta::uid(&old.value));
    if !uid.is_empty() && uid != known {
        let group = if resource.group.is_empty() || call.resource.custom.is_none() {
            String::new()
        } else {
            format!("{}/", resource.group)
        };
        return Err(Status::conflict(
            &resource,
            name,
            &format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {known}",
                resource.resource,
                call.key(name)
            ),
        ));
    }
    let version = meta::field(new, "resourceVersion");
    if version.is_empty() {
        return Ok(false);
    }
    match version.parse::<u64>() {
        Ok(revision) if revision == old.revision => Ok(true),
        Ok(0) => Ok(false),
        Ok(_) => Err(errors::modified(&resource, name)),
        Err(_) => Err(Status::failure(
            500,
            Reason::Unknown,
            ResourceVersion::parse(version).err().unwrap_or_default(),
        )),
    }
}

fn check_schema(call: &Call<'_>, old: &Stored, new: &Value, status: bool) -> Result<(), Status> {
    let Some(schema) = call.resource.schema() else {
        return Ok(());
    };
    let causes = if status {
        schema.validate_status(new, &old.value)
    } else {
        schema.validate(new, Some(&old.value))
    };
    if causes.is_empty() {
        return Ok(());
    }
    let kind = call.resource.kind_resource();
    Err(Status::invalid(&kind, &call.target.name, causes))
}

fn check_finalizers(call: &Call<'_>, old: &Stored, new: &Value) -> Result<(), Status> {
    if !meta::is_deleting(&old.value) {
        return Ok(());
    }
    let known = meta::finalizers(&old.value);
    let added: Vec<String> = meta::finalizers(new)
        .into_iter()
        .filter(|finalizer| !known.contains(finalizer))
        .map(go_quote)
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let cause = Cause::new(
        "FieldValueForbidden",
        "metadata.finalizers",
        format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ),
    );
    Err(Status::invalid(
        &call.resource.kind_resource(),
        &call.target.name,
        vec![cause.clone(), cause],
    ))
}

fn keep_identity(new: &mut Value, old: &Value) {
    let Some(known) = old.get("metadata").and_then(Value::as_object) else {
        return;
    };
    let metadata = meta::metadata_mut(new);
    metadata.remove("selfLink");
    for key in [
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        match known.get(key) {
            Some(value) => metadata.insert(key.into(), value.clone()),
            None => metadata.remove(key),
        };
    }
    // Clients that leave managedFields out do not want to clear it.
    if text(metadata, "managedFields").is_empty()
        && !metadata.contains_key("managedFields")
        && let Some(fields) = known.get("managedFields")
    {
        metadata.insert("managedFields".into(), fields.clone());
    }
}

fn content_differs(new: &Value, old: &Value) -> bool {
    let content = |value: &Value| {
        let mut map = value.as_object().cloned().unwrap_or_default();
        map.remove("metadata");
        map.remove("status");
        map
    };
    content(new) != content(old)
}
