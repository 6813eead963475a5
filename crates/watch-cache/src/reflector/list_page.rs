//! A page of a list: splits it into items, and decodes them.

use bytes::Bytes;
use kubernetes_wire::api::ResourceVersion;
use kubernetes_wire::representation::list::{List, NotAList};
use kubernetes_wire::representation::{Encoding, Envelope, Form};
use serde::Deserialize;
use serde::de::Error;

use super::list_error::ListError;
use super::memory_pool::MemoryReservation;
use crate::store::{FieldTable, Gatherer, StoredObject};

/// The memory that an item takes besides its bytes, while its page is parsed.
pub(super) const ITEM_BYTES: usize = 64;

/// The most bytes of a page that is parsed on a thread that serves requests.
/// That takes a few milliseconds.
const SPLIT_AT_ONCE: usize = 4 << 20;

/// The most bytes of objects that are decoded before other tasks have their
/// turn. Anybody with the right to write objects decides how large they are.
const DECODED_AT_ONCE: usize = 512 << 10;

#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) encoding: Encoding,
    pub(super) envelope: Envelope,
    pub(super) resource_version: u64,
    pub(super) continue_token: String,
    /// The items' bytes, as slices of the body.
    pub(super) items: Vec<Bytes>,
}

impl ListPage {
    /// Does the same as [`Self::parse`]. A long page is parsed on a thread of
    /// its own.
    pub(super) async fn parse_aside(
        encoding: Encoding,
        body: Bytes,
        most: usize,
    ) -> Result<Self, ListError> {
        if body.len() <= SPLIT_AT_ONCE {
            return Self::parse(encoding, &body, most);
        }
        tokio::task::spawn_blocking(move || Self::parse(encoding, &body, most))
            .await
            .unwrap_or_else(|e| Err(ListError::Body(e.to_string())))
    }

    /// Parses a page. Refuses a page of more than `most` items.
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

    pub(super) async fn decode(
        &self,
        fields: &FieldTable,
        reading: &mut MemoryReservation,
        into: &mut Gatherer,
    ) -> Result<(), ListError> {
        let mut in_turn: usize = 0;
        for item in &self.items {
            in_turn = in_turn.saturating_add(item.len());
            if in_turn > DECODED_AT_ONCE {
                in_turn = item.len();
                tokio::task::yield_now().await;
            }
            // A slice would keep the whole page alive.
            let item = Bytes::copy_from_slice(item);
            let object = StoredObject::decode(self.encoding, item, fields, &self.envelope)?;
            reading.take(object.size()).await?;
            into.push(object);
        }
        Ok(())
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

fn item_kind(list_kind: &str) -> &str {
    list_kind.strip_suffix("List").unwrap_or(list_kind)
}

fn json_envelope(body: &[u8], list: &List<'_>) -> Result<Envelope, ListError> {
    // A CustomResourceDefinition may name its list kind freely, so the kind is
    // read from an item if there is one.
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
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::reflector::memory_pool::MemoryPool;

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

    #[test]
    fn others_have_their_turn_while_large_objects_are_decoded() {
        let turns = |objects: usize, bytes: usize| {
            let item = |n: usize| {
                let text = "x".repeat(bytes);
                format!(r#"{{"metadata":{{"name":"{n}","resourceVersion":"1"}},"data":"{text}"}}"#)
            };
            let items: Vec<String> = (0..objects).map(item).collect();
            let body = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{}]}}"#,
                items.join(",")
            );
            let page = ListPage::parse(Encoding::Json, &Bytes::from(body), objects).unwrap();
            let mut reading = MemoryPool::unlimited().begin(0);
            let (fields, mut into) = (FieldTable::default(), Gatherer::default());
            let mut turns = 1;
            {
                let mut decoded = pin!(page.decode(&fields, &mut reading, &mut into));
                let mut context = Context::from_waker(Waker::noop());
                loop {
                    match decoded.as_mut().poll(&mut context) {
                        Poll::Pending => turns += 1,
                        Poll::Ready(done) => break done.unwrap(),
                    }
                }
            }
            assert_eq!(into.objects().len(), objects);
            turns
        };
        assert_eq!(turns(500, 100), 1);
        assert!(turns(500, 10_000) >= 9);
        assert_eq!(turns(8, 1 << 20), 9);
    }
}
