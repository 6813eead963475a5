//! Request bodies: their size, media type and required fields.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use kubernetes_wire::{
    api::{GroupVersion, Status, query::go_quote, status::Cause},
    negotiation::{MediaType, input_media_type},
    representation::whole,
};
use serde_json::Value;

use super::{call::Call, errors, go_error};

/// kube-apiserver's `MaxRequestBodyBytes`.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

pub(super) const ACCEPTED: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

pub(super) async fn read(incoming: Incoming) -> Result<Bytes, Status> {
    match Limited::new(incoming, MAX_BODY_BYTES).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(format!(
            "Request entity too large: limit is {MAX_BODY_BYTES}"
        ))),
        Err(error) => Err(Status::bad_request(error.to_string())),
    }
}

pub(super) fn media_type(headers: &HeaderMap) -> Result<MediaType, Status> {
    let named = headers.get(CONTENT_TYPE).map(HeaderValue::to_str);
    // A media type that is not text is unknown.
    let named = named.map(|text| text.unwrap_or("?"));
    input_media_type(named).ok_or_else(|| errors::unsupported_media_type(ACCEPTED))
}

/// Decodes any value. The error is the parser's own.
pub(super) fn decode(media_type: MediaType, bytes: &[u8]) -> Result<Value, String> {
    match media_type {
        MediaType::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        MediaType::Yaml => yaml(bytes),
        MediaType::Protobuf => protobuf(bytes),
    }
}

fn protobuf(bytes: &[u8]) -> Result<Value, String> {
    let json =
        whole::from_protobuf(bytes).ok_or("proto: wrong kind, or a field that is not known")?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// Decodes the first document of a YAML stream. Like the real server, it does
/// not read any further. JSON is YAML too, and is tried first because its
/// parser is faster.
pub(super) fn yaml(bytes: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid UTF-8".to_owned())?;
    // If a key is repeated, the last value counts, as in JSON.
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let mut reader = text.as_bytes();
    match serde_saphyr::read_with_options::<_, Value>(&mut reader, options).next() {
        None => Ok(Value::Null),
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(format!("yaml: {error}")),
    }
}

/// Reads an object of the resource, or of a subresource's `kind` and
/// `api_version`. Errors are those of the real decoder.
pub(super) async fn object(
    call: &Call<'_>,
    incoming: Incoming,
    kind: &str,
    api_version: &str,
) -> Result<Value, Status> {
    object_of(call, incoming, kind, &[api_version]).await
}

/// Reads an object of a kind that has several versions, the preferred one first.
pub(super) async fn object_of(
    call: &Call<'_>,
    incoming: Incoming,
    kind: &str,
    api_versions: &[&str],
) -> Result<Value, Status> {
    let media_type = media_type(&call.head.headers)?;
    let bytes = read(incoming).await?;
    let unrecognized = |why: &str| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            excerpt(&bytes)
        ))
    };
    let value = match media_type {
        MediaType::Json => serde_json::from_slice(&bytes).map_err(|error| {
            unrecognized(&format!(
                "couldn't get version/kind; json parse error: {}",
                go_error::syntax(&bytes, &error)
            ))
        })?,
        MediaType::Protobuf if call.resource.custom.is_some() => {
            return Err(errors::unsupported_media_type(ACCEPTED));
        }
        MediaType::Yaml | MediaType::Protobuf => {
            decode(media_type, &bytes).map_err(|why| unrecognized(&why))?
        }
    };
    // An empty YAML document is an object without fields.
    let value = if value.is_null() && media_type == MediaType::Yaml {
        Value::Object(serde_json::Map::new())
    } else {
        value
    };
    if !value.is_object() {
        return Err(unrecognized(&format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_error::type_name(&value)
        )));
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (given_kind, given_version) = (text("kind"), text("apiVersion"));
    let api_version = api_versions
        .iter()
        .find(|known| **known == given_version)
        .or(api_versions.first())
        .copied()
        .unwrap_or_default();
    if call.resource.custom.is_some() {
        check_metadata(&value, "").map_err(|why| cannot_handle(kind, api_version, &why))?;
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
    } else {
        check_type(call, (kind, api_version), (given_kind, given_version))?;
        check_metadata(&value, kind).map_err(|why| cannot_handle(kind, api_version, &why))?;
    }
    Ok(value)
}

/// Finds metadata that cannot be decoded into its Go type. `kind` is empty for
/// custom resources, whose metadata is decoded by itself.
fn check_metadata(object: &Value, kind: &str) -> Result<(), String> {
    let Some(metadata) = object.get("metadata").filter(|m| !m.is_null()) else {
        return Ok(());
    };
    let cannot = |value: &Value, into: &str| {
        Err(format!(
            "json: cannot unmarshal {} into Go {into}",
            go_error::type_name(value)
        ))
    };
    let Some(metadata) = metadata.as_object() else {
        return match kind {
            "" => cannot(metadata, "value of type v1.ObjectMeta"),
            kind => cannot(
                metadata,
                &format!("struct field {kind}.metadata of type v1.ObjectMeta"),
            ),
        };
    };
    let path = if kind.is_empty() { "" } else { "metadata." };
    for key in ["name", "generateName", "namespace"] {
        if let Some(value) = metadata.get(key).filter(|v| !v.is_string() && !v.is_null()) {
            let into = format!("struct field ObjectMeta.{path}{key} of type string");
            return cannot(value, &into);
        }
    }
    for key in ["labels", "annotations"] {
        let Some(values) = metadata.get(key).filter(|v| !v.is_null()) else {
            continue;
        };
        let field = format!("struct field ObjectMeta.{path}{key} of type");
        let Some(values) = values.as_object() else {
            return cannot(values, &format!("{field} map[string]string"));
        };
        if let Some(value) = values.values().find(|v| !v.is_string() && !v.is_null()) {
            return cannot(value, &format!("{field} string"));
        }
    }
    Ok(())
}

fn cannot_handle(kind: &str, api_version: &str, why: &str) -> Status {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    Status::bad_request(format!(
        "{kind} in version {} cannot be handled as a {kind}: {why}",
        go_quote(version)
    ))
}

/// Checks the type of an object. Built-in kinds may leave it out. A wrong type
/// is refused with the text of the real server's scheme.
fn check_type(
    call: &Call<'_>,
    (kind, api_version): (&str, &str),
    (given_kind, given_version): (&str, &str),
) -> Result<(), Status> {
    let same_version = given_version.is_empty() || given_version == api_version;
    if same_version && (given_kind.is_empty() || given_kind == kind) {
        return Ok(());
    }
    let short = given_version.rsplit('/').next().unwrap_or_default();
    let group = api_version
        .split_once('/')
        .map_or("core", |(group, _)| group);
    let package = group.split('.').next().unwrap_or_default();
    let registered = GroupVersion::parse(given_version).is_some_and(|gv| {
        let served = call.server.served();
        served
            .in_version(&gv.group, &gv.version)
            .any(|resource| resource.kind == given_kind)
    });
    let why = if registered {
        format!("converting ({short}.{given_kind}) to ({package}.{kind}): unknown conversion")
    } else {
        format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            go_quote(given_kind),
            go_quote(given_version)
        )
    };
    Err(Status::bad_request(format!(
        "{given_kind} in version {} cannot be handled as a {kind}: {why}",
        go_quote(short)
    )))
}

/// The number of bytes of a body that an error shows (apimachinery `runtime
/// summarizeData`).
const EXCERPT_BYTES: usize = 30;

fn excerpt(bytes: &[u8]) -> String {
    let (head, dots) = match bytes.get(..EXCERPT_BYTES) {
        Some(head) if bytes.len() > EXCERPT_BYTES => (head, " ..."),
        _ => (bytes, ""),
    };
    match head {
        [] => "<empty>".to_owned(),
        [b'{', ..] => format!("{}{dots}", String::from_utf8_lossy(head)),
        // Data of an unknown form is shown in hexadecimal.
        _ => {
            let digits: String = head.iter().map(|b| format!("{b:02x}")).collect();
            format!("{digits}{dots}")
        }
    }
}

pub(super) fn dry_run(call: &Call<'_>, options: &str) -> Result<bool, Status> {
    let given: Vec<&str> = call.head.query.all("dryRun").collect();
    if given.iter().all(|&value| value == "All") {
        return Ok(!given.is_empty());
    }
    let list: Vec<String> = given.into_iter().map(go_quote).collect();
    let message = format!(
        "Unsupported value: [{}]: supported values: \"All\"",
        list.join(",")
    );
    Err(errors::invalid_options(
        options,
        vec![Cause::new("FieldValueNotSupported", "dryRun", message)],
    ))
}
