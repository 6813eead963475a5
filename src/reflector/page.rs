//! A page of a list, taken apart.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::list::ListError;
use crate::api::ResourceVersion;
use crate::api::protobuf_wire::{Fields, Value};
use crate::representation::message::Answer;
use crate::representation::{Encoding, Envelope, Form};

#[derive(Debug)]
pub(super) struct Page {
    pub(super) encoding: Encoding,
    pub(super) envelope: Envelope,
    pub(super) resource_version: u64,
    pub(super) continue_token: String,
    /// As they stand in the list; slices of its body.
    pub(super) items: Vec<Bytes>,
}

impl Page {
    pub(super) fn parse(encoding: Encoding, body: &Bytes) -> Result<Self, ListError> {
        match encoding {
            Encoding::Json => json(body),
            Encoding::Protobuf => message(body),
        }
    }
}

fn version(text: &str) -> Result<u64, ListError> {
    ResourceVersion::parse(text)
        .map(|version| version.0)
        .map_err(ListError::Version)
}

/// Kinds of lists are named after those of their items.
fn item_kind(list_kind: &str) -> &str {
    list_kind.strip_suffix("List").unwrap_or(list_kind)
}

fn json(body: &Bytes) -> Result<Page, ListError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        kind: String,
        api_version: String,
        metadata: Meta,
        #[serde(borrow, default)]
        items: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        #[serde(default)]
        resource_version: String,
        #[serde(default, rename = "continue")]
        continue_token: String,
    }
    // A CustomResourceDefinition may name its list kind freely; its items say
    // what they are.
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    let list: List = serde_json::from_slice(body)?;
    let form = Form::detect(body).ok_or(ListError::Form)?;
    let items = list.items.unwrap_or_default();
    let said = items
        .first()
        .and_then(|item| serde_json::from_str::<Kind>(item.get()).ok())
        .map(|k| k.kind)
        .filter(|kind| !kind.is_empty());
    let kind = said.as_deref().unwrap_or_else(|| item_kind(&list.kind));
    Ok(Page {
        encoding: Encoding::Json,
        envelope: Envelope::new(form, &list.api_version, kind, &list.kind),
        resource_version: version(&list.metadata.resource_version)?,
        continue_token: list.metadata.continue_token,
        items: items
            .into_iter()
            .map(|item| body.slice_ref(item.get().as_bytes()))
            .collect(),
    })
}

fn message(body: &Bytes) -> Result<Page, ListError> {
    let malformed = || ListError::Protobuf("not a list");
    let answer = Answer::parse(body).ok_or_else(malformed)?;
    let mut resource_version = "";
    let mut continue_token = "";
    let mut items = Vec::new();
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| malformed());
    for field in Fields::new(answer.message) {
        match field.map_err(|_| malformed())? {
            (1, Value::Bytes(metadata)) => {
                for field in Fields::new(metadata) {
                    match field.map_err(|_| malformed())? {
                        (2, Value::Bytes(version)) => resource_version = text(version)?,
                        (3, Value::Bytes(token)) => continue_token = text(token)?,
                        _ => {}
                    }
                }
            }
            (2, Value::Bytes(item)) => items.push(body.slice_ref(item)),
            // Of a newer server, or cut off.
            _ => return Err(ListError::Protobuf("a list with more than items")),
        }
    }
    let list_kind = answer.kind;
    let kind = item_kind(list_kind);
    Ok(Page {
        encoding: Encoding::Protobuf,
        envelope: Envelope::new(Form::Struct, answer.api_version, kind, list_kind),
        resource_version: version(resource_version)?,
        continue_token: continue_token.to_owned(),
        items,
    })
}
