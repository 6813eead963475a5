//! Reads the body of a query.

use std::time::Duration;

use apifront_query::Query;
use bytes::BytesMut;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use kubernetes_wire::api::{Reason, Status, warning};
use kubernetes_wire::negotiation::{MediaType, input_media_type};
use serde_ignored::Path;
use serde_json::Value;
use tokio::time::timeout;

use super::Unanswered;
use crate::queries;
use crate::server::exchange::Exchange;
use crate::server::stage::{Identified, PendingGrant};

/// The longest body. Its expressions have at most 4 KiB each.
const MAX_BODY: usize = 128 << 10;

/// How long a body may take to arrive. It holds a seat meanwhile.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// What happens with fields that the type does not have, as the parameter
/// `fieldValidation` of kube-apiserver has it (KEP-2885).
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Reads a query, and the warnings about fields that it should not have.
pub(super) async fn read(
    exchange: &mut Exchange<'_>,
    grant: &mut PendingGrant<'_>,
) -> Result<(Query, Vec<HeaderValue>), Unanswered> {
    let validation = field_validation(grant.identified())?;
    let headers = &exchange.request().headers;
    let content_type = headers.get(CONTENT_TYPE);
    let content_type = content_type.map(|value| value.to_str().unwrap_or("?"));
    let media_type = match input_media_type(content_type) {
        Some(media_type @ (MediaType::Json | MediaType::Yaml))
            if !headers.contains_key(CONTENT_ENCODING) =>
        {
            media_type
        }
        _ => return Err(unsupported().into()),
    };
    let mut body = BytesMut::new();
    let whole = async {
        while let Some(piece) = exchange.read_body().await? {
            grant.show(&piece);
            body.extend_from_slice(&piece);
            if body.len() > MAX_BODY {
                let message = format!("a Query may have at most {MAX_BODY} bytes");
                return Err(Status::too_large(message).into());
            }
        }
        Ok::<(), Unanswered>(())
    };
    match timeout(READ_WITHIN, whole).await {
        Ok(read) => read?,
        Err(_) => return Err(Status::bad_request("the body did not arrive in time").into()),
    }
    let (query, unknown) =
        parse(&body, media_type).map_err(|error| Status::bad_request(undecodable(&error)))?;
    check_type(&query)?;
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let unknown: Vec<String> = unknown.collect();
    match validation {
        _ if unknown.is_empty() => {}
        FieldValidation::Ignore => {}
        FieldValidation::Warn => {
            let warnings = unknown.iter().filter_map(|text| warning::header(text));
            return Ok((query, warnings.collect()));
        }
        FieldValidation::Strict => {
            let error = format!("strict decoding error: {}", unknown.join(", "));
            return Err(Status::bad_request(undecodable(&error)).into());
        }
    }
    Ok((query, Vec::new()))
}

/// Returns the text of kube-apiserver for a body that is not of its kind.
fn undecodable(error: &str) -> String {
    let (kind, version) = (queries::KIND, queries::group_version().version);
    format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}")
}

fn field_validation(identified: &Identified) -> Result<FieldValidation, Status> {
    match identified
        .query()
        .get("fieldValidation")
        .unwrap_or_default()
    {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(Status::bad_request(format!(
            "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
        ))),
    }
}

/// Returns the query, and the paths of its fields that the type does not have.
fn parse(body: &[u8], media_type: MediaType) -> Result<(Query, Vec<String>), String> {
    let json: Value = match media_type {
        MediaType::Yaml => serde_saphyr::from_slice(body).map_err(|error| error.to_string())?,
        _ => serde_json::from_slice(body).map_err(|error| error.to_string())?,
    };
    let json = without_nulls(json);
    if let Some(path) = not_an_object(&json) {
        return Err(format!("{path} must be an object"));
    }
    let mut unknown = Vec::new();
    let query = serde_ignored::deserialize(json, |path| unknown.push(written(&path)));
    Ok((query.map_err(|error| error.to_string())?, unknown))
}

/// Returns a path as Kubernetes writes it: `spec.orderBy[0].desc`.
fn written(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", written(parent)),
        Path::Map { parent, key } => match written(parent) {
            before if before.is_empty() => key.clone(),
            before => format!("{before}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => written(parent),
    }
}

/// Removes members that are null. For Kubernetes, they are not set.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let set = members.into_iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| (name, without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Returns the path of a value that is no object, and must be one. serde would also
/// accept a list of the members' values.
fn not_an_object(query: &Value) -> Option<String> {
    let is_wrong = |value: Option<&Value>| value.is_some_and(|value| !value.is_object());
    let spec = query.get("spec");
    let resource = spec.and_then(|spec| spec.get("resource"));
    for (path, value) in [
        ("", Some(query)),
        ("spec", spec),
        ("spec.resource", resource),
    ] {
        if is_wrong(value) {
            return Some(format!("Query.{path}").trim_end_matches('.').to_owned());
        }
    }
    for list in ["columns", "orderBy"] {
        let items = spec
            .and_then(|spec| spec.get(list))
            .and_then(Value::as_array);
        let wrong = items.and_then(|items| items.iter().position(|item| !item.is_object()));
        if let Some(at) = wrong {
            return Some(format!("Query.spec.{list}[{at}]"));
        }
    }
    None
}

fn check_type(query: &Query) -> Result<(), Status> {
    let api_version = queries::group_version().to_string();
    if query.kind == queries::KIND && query.api_version == api_version {
        return Ok(());
    }
    let message = format!(
        "the object must be of apiVersion {api_version:?} and kind {:?}, and is of {:?} and {:?}",
        queries::KIND,
        query.api_version,
        query.kind
    );
    Err(Status::bad_request(message))
}

fn unsupported() -> Status {
    let message = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml";
    Status::failure(415, Reason::UnsupportedMediaType, message)
}
