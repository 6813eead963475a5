//! `?fieldValidation=`: the treatment of fields that the schema does not know
//! (KEP-2885). They are dropped, with a warning or an error if the client wants
//! one. Built-in kinds have no schema here, so they have no unknown fields.

use kubernetes_wire::api::{
    GroupResource, Reason, Status, go_json, query::go_quote, status::Cause,
};
use serde_json::Value;

use super::{call::Call, errors};

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

fn asked(call: &Call<'_>, options: &str) -> Result<FieldValidation, Status> {
    match call.head.query.get("fieldValidation").unwrap_or_default() {
        "Ignore" => Ok(FieldValidation::Ignore),
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        other => {
            let message = format!(
                "Unsupported value: {}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                go_quote(other)
            );
            let cause = Cause::new("FieldValueNotSupported", "fieldValidation", message);
            Err(errors::invalid_options(options, vec![cause]))
        }
    }
}

pub(super) fn of_body(call: &Call<'_>, options: &str, object: &mut Value) -> Result<(), Status> {
    let Some(why) = settle(call, options, object)? else {
        return Ok(());
    };
    let (kind, version) = (&call.resource.kind, &call.resource.gvr.version);
    Err(Status::bad_request(format!(
        "{kind} in version {} cannot be handled as a {kind}: {why}",
        go_quote(version)
    )))
}

pub(super) fn of_patched(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let before = call.resource.schema().map(|_| object.clone());
    let (Some(why), Some(before)) = (settle(call, "PatchOptions", object)?, before) else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&go_json::to_vec(&before)).into_owned();
    let message = format!("Invalid value: {}: {why}", go_quote(&text));
    let nothing = GroupResource {
        group: String::new(),
        resource: String::new(),
    };
    let cause = Cause::new("FieldValueInvalid", "patch", message);
    Err(Status::invalid(&nothing, "", vec![cause]))
}

/// Checks an applied configuration, which must always fit the schema.
pub(super) fn of_applied(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let Some(schema) = call.resource.schema() else {
        return Ok(());
    };
    let unknown = schema.prune(&mut object.clone());
    let Some(first) = unknown.first() else {
        return Ok(());
    };
    let resource = &call.resource;
    let namespace = crate::meta::namespace(object);
    Err(Status::failure(
        500,
        Reason::Unknown,
        format!(
            "failed to create typed patch object ({namespace}/{}; {}, Kind={}): .{first}: field not declared in schema",
            call.target.name,
            resource.api_version(),
            resource.kind
        ),
    ))
}

/// Drops unknown fields. Returns the decoder's error if the client wants one.
fn settle(call: &Call<'_>, options: &str, object: &mut Value) -> Result<Option<String>, Status> {
    let asked = asked(call, options)?;
    let Some(schema) = call.resource.schema() else {
        return Ok(None);
    };
    let unknown: Vec<String> = schema
        .prune(object)
        .iter()
        .map(|path| format!("unknown field {}", go_quote(path)))
        .collect();
    if asked == FieldValidation::Strict && !unknown.is_empty() {
        let why = format!("strict decoding error: {}", unknown.join(", "));
        return Ok(Some(why));
    }
    if asked == FieldValidation::Warn {
        for text in unknown {
            call.head.warn(&text);
        }
    }
    Ok(None)
}
