//! The protobuf around messages: a list, a single answer, a watch event.
//!
//! Every answer is a `runtime.Unknown` after the bytes `k8s\0`. A watch is a
//! sequence of `meta.v1.WatchEvent`s, each after its length in four bytes;
//! their objects are again such answers (k8s.io/apimachinery
//! `runtime/serializer/protobuf`).

use bytes::{BufMut, Bytes, BytesMut};

use super::{EventType, ListMeta};
use crate::api::protobuf::MAGIC;
use crate::api::protobuf_wire::{Fields, Value, field_len, put_bytes, put_prefix, put_varint};

/// Field numbers of `runtime.Unknown`.
const TYPE_META_FIELD: u8 = 1;
const RAW_FIELD: u8 = 2;
/// Empty `contentEncoding` and `contentType`, which Go writes too.
const EMPTY_CONTENT_FIELDS: &[u8] = &[0x1a, 0, 0x22, 0];

/// A kind with its apiVersion, as the first bytes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type(Bytes);

impl Type {
    /// Makes the first bytes of the answers of a kind.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let mut type_meta = BytesMut::new();
        put_bytes(1, api_version.as_bytes(), &mut type_meta);
        put_bytes(2, kind.as_bytes(), &mut type_meta);
        let mut out = BytesMut::from(&MAGIC[..]);
        put_bytes(TYPE_META_FIELD, &type_meta, &mut out);
        Self(out.freeze())
    }

    /// Returns the length of an answer whose message has this length.
    fn answer_len(&self, message: usize) -> usize {
        let around = self.0.len().saturating_add(EMPTY_CONTENT_FIELDS.len());
        field_len(message).saturating_add(around)
    }

    fn put_start(&self, length: usize, out: &mut BytesMut) {
        out.put_slice(&self.0);
        put_prefix(RAW_FIELD, length, out);
    }

    /// Returns the body of a GET.
    pub fn answer(&self, message: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(self.answer_len(message.len()));
        self.put_start(message.len(), &mut out);
        out.put_slice(message);
        out.put_slice(EMPTY_CONTENT_FIELDS);
        out.freeze()
    }

    /// Returns the bytes before and after the items of a list. `items` is the
    /// total length of the items with their keys and lengths.
    pub fn list(&self, meta: &ListMeta, items: usize) -> (Bytes, Bytes) {
        let mut metadata = BytesMut::new();
        put_list_meta(meta, &mut metadata);
        let length = field_len(metadata.len()).saturating_add(items);
        let mut out = BytesMut::new();
        self.put_start(length, &mut out);
        put_bytes(1, &metadata, &mut out);
        (out.freeze(), Bytes::from_static(EMPTY_CONTENT_FIELDS))
    }

    pub(crate) fn put_watch_frame(&self, event: EventType, message: &[u8], out: &mut BytesMut) {
        put_frame_start(event, self.answer_len(message.len()), out);
        self.put_start(message.len(), out);
        out.put_slice(message);
        out.put_slice(EMPTY_CONTENT_FIELDS);
    }

    /// Returns a watch event with a message as its object.
    pub fn watch_frame(&self, event: EventType, message: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        self.put_watch_frame(event, message, &mut out);
        out.freeze()
    }
}

/// Writes the bytes of a watch's frame before an answer of this length.
fn put_frame_start(event: EventType, answer: usize, out: &mut BytesMut) {
    let kind = event.as_str().as_bytes();
    let object = field_len(answer);
    let length = field_len(kind.len()).saturating_add(field_len(object));
    out.reserve(length.saturating_add(4));
    // No client accepts a longer frame.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    put_bytes(1, kind, out);
    put_prefix(2, object, out);
    put_prefix(1, answer, out);
}

/// Returns the frame of a watch event whose object is this answer.
pub(super) fn frame_of_answer(event: EventType, answer: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    put_frame_start(event, answer.len(), &mut out);
    out.put_slice(answer);
    out.freeze()
}

/// The parts of a `runtime.Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The group version: `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// The kind, such as `Pod`.
    pub kind: &'a str,
    /// The protobuf message of the object.
    pub message: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Splits a `runtime.Unknown`. The result is `None` if the bytes are
    /// something else, or if they have another encoding inside.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (mut api_version, mut kind, mut message) = ("", "", None);
        for field in Fields::new(bytes.strip_prefix(MAGIC)?) {
            match field.ok()? {
                (1, Value::Bytes(type_meta)) => {
                    for field in Fields::new(type_meta) {
                        match field.ok()? {
                            (1, Value::Bytes(text)) => {
                                api_version = std::str::from_utf8(text).ok()?
                            }
                            (2, Value::Bytes(text)) => kind = std::str::from_utf8(text).ok()?,
                            _ => return None,
                        }
                    }
                }
                (2, Value::Bytes(raw)) => message = Some(raw),
                // Fields 3 and 4 are contentEncoding and contentType.
                (3 | 4, Value::Bytes(b"")) => {}
                _ => return None,
            }
        }
        Some(Self {
            api_version,
            kind,
            message: message?,
        })
    }
}

/// Writes a `meta.v1.ListMeta`. Go writes all fields except the pointer, even
/// if they are empty.
fn put_list_meta(meta: &ListMeta, out: &mut BytesMut) {
    put_bytes(1, b"", out);
    put_bytes(2, meta.resource_version.as_bytes(), out);
    put_bytes(3, meta.continue_token.as_bytes(), out);
    if let Some(count) = meta
        .remaining_item_count
        .and_then(|n| usize::try_from(n).ok())
    {
        out.put_u8(4 << 3);
        put_varint(count, out);
    }
    if !meta.shard_selector.is_empty() {
        let mut shard_info = BytesMut::new();
        put_bytes(1, meta.shard_selector.as_bytes(), &mut shard_info);
        put_bytes(5, &shard_info, out);
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::representation::Encoding;

    #[derive(Clone, PartialEq, Message)]
    struct List {
        #[prost(message, optional, tag = "1")]
        metadata: Option<Meta>,
        #[prost(bytes = "vec", repeated, tag = "2")]
        items: Vec<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Meta {
        #[prost(string, optional, tag = "2")]
        resource_version: Option<String>,
        #[prost(string, optional, tag = "3")]
        token: Option<String>,
        #[prost(int64, optional, tag = "4")]
        remaining: Option<i64>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Unknown {
        #[prost(bytes = "vec", optional, tag = "1")]
        type_meta: Option<Vec<u8>>,
        #[prost(bytes = "vec", optional, tag = "2")]
        raw: Option<Vec<u8>>,
    }

    fn raw(answer: &[u8]) -> Vec<u8> {
        let unknown = answer.strip_prefix(MAGIC).unwrap();
        let unknown = Unknown::decode(unknown).unwrap();
        assert_eq!(unknown.type_meta.unwrap(), b"\x0a\x02v1\x12\x07PodList");
        unknown.raw.unwrap()
    }

    #[test]
    fn lists_are_well_formed_at_every_length() {
        let pods = Type::new("v1", "PodList");
        let meta = ListMeta {
            resource_version: "7".into(),
            continue_token: "x".into(),
            remaining_item_count: Some(300),
            ..ListMeta::default()
        };
        for length in [0, 1, 127, 128, 20_000] {
            let mut items = BytesMut::new();
            Encoding::Protobuf.put_item_prefix(length, &mut items);
            items.put_bytes(b'a', length);
            let (start, end) = pods.list(&meta, items.len());
            let list = List::decode(&raw(&[start, items.freeze(), end].concat())[..]).unwrap();
            assert_eq!(list.items, [vec![b'a'; length]]);
            let found = list.metadata.unwrap();
            assert_eq!(found.resource_version.unwrap(), "7");
            assert_eq!(
                (found.token.unwrap().as_str(), found.remaining),
                ("x", Some(300))
            );
        }
        assert_eq!(raw(&pods.answer(b"abc")), b"abc");
    }

    #[test]
    fn answers_come_apart() {
        let whole = Type::new("v1", "Pod").answer(b"abc");
        let answer = Answer {
            api_version: "v1",
            kind: "Pod",
            message: b"abc",
        };
        assert_eq!(Answer::parse(&whole), Some(answer));
        for end in 0..whole.len() - EMPTY_CONTENT_FIELDS.len() {
            assert_eq!(Answer::parse(&whole[..end]), None, "{end}");
        }
        assert_eq!(Answer::parse(b"k8s\0\x12\x01a\x1a\x04gzip"), None);
    }

    #[test]
    fn frames_tell_their_length() {
        let pods = Type::new("v1", "PodList");
        for length in [0, 127, 200, 70_000] {
            let message = vec![b'a'; length];
            let frame = pods.watch_frame(EventType::Added, &message);
            let (head, event) = frame.split_at(4);
            assert_eq!(
                u32::from_be_bytes(head.try_into().unwrap()) as usize,
                event.len()
            );
            // In WatchEvent, type and object are fields 1 and 2, in the same
            // form as in Unknown.
            let event = Unknown::decode(event).unwrap();
            assert_eq!(event.type_meta.unwrap(), b"ADDED");
            let object = Unknown::decode(&event.raw.unwrap()[..]).unwrap();
            assert_eq!(raw(&object.type_meta.unwrap()), message);
        }
    }
}
