//! POST to a collection.

use std::sync::Arc;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use kubernetes_wire::api::{
    GroupResource, Reason, Status,
    query::go_quote,
    status::{Cause, Details},
};
use serde_json::{Map, Value};

use super::{body, call::Call, field_validation, reply::Body};
use crate::{
    meta::{self, text},
    registry::{self, check_name},
    storage::{CommitError, Expect, Stored},
    view,
};

/// The number of names that are tried for generateName until one is free
/// (`maxNameGenerationAttempts`).
const NAME_ATTEMPTS: usize = 8;

pub(super) async fn create(call: &Call<'_>, incoming: Incoming) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let resource = &call.resource;
    let mut object = body::object(call, incoming, &resource.kind, &resource.api_version()).await?;
    let dry_run = body::dry_run(call, "CreateOptions")?;
    field_validation::of_body(call, "CreateOptions", &mut object)?;
    let stored = insert(call, object, dry_run)?;
    call.object(StatusCode::CREATED, &stored)
}

pub(super) fn insert(
    call: &Call<'_>,
    mut object: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, Status> {
    let metadata = meta::metadata_mut(&mut object);
    if !text(metadata, "resourceVersion").is_empty() {
        return Err(Status::failure(
            500,
            Reason::Unknown,
            "resourceVersion should not be set on objects to be created",
        ));
    }
    set_namespace(call, metadata)?;
    let generate = text(metadata, "generateName").to_owned();
    let generated = text(metadata, "name").is_empty() && !generate.is_empty();
    let attempts = if generated { NAME_ATTEMPTS } else { 1 };
    let mut last = None;
    for _ in 0..attempts {
        let metadata = meta::metadata_mut(&mut object);
        if generated {
            metadata.insert("name".into(), meta::generate_name(&generate).into());
        }
        let mut complete = object.clone();
        complete_new(call, &mut complete)?;
        let name = meta::name(&complete).to_owned();
        match commit(call, &name, complete, dry_run) {
            Err(status) if generated && status.code == 409 => last = Some(status),
            result => return result,
        }
    }
    Err(last.unwrap_or_else(|| Status::internal_error("no free name found")))
}

fn set_namespace(call: &Call<'_>, metadata: &mut Map<String, Value>) -> Result<(), Status> {
    let namespace = &call.target.namespace;
    if !call.resource.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = text(metadata, "namespace");
    if !given.is_empty() && given != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata.insert("namespace".into(), namespace.clone().into());
    Ok(())
}

fn complete_new(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let resource = &call.resource;
    let kind = resource.kind_resource();
    let name = meta::name(object).to_owned();
    if resource.custom.is_some()
        && let Some(given) = object.get("kind").and_then(Value::as_str)
        && given != resource.kind
    {
        let given_kind = GroupResource {
            group: kind.group.clone(),
            resource: given.to_owned(),
        };
        let message = format!(
            "Invalid value: {}: must be {}",
            go_quote(given),
            resource.kind
        );
        return Err(Status::invalid(
            &given_kind,
            &name,
            vec![Cause::new("FieldValueInvalid", "kind", message)],
        ));
    }
    if name.is_empty() {
        return Err(Status::invalid(
            &kind,
            "",
            vec![Cause::new(
                "FieldValueRequired",
                "metadata.name",
                "Required value: name or generateName is required",
            )],
        ));
    }
    let mut causes = Vec::new();
    if let Err(why) = check_name(resource, &name) {
        causes.push(Cause::new("FieldValueInvalid", "metadata.name", why));
    }
    let metadata = meta::metadata_mut(object);
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(key);
    }
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    let now = meta::now();
    metadata.insert("creationTimestamp".into(), now.clone().into());
    if resource.generation {
        metadata.insert("generation".into(), 1.into());
    } else {
        metadata.remove("generation");
    }
    meta::drop_empty(metadata);
    registry::prepare_create(resource, object);
    if let Some(schema) = resource.schema() {
        causes.extend(schema.validate(object, None));
    }
    if !causes.is_empty() {
        return Err(Status::invalid(&kind, &name, causes));
    }
    if call.resource.is_definition() {
        registry::accept_definition(object, &now)?;
    }
    view::to_stored(resource, object);
    Ok(())
}

fn commit(
    call: &Call<'_>,
    name: &str,
    object: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, Status> {
    check_namespace(call, name)?;
    let resource = call.group_resource();
    let key = call.key(name);
    if dry_run {
        return match call.storage().get(&resource, &key) {
            Some(_) => Err(Status::already_exists(&resource, name)),
            None => Ok(Arc::new(dry(object))),
        };
    }
    let stored = call
        .storage()
        .put(&resource, &key, Expect::Absent, object)
        .map_err(|error| match error {
            CommitError::Exists => exists(call, &key, name),
            other => Status::internal_error(other),
        })?;
    if call.resource.is_definition() {
        call.server.refresh_definitions();
    }
    Ok(stored)
}

fn exists(call: &Call<'_>, key: &str, name: &str) -> Status {
    let resource = call.group_resource();
    let mut status = Status::already_exists(&resource, name);
    let found = call.storage().get(&resource, key);
    if found.is_some_and(|stored| meta::is_deleting(&stored.value)) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Makes the result of a dry run, which has no resourceVersion.
fn dry(object: Value) -> Stored {
    let mut stored = Stored::new(object, 0);
    if let Some(metadata) = stored
        .value
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
    {
        metadata.remove("resourceVersion");
    }
    stored
}

/// Checks that the namespace exists and is not being deleted, as
/// NamespaceLifecycle does.
fn check_namespace(call: &Call<'_>, name: &str) -> Result<(), Status> {
    if !call.resource.namespaced {
        return Ok(());
    }
    let namespace = call.target.namespace.as_str();
    let namespaces = GroupResource {
        group: String::new(),
        resource: "namespaces".to_owned(),
    };
    let found = call
        .storage()
        .get(&namespaces, namespace)
        .ok_or_else(|| Status::not_found(&namespaces, namespace))?;
    if !meta::is_deleting(&found.value) {
        return Ok(());
    }
    let resource = call.group_resource();
    Err(Status::failure(
        403,
        Reason::Forbidden,
        format!(
            "{resource} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated"
        ),
    )
    .with_details(Details {
        causes: vec![Cause::new(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {namespace} is being terminated"),
        )],
        ..Details::named(&resource, name)
    }))
}
