//! The content of an answer: the status, and each object's name, uid and
//! version.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::client::Answer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub status: u16,
    /// The objects, from successful answers only. Other tests compare the text of
    /// errors.
    pub objects: BTreeSet<String>,
}

impl Shown {
    /// Reads an answer. It is `None` if the server ended the stream: Go does so over
    /// HTTP/2 where it would answer 400 over HTTP/1.
    pub fn from_answer(answer: Option<&Answer>) -> Self {
        let Some(answer) = answer else {
            return Self {
                status: 400,
                objects: BTreeSet::new(),
            };
        };
        let mut objects = BTreeSet::new();
        if answer.status.is_success() {
            for line in values(&answer.body) {
                note(&line, "", &mut objects);
            }
        }
        Self {
            status: answer.status.as_u16(),
            objects,
        }
    }
}

/// Returns one document, the events of a watch, or any other body as text.
fn values(body: &[u8]) -> Vec<Value> {
    let documents = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    match documents.collect::<Result<Vec<Value>, _>>() {
        Ok(values) => values,
        Err(_) => vec![Value::String(String::from_utf8_lossy(body).into_owned())],
    }
}

fn note(value: &Value, what: &str, objects: &mut BTreeSet<String>) {
    let kind = value["kind"].as_str().unwrap_or_default();
    if let (Some(event), object) = (value["type"].as_str(), &value["object"])
        && object.is_object()
    {
        // Bookmarks are ignored, since each server has its own progress.
        if event != "BOOKMARK" {
            note(object, event, objects);
        }
        return;
    }
    // In an empty list this may be `null`.
    if let Some(items) = value.get("items") {
        objects.insert(format!("{what} {kind}"));
        let more = value["metadata"]["continue"].as_str().unwrap_or_default();
        objects.insert(format!("more: {}", !more.is_empty()));
        let items = items.as_array().into_iter().flatten();
        items.for_each(|item| note(item, what, objects));
        return;
    }
    if let Some(rows) = value.get("rows") {
        objects.insert(format!("{what} {kind}"));
        let rows = rows.as_array().into_iter().flatten();
        rows.for_each(|row| note(&row["object"], what, objects));
        return;
    }
    let metadata = &value["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default();
    if text("name").is_empty() {
        // The value is no object, but a document of discovery, a log or a Status.
        objects.insert(value.to_string());
        return;
    }
    let (namespace, name) = (text("namespace"), text("name"));
    let (uid, version) = (text("uid"), text("resourceVersion"));
    objects.insert(format!("{what} {namespace}/{name} {uid} {version}"));
}
