//! Sends questions, and compares the answers.

use bytes::Bytes;
use http::Method;
use kubernetes_wire::representation::transcode;
use kubernetes_wire::schema::Schema;
use serde_json::{Value, json};

use crate::harness::client::{Answer, Client};
use crate::harness::encodings::wrap;
use crate::harness::media_types::JSON;

pub const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

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

/// Returns the question in protobuf, or `None` if it has no such form.
pub fn in_protobuf(question: &str) -> Option<Vec<u8>> {
    let of_kind = Schema::builtin().kind(API_VERSION, KIND)?;
    let mut message = Vec::new();
    transcode::to_protobuf(of_kind, question.as_bytes(), &mut message).ok()?;
    Some(wrap(API_VERSION, KIND, &message))
}

/// Sends a question, with the header that makes apifront say who answered.
pub async fn ask(client: &Client, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("x-apifront-debug", "cache")];
    all.extend_from_slice(headers);
    client.send(Method::POST, PATH, &all, body.into()).await
}

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

/// Returns the answer without its moment: `managedFields` contain the time of the
/// request, and so does the message that quotes them.
pub fn timeless(answer: &Answer) -> Answer {
    let mut body = answer.body.to_vec();
    blank_texts_of_times(&mut body);
    if answer.header("content-type").contains("protobuf") {
        blank_message_time(&mut body);
    }
    Answer {
        body: body.into(),
        ..answer.clone()
    }
}

fn blank_texts_of_times(body: &mut [u8]) {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00Z";
    let is_time = |found: &[u8]| {
        let same = |(byte, of): (&u8, &u8)| match of {
            b'0' => byte.is_ascii_digit(),
            of => byte == of,
        };
        found.iter().zip(SHAPE).all(same)
    };
    let times: Vec<_> = body
        .windows(SHAPE.len())
        .enumerate()
        .filter(|(_, found)| is_time(found))
        .map(|(at, _)| at)
        .collect();
    for at in times {
        body[at..at + SHAPE.len()].copy_from_slice(SHAPE);
    }
}

/// The time is field 4 of an entry, and its seconds field 1 of the time.
fn blank_message_time(body: &mut [u8]) {
    const BEFORE: [u8; 3] = [0x22, 8, 8];
    const SECONDS: usize = 5;
    if let Some(at) = body.windows(3).position(|found| found == BEFORE) {
        body[at + 3..at + 3 + SECONDS].fill(0);
    }
}

/// Returns the last field of a message whose fields all have a length. In a review
/// this is the status.
pub fn last_field(message: &[u8]) -> Vec<u8> {
    use kubernetes_wire::api::protobuf_wire::{Fields, Value};
    let fields = Fields::new(message).map(|field| field.expect("a message"));
    let last = fields.filter_map(|(_, value)| match value {
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    });
    last.last().unwrap_or_default()
}
