//! PATCH with its four media types.

use http::{HeaderMap, Response, StatusCode, header::CONTENT_TYPE};
use hyper::body::Incoming;
use kubernetes_wire::api::{
    Reason, Status,
    query::go_quote,
    status::{Cause, Details},
};
use serde_json::Value;

use super::{
    body,
    call::{Call, MAX_WRITE_ATTEMPTS},
    create, errors, field_validation, go_error,
    reply::Body,
    update,
};
use crate::{apply, meta, storage::Stored, strategic, view};

pub(super) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
    Apply {
        object: Value,
        manager: String,
        force: bool,
    },
}

/// The real server's limit for the operations of a JSON patch.
const MAX_OPERATIONS: usize = 10_000;

pub(super) async fn patch(
    call: &Call<'_>,
    status: bool,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let patch = read(call, incoming).await?;
    let dry_run = body::dry_run(call, "PatchOptions")?;
    if let Patch::Apply { object, .. } = &patch {
        field_validation::of_applied(call, object)?;
    }
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let old = match (call.find(), &patch) {
            (Ok(old), _) => old,
            (
                Err(_),
                Patch::Apply {
                    object, manager, ..
                },
            ) if !status => {
                let mut object = object.clone();
                apply::record(&mut object, None, manager, &call.resource.api_version(), "");
                let stored = create::insert(call, object, dry_run)?;
                return call.object(StatusCode::CREATED, &stored);
            }
            (Err(missing), _) => return Err(missing),
        };
        let current = view::value(&call.resource, &old);
        let subresource = if status { "status" } else { "" };
        let mut new = patch.apply(call, &current, subresource)?;
        field_validation::of_patched(call, &mut new)?;
        update::check_name(call, &new)?;
        check_uid(call, &old, &new)?;
        let given = meta::field(&new, "resourceVersion") != old.revision.to_string();
        match update::replace(call, &old, new, status, dry_run) {
            Ok(Some(stored)) => return call.object(StatusCode::OK, &stored),
            Ok(None) => {}
            // The version in the patched object is the one just read, unless the
            // patch itself named one.
            Err(conflict) if conflict.code == 409 && !given => {}
            Err(other) => return Err(other),
        }
    }
    Err(errors::modified(&call.group_resource(), &call.target.name))
}

/// Refuses a patch that changes the uid, because it would be about another
/// object.
fn check_uid(call: &Call<'_>, old: &Stored, new: &Value) -> Result<(), Status> {
    let uid = meta::uid(new);
    if uid == meta::uid(&old.value) {
        return Ok(());
    }
    let cause = Cause::new(
        "FieldValueInvalid",
        "metadata.uid",
        format!("Invalid value: {}: field is immutable", go_quote(uid)),
    );
    // The real server checks it twice and reports it twice.
    Err(Status::invalid(
        &call.resource.kind_resource(),
        &call.target.name,
        vec![cause.clone(), cause],
    ))
}

pub(super) async fn read(call: &Call<'_>, incoming: Incoming) -> Result<Patch, Status> {
    let media_type = media_type(&call.head.headers).to_owned();
    let custom = call.resource.custom.is_some();
    match media_type.as_str() {
        "application/json-patch+json" | "application/merge-patch+json" => {}
        "application/apply-patch+yaml" => {}
        "application/strategic-merge-patch+json" if !custom => {}
        "application/strategic-merge-patch+json" => {
            return Err(errors::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        // The router of the real server answers before its handlers do.
        _ => {
            return Err(Status::failure(
                415,
                Reason::UnsupportedMediaType,
                "415: Unsupported Media Type",
            )
            .with_details(Details::default()));
        }
    }
    let bytes = body::read(incoming).await?;
    let decode_error = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
    if media_type == "application/apply-patch+yaml" {
        return read_apply(call, &bytes);
    }
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|_| Status::bad_request("invalid JSON patch"))?;
    if media_type == "application/json-patch+json" {
        if !value.is_array() {
            return Err(decode_error(format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                go_error::type_name(&value)
            )));
        }
        if value
            .as_array()
            .is_some_and(|ops| ops.len() > MAX_OPERATIONS)
        {
            return Err(Status::too_large(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}"
            )));
        }
        let patch = serde_json::from_value(value).map_err(|_| unprocessable())?;
        return Ok(Patch::Json(patch));
    }
    if !value.is_object() {
        let why = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_error::type_name(&value)
        );
        return Err(match media_type.as_str() {
            "application/strategic-merge-patch+json" => Status::bad_request(why),
            _ => decode_error(why),
        });
    }
    Ok(if media_type == "application/merge-patch+json" {
        Patch::Merge(value)
    } else {
        Patch::Strategic(value)
    })
}

fn media_type(headers: &HeaderMap) -> &str {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split(';').next())
        .map_or("", str::trim)
}

fn read_apply(call: &Call<'_>, bytes: &[u8]) -> Result<Patch, Status> {
    let query = &call.head.query;
    let manager = query.get("fieldManager").unwrap_or_default();
    if manager.is_empty() {
        return Err(errors::invalid_options(
            "PatchOptions",
            vec![Cause::new(
                "FieldValueRequired",
                "fieldManager",
                "Required value: is required for apply patch",
            )],
        ));
    }
    let object: Value = body::yaml(bytes)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| Status::bad_request("error decoding patch: not an object"))?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind").is_empty() || text("apiVersion").is_empty() {
        let api_version = text("apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(Status::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={}",
            text("kind")
        )));
    }
    Ok(Patch::Apply {
        object,
        manager: manager.to_owned(),
        force: query.truthy("force"),
    })
}

fn unprocessable() -> Status {
    Status::failure(
        422,
        Reason::Invalid,
        "the server rejected our request due to an error in our request",
    )
    .with_details(Details::default())
}

impl Patch {
    /// Returns the patched object. The code that stores it checks its identity.
    pub(super) fn apply(
        &self,
        call: &Call<'_>,
        current: &Value,
        subresource: &str,
    ) -> Result<Value, Status> {
        let mut new = current.clone();
        match self {
            Self::Json(patch) => {
                json_patch::patch(&mut new, patch).map_err(|_| unprocessable())?;
            }
            Self::Merge(patch) => json_patch::merge(&mut new, patch),
            Self::Strategic(patch) => strategic::merge(&mut new, patch),
            Self::Apply {
                object,
                manager,
                force,
            } => {
                let api_version = call.resource.api_version();
                new = apply::apply(current, object, manager, *force, &api_version, subresource)
                    .map_err(|conflicts| conflicts.status())?;
            }
        }
        Ok(new)
    }
}
