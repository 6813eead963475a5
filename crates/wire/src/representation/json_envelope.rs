//! The JSON around an object's bytes: a list, a single answer, a watch event.
//!
//! kube-apiserver writes JSON in one of two forms. Built-in kinds are Go
//! structs: `kind` and `apiVersion` come first, and the items of a list have
//! neither. Custom resources are maps: keys are sorted, and items have both.
//! The stored bytes of an object are its *fragment*: its bytes as a list item.

use std::fmt;

use bytes::{Bytes, BytesMut};

use super::encoding::{Described, Encoding};
use super::protobuf_envelope::Type;
use super::scan;
use crate::api::go_json;

/// The order of the members in the JSON of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The form of Go structs.
    Struct,
    /// The form of Go maps.
    Map,
}

impl Form {
    /// Detects the form of an object or list from its first key. A list item in
    /// the struct form is detected by its first key `metadata`.
    pub fn detect(json: &[u8]) -> Option<Self> {
        let first = scan::members(json).next()?.ok()?;
        match first.key {
            b"apiVersion" => Some(Self::Map),
            b"kind" | b"metadata" => Some(Self::Struct),
            _ => None,
        }
    }
}

/// The `metadata` of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the state that the list shows.
    pub resource_version: String,
    /// Empty on the last page.
    pub continue_token: String,
    /// The number of objects after this page, if it is known.
    pub remaining_item_count: Option<i64>,
    /// The selector of a list that is a shard, empty for other lists. Lists in
    /// the map form have none.
    pub shard_selector: String,
}

impl ListMeta {
    /// Makes the metadata of a list that ends with this page.
    pub fn at(resource_version: impl fmt::Display) -> Self {
        Self {
            resource_version: resource_version.to_string(),
            ..Self::default()
        }
    }

    /// Returns the JSON object. In the map form it always contains `continue`,
    /// even if empty.
    pub fn to_json(&self, form: Form) -> String {
        let rv = quoted(&self.resource_version);
        let token = quoted(&self.continue_token);
        let remaining = self
            .remaining_item_count
            .map(|n| format!("\"remainingItemCount\":{n}"));
        let shard = || {
            let selector = quoted(&self.shard_selector);
            format!("\"shardInfo\":{{\"selector\":{selector}}}")
        };
        let members: Vec<String> = match form {
            Form::Struct => [
                (!self.resource_version.is_empty()).then(|| format!("\"resourceVersion\":{rv}")),
                (!self.continue_token.is_empty()).then(|| format!("\"continue\":{token}")),
                remaining,
                (!self.shard_selector.is_empty()).then(shard),
            ]
            .into_iter()
            .flatten()
            .collect(),
            Form::Map => [
                Some(format!("\"continue\":{token}")),
                remaining,
                Some(format!("\"resourceVersion\":{rv}")),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        format!("{{{}}}", members.join(","))
    }
}

/// The type of a watch event (`watch.EventType` of apimachinery).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `ADDED`: the object appeared.
    Added,
    /// `MODIFIED`: the object changed.
    Modified,
    /// `DELETED`: the object disappeared. The event carries its last state.
    Deleted,
    /// `BOOKMARK`: the watch has seen everything up to the version in the event.
    Bookmark,
    /// `ERROR`: the watch ends. The event carries a Status.
    Error,
}

impl EventType {
    /// Returns the text in the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }

    fn frame_prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
            Self::Bookmark => br#"{"type":"BOOKMARK","object":"#,
            Self::Error => br#"{"type":"ERROR","object":"#,
        }
    }
}

/// Returns a watch event with a whole object.
pub fn watch_frame(event: EventType, object: &[u8]) -> Bytes {
    let object = object.trim_ascii_end();
    let mut out = BytesMut::with_capacity(object.len().saturating_add(32));
    out.extend_from_slice(event.frame_prefix());
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.freeze()
}

/// The envelopes of one resource.
///
/// ```
/// use bytes::Bytes;
/// use kubernetes_wire::representation::{Encoding, Envelope, EventType, Form, ListMeta};
///
/// let pods = Envelope::new(Form::Struct, "v1", "Pod", "PodList");
/// let item = Bytes::from_static(br#"{"metadata":{"name":"web"}}"#);
/// let (before, after) = pods.list(Encoding::Json, &ListMeta::at(7), item.len());
/// let list = [&before[..], &item, &after].concat();
/// assert_eq!(
///     String::from_utf8_lossy(&list),
///     r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"web"}}]}
/// "#
/// );
/// let event = pods.watch_frame(Encoding::Json, EventType::Added, &item);
/// assert_eq!(
///     String::from_utf8_lossy(&event),
///     r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"}}}
/// "#
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The form of the JSON.
    pub form: Form,
    /// The group version: `v1`, `apps/v1`.
    pub api_version: String,
    /// The kind of an object, such as `Pod`.
    pub kind: String,
    /// The kind of a list, such as `PodList`.
    pub list_kind: String,
    /// The beginning of an object in the struct form:
    /// `{"kind":"Pod","apiVersion":"v1",`.
    type_prefix: Bytes,
    pub(super) described: Described,
    /// The types in the protobuf encoding.
    object_type: Type,
    list_type: Type,
}

impl Envelope {
    /// Makes the envelopes of a resource.
    pub fn new(form: Form, api_version: &str, kind: &str, list_kind: &str) -> Self {
        let type_prefix = format!("{},", type_members(api_version, kind));
        Self {
            form,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            list_kind: list_kind.to_owned(),
            type_prefix: type_prefix.into(),
            described: Described::new(form, api_version, kind),
            object_type: Type::new(api_version, kind),
            list_type: Type::new(api_version, list_kind),
        }
    }

    /// Returns the fragment of a whole object. The struct form needs a copy.
    /// The result is `None` if the bytes are not an object of this kind.
    pub fn fragment(&self, object: &Bytes) -> Option<Bytes> {
        let object = object.slice(..object.trim_ascii_end().len());
        match self.form {
            Form::Map => (Form::detect(&object) == Some(Form::Map)).then_some(object),
            Form::Struct => match object.strip_prefix(&self.type_prefix[..]) {
                Some(rest) => {
                    let mut out = BytesMut::with_capacity(rest.len().saturating_add(1));
                    out.extend_from_slice(b"{");
                    out.extend_from_slice(rest);
                    Some(out.freeze())
                }
                // If the first key is `metadata`, the bytes are already a fragment.
                None => object.starts_with(b"{\"metadata\":").then_some(object),
            },
        }
    }

    /// Returns the two parts of a whole object, without the newline that ends
    /// an answer. Nothing is copied.
    pub(crate) fn object_parts(&self, fragment: &Bytes) -> [Bytes; 2] {
        if !self.lacks_type(fragment) {
            return [Bytes::new(), fragment.clone()];
        }
        [self.type_prefix.clone(), fragment.slice(1..)]
    }

    /// Tells whether a list item is in the struct form without kind and apiVersion.
    pub(super) fn lacks_type(&self, fragment: &[u8]) -> bool {
        // Some servers write kind and apiVersion into list items of the struct
        // form.
        self.form == Form::Struct && fragment.starts_with(b"{\"metadata\":")
    }

    /// Returns the members `kind` and `apiVersion`, each with a comma after it.
    pub(super) fn type_members(&self) -> &[u8] {
        self.type_prefix.strip_prefix(b"{").unwrap_or_default()
    }

    fn single(&self, fragment: &Bytes) -> Bytes {
        let [prefix, rest] = self.object_parts(fragment);
        [&prefix[..], &rest[..], b"\n"].concat().into()
    }

    /// Returns the body of a GET.
    pub fn answer(&self, encoding: Encoding, item: &Bytes) -> Bytes {
        match encoding {
            Encoding::Json => self.single(item),
            Encoding::Protobuf => self.object_type.answer(item),
        }
    }

    /// Returns the bytes before and after the items of a list. `items` is the
    /// total length of the items.
    pub fn list(&self, encoding: Encoding, meta: &ListMeta, items: usize) -> (Bytes, Bytes) {
        match encoding {
            Encoding::Json => (self.list_prefix(meta), self.list_suffix(meta)),
            Encoding::Protobuf => self.list_type.list(meta, items),
        }
    }

    /// Returns a watch event with a list item as its object.
    pub fn watch_frame(&self, encoding: Encoding, event: EventType, item: &Bytes) -> Bytes {
        let mut out = BytesMut::new();
        self.append_watch_frame(encoding, event, item, &mut out);
        out.freeze()
    }

    /// Appends a watch event to `out`, as [`Envelope::watch_frame`] returns it.
    pub fn append_watch_frame(
        &self,
        encoding: Encoding,
        event: EventType,
        item: &Bytes,
        out: &mut BytesMut,
    ) {
        if encoding == Encoding::Protobuf {
            return self.object_type.put_watch_frame(event, item, out);
        }
        let [prefix, rest] = self.object_parts(item);
        let length = prefix.len().saturating_add(rest.len());
        out.reserve(length.saturating_add(32));
        out.extend_from_slice(event.frame_prefix());
        out.extend_from_slice(&prefix);
        out.extend_from_slice(&rest);
        out.extend_from_slice(b"}\n");
    }

    fn list_prefix(&self, meta: &ListMeta) -> Bytes {
        let api_version = quoted(&self.api_version);
        match self.form {
            Form::Struct => format!(
                "{{\"kind\":{},\"apiVersion\":{api_version},\"metadata\":{},\"items\":[",
                quoted(&self.list_kind),
                meta.to_json(self.form)
            ),
            Form::Map => format!("{{\"apiVersion\":{api_version},\"items\":["),
        }
        .into()
    }

    fn list_suffix(&self, meta: &ListMeta) -> Bytes {
        match self.form {
            Form::Struct => Bytes::from_static(b"]}\n"),
            Form::Map => format!(
                "],\"kind\":{},\"metadata\":{}}}\n",
                quoted(&self.list_kind),
                meta.to_json(self.form)
            )
            .into(),
        }
    }
}

/// Returns a whole object in the struct form from a list item.
pub fn with_type(api_version: &str, kind: &str, item: &[u8]) -> Bytes {
    let members = type_members(api_version, kind);
    match item.strip_prefix(b"{") {
        Some(b"}") | None => format!("{members}}}").into(),
        Some(rest) => [members.as_bytes(), b",", rest].concat().into(),
    }
}

fn type_members(api_version: &str, kind: &str) -> String {
    let (kind, api_version) = (quoted(kind), quoted(api_version));
    format!("{{\"kind\":{kind},\"apiVersion\":{api_version}")
}

fn quoted(text: &str) -> String {
    String::from_utf8(go_json::to_vec(text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Envelope {
        Envelope::new(Form::Struct, "v1", "Pod", "PodList")
    }

    fn widgets() -> Envelope {
        Envelope::new(Form::Map, "example.com/v1", "Widget", "WidgetList")
    }

    fn list(envelope: &Envelope, meta: &ListMeta) -> String {
        let bytes = [envelope.list_prefix(meta), envelope.list_suffix(meta)].concat();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn objects_come_apart_and_together() {
        let pod = Bytes::from_static(
            b"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}\n",
        );
        assert_eq!(Form::detect(&pod), Some(Form::Struct));
        let fragment = pods().fragment(&pod).unwrap();
        assert_eq!(fragment, "{\"metadata\":{\"name\":\"a\"}}");
        assert_eq!(pods().fragment(&fragment).unwrap(), fragment);
        assert_eq!(pods().single(&fragment), pod);
        assert_eq!(
            pods().watch_frame(Encoding::Json, EventType::Added, &fragment),
            "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}}\n"
        );

        let widget = Bytes::from_static(
            b"{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{}}\n",
        );
        assert_eq!(Form::detect(&widget), Some(Form::Map));
        let fragment = widgets().fragment(&widget).unwrap();
        assert_eq!(fragment.as_ptr(), widget.as_ptr());
        assert_eq!(widgets().single(&fragment), widget);
        assert_eq!(pods().fragment(&widget), None);
        assert_eq!(Form::detect(b"[]"), None);
    }

    #[test]
    fn items_become_whole() {
        assert_eq!(
            with_type("v1", "Pod", b"{\"spec\":{}}"),
            "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{}}"
        );
        assert_eq!(
            with_type("v1", "Pod", b"{}"),
            "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}"
        );
    }

    /// The expected bytes are kube-apiserver's.
    #[test]
    fn lists() {
        let last = ListMeta::at(218);
        let page = ListMeta {
            resource_version: "387".into(),
            continue_token: "abc".into(),
            remaining_item_count: Some(2),
            ..ListMeta::default()
        };
        assert_eq!(
            list(&pods(), &last),
            "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"218\"},\"items\":[]}\n"
        );
        assert_eq!(
            list(&pods(), &page),
            "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"387\",\"continue\":\"abc\",\"remainingItemCount\":2},\"items\":[]}\n"
        );
        assert_eq!(
            list(&widgets(), &last),
            "{\"apiVersion\":\"example.com/v1\",\"items\":[],\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"218\"}}\n"
        );
        assert_eq!(
            list(&widgets(), &page),
            "{\"apiVersion\":\"example.com/v1\",\"items\":[],\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"abc\",\"remainingItemCount\":2,\"resourceVersion\":\"387\"}}\n"
        );
    }
}
