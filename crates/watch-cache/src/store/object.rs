//! One version of one object.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kubernetes_wire::api::{ObjectMeta, PartialObject, ResourceVersion, ShardHash, ShardKey};
use kubernetes_wire::representation::resource_version::with_resource_version;
use kubernetes_wire::representation::{Encoding, Envelope, NotEncodable, Projection};
use parking_lot::Mutex;

use super::buffer::Buffer;
use super::texts::{LabelTexts, ObjectTexts, Texts};
use super::{FieldTable, ObjectKey};

/// An object as the cache keeps it: its bytes, and the values that selectors test.
///
/// The bytes are a list item in the encoding in which it came. LIST, GET and WATCH
/// splice them into their envelopes. The item in the other encoding is made on
/// request, and kept if a leaf joins it for lists.
#[derive(Debug)]
pub struct StoredObject {
    pub key: ObjectKey,
    pub resource_version: u64,
    texts: ObjectTexts,
    /// The hash of the UID. Every shard of a list or watch asks for it.
    uid_hash: ShardHash,
    size: u32,
    /// The encoding of the bytes that came from upstream.
    encoding: Encoding,
    items: Mutex<Items>,
}

#[derive(Debug)]
struct Items {
    source: Placed,
    /// The item in the other encoding. It is kept if a leaf has joined it, or if the
    /// object is that of the store's last event.
    made: Option<Placed>,
}

/// The bytes of an item. They never change, but their place in memory may.
#[derive(Debug)]
enum Placed {
    /// The bytes have an allocation of their own. The box keeps objects small,
    /// because most have their bytes in buffers.
    Alone(Box<Bytes>),
    In {
        buffer: Arc<Buffer>,
        start: u32,
        end: u32,
    },
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Self::In { buffer, start, end } = self {
            buffer.release(end.saturating_sub(*start) as usize);
        }
    }
}

impl Placed {
    fn alone(bytes: Bytes) -> Self {
        Self::Alone(Box::new(bytes))
    }

    fn bytes(&self) -> Bytes {
        match self {
            Self::Alone(bytes) => Bytes::clone(bytes),
            Self::In { buffer, start, end } => buffer.slice(*start as usize..*end as usize),
        }
    }

    fn buffer(&self) -> Option<&Arc<Buffer>> {
        match self {
            Self::Alone(_) => None,
            Self::In { buffer, .. } => Some(buffer),
        }
    }

    fn is_in(&self, buffer: &Arc<Buffer>) -> bool {
        self.buffer().is_some_and(|b| Arc::ptr_eq(b, buffer))
    }

    fn move_out(&mut self) {
        *self = Self::alone(Bytes::copy_from_slice(&self.bytes()));
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MalformedObject {
    #[error("object is not JSON with metadata: {0}")]
    Json(#[from] serde_json::Error),
    #[error("protobuf that is not understood: {0}")]
    Protobuf(#[from] NotEncodable),
    #[error("object of another kind")]
    Kind,
    #[error("object has no name")]
    Nameless,
    #[error("object {0:?} has resourceVersion {1:?}: not a number")]
    ResourceVersion(ObjectKey, String),
}

impl StoredObject {
    /// Parses JSON. `item` is kept: it must not be a slice of a larger buffer.
    pub fn parse(item: Bytes, fields: &FieldTable) -> Result<Self, MalformedObject> {
        Ok(Self::selected(&item, fields)?.with_item(Encoding::Json, item))
    }

    /// Parses an item of either encoding. Refuses protobuf that holds something that
    /// JSON could not show.
    pub fn decode(
        encoding: Encoding,
        item: Bytes,
        fields: &FieldTable,
        envelope: &Envelope,
    ) -> Result<Self, MalformedObject> {
        let object = Self::decode_fresh(encoding, item, fields, envelope)?;
        object.shed();
        Ok(object)
    }

    /// Does the same as [`decode`](Self::decode), and keeps the JSON that is made on
    /// the way until [`go_stale`](Self::go_stale).
    pub(crate) fn decode_fresh(
        encoding: Encoding,
        item: Bytes,
        fields: &FieldTable,
        envelope: &Envelope,
    ) -> Result<Self, MalformedObject> {
        match encoding {
            Encoding::Json => Self::parse(item, fields),
            Encoding::Protobuf => {
                let mut json = Vec::with_capacity(item.len().saturating_mul(2));
                // This fails if the message holds something that JSON could not
                // show.
                envelope.transcode(&item, Encoding::Json, &mut json)?;
                let selected = match ObjectMeta::of_message(&item) {
                    Some(meta) => {
                        debug_assert_eq!(Some(&meta), metadata(&json).ok().as_ref());
                        Self::selected_by(meta, &json, fields)?
                    }
                    None => Self::selected(&json, fields)?,
                };
                let object = selected.with_item(encoding, item);
                object.items.lock().made = Some(Placed::alone(json.into()));
                Ok(object)
            }
        }
    }

    /// Reads the values that selectors test from the object's JSON.
    fn selected(json: &[u8], fields: &FieldTable) -> Result<Selected, MalformedObject> {
        Self::selected_by(metadata(json)?, json, fields)
    }

    /// Does the same as [`selected`](Self::selected) for an object whose metadata is
    /// known.
    fn selected_by(
        meta: ObjectMeta,
        json: &[u8],
        fields: &FieldTable,
    ) -> Result<Selected, MalformedObject> {
        if meta.name.is_empty() {
            return Err(MalformedObject::Nameless);
        }
        let key = ObjectKey::new(&meta.namespace, &meta.name);
        let Ok(ResourceVersion(resource_version)) = ResourceVersion::parse(&meta.resource_version)
        else {
            return Err(MalformedObject::ResourceVersion(key, meta.resource_version));
        };
        Ok(Selected {
            key,
            resource_version,
            texts: ObjectTexts::new(&meta.uid, &fields.values(json), &meta.labels),
        })
    }

    /// Returns the object as an item of a list. `None` if it cannot be written
    /// in the encoding.
    pub fn item(&self, encoding: Encoding, envelope: &Envelope) -> Option<Bytes> {
        let source = {
            let items = self.items.lock();
            if encoding == self.encoding {
                return Some(items.source.bytes());
            }
            if let Some(made) = &items.made {
                return Some(made.bytes());
            }
            items.source.bytes()
        };
        envelope.transcoded(&source, encoding).ok()
    }

    /// Returns the bytes in the encoding if they exist already.
    pub(crate) fn at_hand(&self, encoding: Encoding) -> Option<Bytes> {
        let items = self.items.lock();
        if encoding == self.encoding {
            return Some(items.source.bytes());
        }
        items.made.as_ref().map(Placed::bytes)
    }

    pub fn json(&self, envelope: &Envelope) -> Option<Bytes> {
        self.item(Encoding::Json, envelope)
    }

    /// Appends the JSON of the wanted parts of the object, from the bytes that came from
    /// upstream. If there is an error, `out` is left unchanged.
    pub fn project(
        &self,
        wanted: &Projection,
        envelope: &Envelope,
        out: &mut Vec<u8>,
    ) -> Result<(), NotEncodable> {
        let source = self.items.lock().source.bytes();
        envelope.project(&source, self.encoding, wanted, out)
    }

    pub fn uid(&self) -> &str {
        self.texts.uid()
    }

    /// Returns the values of the resource's [`FieldTable`], in its order.
    pub fn fields(&self) -> Texts<'_> {
        self.texts.fields()
    }

    pub fn labels(&self) -> LabelTexts<'_> {
        self.texts.labels()
    }

    /// Returns the encoding in which the object came.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub(super) fn is_version_of(&self, other: &Self) -> bool {
        self.resource_version == other.resource_version && self.uid() == other.uid()
    }

    /// Tells whether this is the same version of the same object and has the
    /// same bytes.
    pub(super) fn is_same(&self, other: &Self, envelope: &Envelope) -> bool {
        self.is_version_of(other)
            && self.item(self.encoding, envelope) == other.item(self.encoding, envelope)
    }

    /// Replaces the bytes of the encoding by the same bytes inside a buffer.
    pub(super) fn move_into(&self, buffer: &Arc<Buffer>, encoding: Encoding, at: &Range<u32>) {
        let placed = Placed::In {
            buffer: buffer.clone(),
            start: at.start,
            end: at.end,
        };
        let mut items = self.items.lock();
        if encoding == self.encoding {
            items.source = placed;
        } else {
            items.made = Some(placed);
        }
    }

    /// Copies the bytes that came from upstream out of their buffer, and drops the
    /// bytes that can be made again. Returns the buffers that the object has left.
    pub(super) fn leave(&self) -> [Option<Arc<Buffer>>; 2] {
        let mut items = self.items.lock();
        let source = items.source.buffer().cloned();
        if source.is_some() {
            items.source.move_out();
        }
        let made = items.made.take();
        let made = made.and_then(|made| made.buffer().cloned());
        [source, made]
    }

    /// Does the same as [`leave`](Self::leave) for one buffer only.
    pub(super) fn move_out_of(&self, buffer: &Arc<Buffer>) {
        let mut items = self.items.lock();
        if items.source.is_in(buffer) {
            items.source.move_out();
        }
        items.made.take_if(|made| made.is_in(buffer));
    }

    #[cfg(test)]
    pub(super) fn buffer(&self) -> Option<Arc<Buffer>> {
        self.items.lock().source.buffer().cloned()
    }

    /// Drops the bytes that can be made again, unless a leaf has joined them.
    pub(super) fn go_stale(&self) {
        let made = self
            .items
            .lock()
            .made
            .take_if(|made| made.buffer().is_none());
        drop(made);
    }

    /// Drops the bytes that can be made again.
    pub(super) fn shed(&self) {
        let made = self.items.lock().made.take();
        drop(made);
    }

    /// Returns the same object with another version. A DELETED event shows the last
    /// state that the watcher saw, with the version of the deletion. `None` if this
    /// cannot be written.
    pub fn stamped(&self, resource_version: u64, envelope: &Envelope) -> Option<Self> {
        let item = with_resource_version(&self.json(envelope)?, resource_version)?;
        let selected = Selected {
            key: self.key.clone(),
            resource_version,
            texts: self.texts.clone(),
        };
        Some(selected.with_item(Encoding::Json, item))
    }

    /// Returns the hash that decides to which shard the object belongs.
    pub fn shard_hash(&self, key: ShardKey) -> ShardHash {
        match key {
            ShardKey::Uid => self.uid_hash,
            ShardKey::Namespace => ShardHash::of_value(self.key.namespace()),
        }
    }

    /// Returns the number of bytes that a selector may have to read.
    pub fn selected_bytes(&self) -> usize {
        self.texts.size()
    }

    /// Returns about how many bytes the object holds, without those that can be made
    /// again.
    pub fn size(&self) -> usize {
        self.size as usize
    }
}

fn metadata(json: &[u8]) -> Result<ObjectMeta, serde_json::Error> {
    serde_json::from_slice::<PartialObject>(json).map(|object| object.metadata)
}

/// The bytes of an object's own parts: the value itself, the places of its texts in
/// memory, and its place in a tree.
const OBJECT_OVERHEAD_BYTES: usize = 200;

/// An object without its bytes.
struct Selected {
    key: ObjectKey,
    resource_version: u64,
    texts: ObjectTexts,
}

impl Selected {
    fn with_item(self, encoding: Encoding, item: Bytes) -> StoredObject {
        let size = [
            item.len(),
            self.key.as_str().len(),
            self.texts.size(),
            OBJECT_OVERHEAD_BYTES,
        ];
        let size: usize = size.iter().sum();
        let source = Placed::alone(item);
        StoredObject {
            key: self.key,
            uid_hash: ShardHash::of_value(self.texts.uid()),
            resource_version: self.resource_version,
            texts: self.texts,
            encoding,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            items: Mutex::new(Items { source, made: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::time::Instant;

    use kubernetes_wire::api::{GroupVersionResource, Labels};
    use kubernetes_wire::representation::Form;
    use proptest::prelude::*;

    use super::*;
    use crate::store::{Resource, Store, field_table};

    fn parse(item: &str) -> Result<StoredObject, MalformedObject> {
        let pods = field_table(&GroupVersionResource::new("", "v1", "pods"));
        StoredObject::parse(Bytes::copy_from_slice(item.as_bytes()), &pods)
    }

    #[test]
    fn objects_say_what_selects_them() {
        let item = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"y"}},"spec":{"nodeName":"node"},"status":{"phase":"Running"}}"#;
        let object = parse(item).unwrap();
        assert_eq!(object.key.as_str(), "n/a");
        assert_eq!((object.uid(), object.resource_version), ("u", 7));
        assert_eq!(object.labels().value_of("x"), Some("y"));
        assert!(object.fields().iter().any(|f| f == "node"));
        assert!(object.fields().iter().any(|f| f == "Running"));
        assert_eq!(object.items.lock().source.bytes(), item);
    }

    #[test]
    fn objects_are_small() {
        assert!(size_of::<StoredObject>() <= 112);
    }

    #[test]
    fn the_object_of_the_last_event_has_both_encodings() {
        let gvr = GroupVersionResource::new("", "v1", "pods");
        let envelope = Envelope::new(Form::Struct, "v1", "Pod", "PodList");
        let fields = field_table(&gvr);
        let item = |name: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"7","labels":{{"x":"y"}}}},"spec":{{"nodeName":"node"}}}}"#
            );
            envelope
                .transcoded(json.as_bytes(), Encoding::Protobuf)
                .unwrap()
        };
        let decode = |name: &str| {
            let encoding = Encoding::Protobuf;
            StoredObject::decode_fresh(encoding, item(name), &fields, &envelope).unwrap()
        };
        let listed = StoredObject::decode(Encoding::Protobuf, item("a"), &fields, &envelope);
        assert_eq!(listed.unwrap().at_hand(Encoding::Json), None);
        let resource = Resource {
            fields: fields.clone(),
            gvr,
            namespaced: true,
            envelope: envelope.clone(),
            bookmark: OnceLock::new(),
        };
        let (writer, store) = Store::new(resource, vec![decode("a")], 5);
        let json = |name: &str| {
            let snapshot = store.snapshot();
            let object = snapshot.get("n", name).unwrap();
            let made = object.at_hand(Encoding::Json);
            let expected = envelope.transcoded(&item(name), Encoding::Json).unwrap();
            assert!(made.as_ref().is_none_or(|made| *made == expected));
            made.is_some()
        };
        for version in 0..3 {
            let name = format!("b{version}");
            let mut object = decode(&name);
            object.resource_version = 10 + version;
            writer.apply_object(false, object, Instant::now());
            assert!(json(&name));
        }
        assert!(!json("b0") && !json("b1"));
        // An object in a joined leaf keeps both.
        let snapshot = store.snapshot();
        for leaf in snapshot.leaves() {
            leaf.joined(Encoding::Json, &envelope).unwrap();
        }
        snapshot.get("n", "b2").unwrap().go_stale();
        assert!(json("b0") && json("b2"));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for item in [
            "",
            "null",
            "{}",
            "[1]",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":""}}"#,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"-1"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"18446744073709551616"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":7}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"7","labels":{"x":1}}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"7"}} x"#,
        ] {
            assert!(parse(item).is_err(), "{item}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&format!(r#"{{"metadata":{{"name":"a"}},"x":{deep}"#)).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"".to_owned()),
                    Just("\"spec\":{\"nodeName\":".to_owned()),
                    Just("\"labels\":{\"a\":\"b\"}".to_owned()),
                    Just("}".to_owned()),
                    Just(",".to_owned()),
                    Just("\"\\ud800".to_owned()),
                    ".{0,6}",
                ],
                0..12,
            )
        ) {
            let _ = parse(&pieces.concat());
        }
    }
}
