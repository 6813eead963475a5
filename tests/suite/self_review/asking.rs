//! Asks questions, and compares the answers.

use bytes::Bytes;
use http::Method;
use kubernetes_wire::representation::transcode;
use kubernetes_wire::schema::Schema;
use serde_json::{Value, json};

use crate::harness::client::{Answer, Client};
use crate::harness::encodings::wrap;

pub const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub const YAML: &str = "application/yaml";

const API_VERSION: &str = "authorization.k8s.io/v1";
const KIND: &str = "SelfSubjectAccessReview";

/// Returns a question as client-go sends it.
pub fn question(attributes: &Value) -> Value {
    of_spec(json!({ "resourceAttributes": attributes }))
}

pub fn of_spec(spec: Value) -> Value {
    json!({
        "kind": KIND, "apiVersion": API_VERSION, "metadata": {"creationTimestamp": null},
        "spec": spec, "status": {"allowed": false},
    })
}

/// Returns the question in protobuf. `None` if it has no such form.
pub fn in_protobuf(question: &str) -> Option<Vec<u8>> {
    let of_kind = Schema::builtin().kind(API_VERSION, KIND)?;
    let mut message = Vec::new();
    transcode::to_protobuf(of_kind, question.as_bytes(), &mut message).ok()?;
    Some(wrap(API_VERSION, KIND, &message))
}

/// Asks, and has apifront tell who answered.
pub async fn ask(client: &Client, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("x-apifront-debug", "cache")];
    all.extend_from_slice(headers);
    client.send(Method::POST, PATH, &all, body.into()).await
}

/// Asks in JSON.
pub async fn may(client: &Client, attributes: &Value) -> Answer {
    let body = question(attributes).to_string();
    ask(client, body, &[("content-type", JSON)]).await
}

pub fn is_allowed(answer: &Answer) -> bool {
    answer.expect(201)["status"]["allowed"] == true
}

pub fn is_remembered(answer: &Answer) -> bool {
    answer.header("x-apifront-cache") == "hit; remembered"
}

/// Returns the answer without the moment in it: `managedFields` has the time of the
/// request.
pub fn timeless(answer: &Answer) -> Answer {
    let body = match answer.header("content-type").contains("protobuf") {
        true => without_message_time(&answer.body),
        false => without_text_time(&answer.body),
    };
    Answer {
        body,
        ..answer.clone()
    }
}

fn without_text_time(body: &[u8]) -> Bytes {
    const LENGTH: usize = "2026-01-01T00:00:00Z".len();
    let mut body = body.to_vec();
    for before in ["\"time\":\"", "\"time\": \"", " time: \""] {
        let found = body
            .windows(before.len())
            .position(|found| found == before.as_bytes());
        if let Some(at) = found {
            let from = at + before.len();
            body[from..from + LENGTH].fill(b'T');
        }
    }
    body.into()
}

/// The time is field 4 of an entry, and its seconds field 1 of the time.
fn without_message_time(body: &[u8]) -> Bytes {
    const BEFORE: [u8; 3] = [0x22, 8, 8];
    const SECONDS: usize = 5;
    let mut body = body.to_vec();
    if let Some(at) = body.windows(3).position(|found| found == BEFORE) {
        body[at + 3..at + 3 + SECONDS].fill(0);
    }
    body.into()
}

/// Returns the last field of a message, whose fields all have a length: in a review
/// it is the status.
pub fn last_field(message: &[u8]) -> Vec<u8> {
    use kubernetes_wire::api::protobuf_wire::{Fields, Value};
    let fields = Fields::new(message).map(|field| field.expect("a message"));
    let last = fields.filter_map(|(_, value)| match value {
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    });
    last.last().unwrap_or_default()
}
