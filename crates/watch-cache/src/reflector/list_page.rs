//! A parsed page of a list.

use bytes::Bytes;
use kubernetes_wire::api::ResourceVersion;
use kubernetes_wire::representation::list::{List, NotAList};
use kubernetes_wire::representation::{Encoding, Envelope, Form};
use serde::Deserialize;
use serde::de::Error;

use super::list_error::ListError;

/// The memory that an item of a page takes besides its bytes, while it is
/// parsed.
pub(super) const ITEM_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) encoding: Encoding,
    pub(super) envelope: Envelope,
    pub(super) resource_version: u64,
    pub(super) continue_token: String,
    /// The items as they stand in the list. They are slices of its body.
    pub(super) items: Vec<Bytes>,
}

impl ListPage {
    /// Parses a page. A page of more than `most` items is refused.
    pub(super) fn parse(encoding: Encoding, body: &Bytes, most: usize) -> Result<Self, ListError> {
        let list = List::parse(encoding, body, most)?;
        let envelope = match encoding {
            Encoding::Json => json_envelope(body, &list)?,
            Encoding::Protobuf => {
                let kind = item_kind(&list.kind);
                Envelope::new(Form::Struct, &list.api_version, kind, &list.kind)
            }
        };
        Ok(Self {
            encoding,
            envelope,
            resource_version: version(&list.resource_version)?,
            continue_token: list.continue_token,
            items: list.items.iter().map(|item| body.slice_ref(item)).collect(),
        })
    }
}

impl From<NotAList> for ListError {
    fn from(error: NotAList) -> Self {
        match error {
            NotAList::Json(error) => Self::Json(error),
            NotAList::Protobuf(what) => Self::Protobuf(what),
        }
    }
}

fn version(text: &str) -> Result<u64, ListError> {
    ResourceVersion::parse(text)
        .map(|version| version.0)
        .map_err(ListError::Version)
}

/// Returns the kind of a list's items. The list's kind is named after it.
fn item_kind(list_kind: &str) -> &str {
    list_kind.strip_suffix("List").unwrap_or(list_kind)
}

fn json_envelope(body: &[u8], list: &List<'_>) -> Result<Envelope, ListError> {
    // A CustomResourceDefinition may name its list kind freely. The items tell
    // their own kind.
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    for (field, value) in [("kind", &list.kind), ("apiVersion", &list.api_version)] {
        if value.is_empty() {
            return Err(serde_json::Error::missing_field(field).into());
        }
    }
    let form = Form::detect(body).ok_or(ListError::Form)?;
    let said = list
        .items
        .first()
        .and_then(|item| serde_json::from_slice::<Kind>(item).ok())
        .map(|k| k.kind)
        .filter(|kind| !kind.is_empty());
    let kind = said.as_deref().unwrap_or_else(|| item_kind(&list.kind));
    Ok(Envelope::new(form, &list.api_version, kind, &list.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_nothing_but_empty_items_is_refused() {
        let page = |items: &str| {
            let text = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":{items},"extra":[{{}}]}}"#
            );
            ListPage::parse(Encoding::Json, &Bytes::from(text), 3).map(|page| page.items.len())
        };
        for (items, expected) in [("null", 0), ("[]", 0), ("[{}]", 1), ("[{},{},{}]", 3)] {
            assert_eq!(page(items).unwrap(), expected, "{items}");
        }
        assert!(page("[{},{},{},{}]").is_err());
        assert!(page("{}").is_err() && page("[{}").is_err());
    }
}
