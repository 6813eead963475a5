//! Request bodies: size, media type, and what must be in an object.

use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use super::{call::Call, errors};
use crate::api::Status;

/// kube-apiserver's `MaxRequestBodyBytes`.
const LIMIT: usize = 3 * 1024 * 1024;

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

pub async fn read(incoming: Incoming) -> Result<Bytes, Status> {
    match Limited::new(incoming, LIMIT).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(format!(
            "Request entity too large: limit is {LIMIT}"
        ))),
        Err(error) => Err(Status::bad_request(error.to_string())),
    }
}

/// The media type of the body without its parameters; JSON if none is named.
pub fn media_type(headers: &HeaderMap) -> &str {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split(';').next())
        .map_or("application/json", str::trim)
}

/// An object of the resource, or of `kind` and `api_version` if it is one of a
/// subresource. Errors are those of the real decoder.
pub async fn object(
    call: &Call<'_>,
    incoming: Incoming,
    kind: &str,
    api_version: &str,
) -> Result<Value, Status> {
    if media_type(&call.head.headers) != "application/json" {
        return Err(errors::unsupported_media_type(ACCEPTED));
    }
    let bytes = read(incoming).await?;
    let unrecognized = |why: &str| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            excerpt(&bytes)
        ))
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
        unrecognized(&format!(
            "couldn't get version/kind; json parse error: {}",
            parse_error(&bytes, &error)
        ))
    })?;
    if !value.is_object() {
        return Err(unrecognized(&format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json_type(&value)
        )));
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (given_kind, given_version) = (text("kind"), text("apiVersion"));
    if call.resource.custom.is_some() {
        if given_kind.is_empty() {
            let body = String::from_utf8_lossy(&bytes);
            return Err(unrecognized(&format!(
                "Object 'Kind' is missing in '{body}'"
            )));
        }
        if given_version != api_version {
            return Err(Status::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
            )));
        }
    } else if !matches!(given_version, "" | "v1") && given_version != api_version {
        return Err(Status::bad_request(format!(
            "{given_kind} in version {given_version:?} cannot be handled as a {kind}: no kind {given_kind:?} is registered for version {given_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    } else if !given_kind.is_empty() && given_kind != kind {
        return Err(Status::bad_request(format!(
            "{given_kind} in version {given_version:?} cannot be handled as a {kind}: converting ({given_version}.{given_kind}) to (core.{kind}): unknown conversion"
        )));
    }
    Ok(value)
}

/// Go's words for what serde_json found, as far as they can be told.
fn parse_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let at = bytes
        .split(|&b| b == b'\n')
        .nth(error.line().saturating_sub(1))
        .and_then(|line| line.get(error.column().saturating_sub(1)))
        .copied()
        .unwrap_or(b' ');
    format!(
        "invalid character '{}' looking for beginning of value",
        char::from(at)
    )
}

fn excerpt(bytes: &[u8]) -> String {
    match bytes {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(bytes).into_owned(),
        // Data of no known form is shown in hexadecimal.
        _ => bytes
            .iter()
            .take(1024)
            .map(|b| format!("{b:02x}"))
            .collect(),
    }
}

pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether the request only asks what would happen.
pub fn dry_run(call: &Call<'_>, options: &str) -> Result<bool, Status> {
    let given: Vec<&str> = call.head.query.all("dryRun").collect();
    if given.iter().all(|&value| value == "All") {
        return Ok(!given.is_empty());
    }
    let list: Vec<String> = given.iter().map(|v| format!("{v:?}")).collect();
    let message = format!(
        "Unsupported value: [{}]: supported values: \"All\"",
        list.join(",")
    );
    Err(errors::invalid_options(
        options,
        vec![errors::cause("FieldValueNotSupported", "dryRun", message)],
    ))
}
