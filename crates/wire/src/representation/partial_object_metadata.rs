//! PartialObjectMetadata: an object reduced to its metadata.
//!
//! It is a Go struct in either form of the object. The metadata of built-in kinds
//! already has that form and is spliced. The sorted metadata of a custom resource
//! is reordered.
//!
//! The API server makes PartialObjectMetadata from its internal object. A few
//! kinds keep a field of the internal object in an annotation of the versioned
//! object (kubernetes `pkg/apis/*/v1/conversion.go`). PartialObjectMetadata
//! does not contain that annotation.

use bytes::{Bytes, BytesMut};

use super::json_envelope::{Envelope, Form, ListMeta};
use super::{managed_fields, scan, transcode};
use crate::api::protobuf_wire::{Fields, Value};
use crate::negotiation::MetaVersion;
use crate::schema::Schema;

/// The field number of `metadata` in every object's message.
const METADATA: u64 = 1;

/// The fields of `metav1.ObjectMeta`, in order. Strings, lists, maps and the
/// generation are omitted when empty; the grace period, a pointer, is not.
pub const OBJECT_META: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// The fields of `metav1.OwnerReference`, in order.
pub const OWNER_REFERENCE: [&str; 6] = [
    "apiVersion",
    "kind",
    "name",
    "uid",
    "controller",
    "blockOwnerDeletion",
];

/// The fields of `metav1.ManagedFieldsEntry`, in order.
pub const MANAGED_FIELDS_ENTRY: [&str; 7] = [
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
    "subresource",
];

fn conversion_annotations(envelope: &Envelope) -> &'static [&'static str] {
    match (envelope.api_version.as_str(), envelope.kind.as_str()) {
        ("apps/v1", "DaemonSet") => &["deprecated.daemonset.template.generation"],
        ("apps/v1", "Deployment") => &["deprecated.deployment.rollback.to"],
        ("autoscaling/v1", "HorizontalPodAutoscaler") => &[
            "autoscaling.alpha.kubernetes.io/behavior",
            "autoscaling.alpha.kubernetes.io/conditions",
            "autoscaling.alpha.kubernetes.io/current-metrics",
            "autoscaling.alpha.kubernetes.io/metrics",
        ],
        // Releases before 1.32 serve this version.
        ("flowcontrol.apiserver.k8s.io/v1beta3", "PriorityLevelConfiguration") => {
            &["flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"]
        }
        _ => &[],
    }
}

/// Tells whether PartialObjectMetadata lacks some of an object's annotations.
pub(crate) fn hides_annotations(envelope: &Envelope) -> bool {
    !conversion_annotations(envelope).is_empty()
}

/// An object's metadata as PartialObjectMetadata shows it. It can be kept with the
/// object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metadata {
    /// A range of the object's JSON: start and end.
    At(u32, u32),
    /// Metadata that was written anew.
    Made(Box<[u8]>),
}

impl Metadata {
    /// Finds the metadata in an object's JSON. The result is `None` if it
    /// contains an unknown field.
    pub fn find(json: &[u8], envelope: &Envelope) -> Option<Self> {
        let span = scan::find(json, &["metadata"])?;
        let metadata = json.get(span.clone())?;
        let mut out = BytesMut::new();
        match (envelope.form, conversion_annotations(envelope)) {
            (Form::Struct, []) => {
                return Some(Self::At(
                    span.start.try_into().ok()?,
                    span.end.try_into().ok()?,
                ));
            }
            (Form::Struct, hidden) => splice_without(metadata, hidden, &mut out)?,
            (Form::Map, _) => reorder(metadata, &OBJECT_META, &mut out)?,
        }
        Some(Self::Made(Box::from(&out[..])))
    }

    /// Makes the metadata from the protobuf of a list item. Nothing else of the
    /// item is read.
    pub fn of_message(item: &[u8], envelope: &Envelope) -> Option<Self> {
        let (METADATA, Value::Bytes(message)) = Fields::new(item).next()?.ok()? else {
            return None;
        };
        let mut json = Vec::with_capacity(message.len().saturating_mul(2));
        let kind = Schema::builtin().message("meta/v1.ObjectMeta")?;
        transcode::to_json(kind, message, &mut json).ok()?;
        let hidden = conversion_annotations(envelope);
        if hidden.is_empty() {
            return Some(Self::Made(json.into()));
        }
        let mut out = BytesMut::new();
        splice_without(&json, hidden, &mut out)?;
        Some(Self::Made(Box::from(&out[..])))
    }

    /// Returns the metadata without `managedFields`, as a value of its own. `json` is the
    /// JSON of the object, as for [`Metadata::bytes`].
    pub fn without_managed_fields(&self, json: &[u8]) -> Option<Self> {
        managed_fields::without_in_metadata(self.bytes(json)).map(Self::Made)
    }

    /// Returns the bytes of the metadata. `json` is the JSON of the object; it
    /// is used only for [`Metadata::At`].
    pub fn bytes<'a>(&'a self, json: &'a [u8]) -> &'a [u8] {
        match self {
            Self::At(start, end) => json.get(*start as usize..*end as usize).unwrap_or_default(),
            Self::Made(bytes) => bytes,
        }
    }

    /// Tells whether [`Metadata::bytes`] reads the JSON of the object.
    pub fn needs_json(&self) -> bool {
        matches!(self, Self::At(..))
    }

    /// Returns the number of bytes that the value takes.
    pub fn size(&self) -> usize {
        let made = match self {
            Self::At(..) => 0,
            Self::Made(bytes) => bytes.len(),
        };
        size_of::<Self>().saturating_add(made)
    }

    /// Returns the parts of the PartialObjectMetadata, without a newline: a row
    /// of a Table, an item of a list, or the object of an event.
    pub fn object<'a>(&'a self, json: &'a [u8], version: MetaVersion) -> [&'a [u8]; 3] {
        [object_prefix(version), self.bytes(json), b"}"]
    }
}

fn object_prefix(version: MetaVersion) -> &'static [u8] {
    match version {
        MetaVersion::V1 => {
            br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#
        }
        MetaVersion::V1Beta1 => {
            br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":"#
        }
    }
}

/// Returns the PartialObjectMetadata, without a newline. The result is `None`
/// if the metadata contains an unknown field.
pub fn object(json: &[u8], envelope: &Envelope, version: MetaVersion) -> Option<Bytes> {
    let metadata = Metadata::find(json, envelope)?;
    Some(metadata.object(json, version).concat().into())
}

/// Returns the bytes before the first item of a PartialObjectMetadataList. A
/// list without items has `null` instead of an array.
pub fn list_prefix(meta: &ListMeta, version: MetaVersion, empty: bool) -> Bytes {
    format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":{}",
        version.api_version(),
        meta.to_json(Form::Struct),
        if empty { "null" } else { "[" }
    )
    .into()
}

/// Returns the bytes after the last item.
pub fn list_suffix(empty: bool) -> Bytes {
    Bytes::from_static(if empty { b"}\n" } else { b"]}\n" })
}

/// Writes the metadata without the annotations `hidden`. If no annotation
/// remains, the member is left out.
fn splice_without(metadata: &[u8], hidden: &[&str], out: &mut BytesMut) -> Option<()> {
    let Some(span) = scan::find(metadata, &["annotations"]) else {
        out.extend_from_slice(metadata);
        return Some(());
    };
    let annotations = metadata.get(span.clone())?;
    let mut kept = Vec::new();
    for member in scan::members(annotations) {
        let member = member.ok()?;
        if !hidden.iter().any(|h| h.as_bytes() == member.key) {
            kept.push([b"\"", member.key, b"\":", member.value].concat());
        }
    }
    let (before, after) = (metadata.get(..span.start)?, metadata.get(span.end..)?);
    if kept.is_empty() {
        let before = before.strip_suffix(b"\"annotations\":")?;
        match before.strip_suffix(b",") {
            Some(before) => out.extend_from_slice(&[before, after].concat()),
            None => {
                out.extend_from_slice(&[before, after.strip_prefix(b",").unwrap_or(after)].concat())
            }
        }
    } else {
        out.extend_from_slice(&[before, b"{", &kept.join(&b","[..]), b"}", after].concat());
    }
    Some(())
}

/// Writes the members of an object in the map form in the order of `fields`.
/// The result is `None` if there are other members.
fn reorder(json: &[u8], fields: &[&str], out: &mut BytesMut) -> Option<()> {
    let members: Vec<_> = scan::members(json).collect::<Result<_, _>>().ok()?;
    if members
        .iter()
        .any(|m| !fields.iter().any(|f| f.as_bytes() == m.key))
    {
        return None;
    }
    out.extend_from_slice(b"{");
    let mut first = true;
    for field in fields {
        let Some(member) = members.iter().find(|m| m.key == field.as_bytes()) else {
            continue;
        };
        let empty = match member.value {
            b"null" | b"\"\"" | b"[]" | b"{}" => true,
            b"0" => *field == "generation",
            _ => false,
        };
        // Only owner references keep empty strings.
        if empty && (fields != OWNER_REFERENCE || member.value == b"null") {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.extend_from_slice(b",");
        }
        out.extend_from_slice(b"\"");
        out.extend_from_slice(field.as_bytes());
        out.extend_from_slice(b"\":");
        match *field {
            "ownerReferences" => reorder_each(member.value, &OWNER_REFERENCE, out)?,
            "managedFields" => reorder_each(member.value, &MANAGED_FIELDS_ENTRY, out)?,
            _ => out.extend_from_slice(member.value),
        }
    }
    out.extend_from_slice(b"}");
    Some(())
}

fn reorder_each(json: &[u8], fields: &[&str], out: &mut BytesMut) -> Option<()> {
    out.extend_from_slice(b"[");
    for (i, element) in scan::elements(json).enumerate() {
        if i > 0 {
            out.extend_from_slice(b",");
        }
        reorder(element.ok()?.1, fields, out)?;
    }
    out.extend_from_slice(b"]");
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::representation::Encoding;

    fn partial(json: &str, form: Form) -> Option<String> {
        let envelope = Envelope::new(form, "apps/v1", "DaemonSet", "DaemonSetList");
        let bytes = object(json.as_bytes(), &envelope, MetaVersion::V1)?;
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn struct_metadata_is_spliced() {
        assert_eq!(
            partial(
                r#"{"metadata":{"name":"a","uid":"u"},"spec":{}}"#,
                Form::Struct
            )
            .unwrap(),
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","uid":"u"}}"#
        );
    }

    #[test]
    fn annotations_of_a_conversion_are_not_told() {
        let start = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
        let hidden = r#""deprecated.daemonset.template.generation":"1""#;
        for (metadata, expected) in [
            (
                format!(r#"{{"name":"a","annotations":{{{hidden}}},"x":1}}"#),
                r#"{"name":"a","x":1}"#,
            ),
            (
                format!(r#"{{"annotations":{{{hidden}}},"x":1}}"#),
                r#"{"x":1}"#,
            ),
            (format!(r#"{{"annotations":{{{hidden}}}}}"#), "{}"),
            (
                format!(r#"{{"annotations":{{"a":"b",{hidden},"z":"y"}},"x":1}}"#),
                r#"{"annotations":{"a":"b","z":"y"},"x":1}"#,
            ),
        ] {
            assert_eq!(
                partial(&format!("{{\"metadata\":{metadata}}}"), Form::Struct).unwrap(),
                format!("{start}{expected}}}")
            );
        }
    }

    #[test]
    fn messages_tell_the_same() {
        for (kind, annotations) in [
            (
                "DaemonSet",
                r#""deprecated.daemonset.template.generation":"1""#,
            ),
            ("DaemonSet", r#""a":"\u003cb\u003e""#),
            (
                "ReplicaSet",
                r#""deprecated.daemonset.template.generation":"1""#,
            ),
        ] {
            let envelope = Envelope::new(Form::Struct, "apps/v1", kind, "List");
            let item = format!(
                r#"{{"metadata":{{"name":"a","uid":"u","creationTimestamp":"2026-11-21T03:48:19Z","annotations":{{{annotations}}},"managedFields":[{{"manager":"m","fieldsV1":{{"f:spec":{{}}}}}}]}},"spec":{{"selector":null,"template":{{"spec":{{"containers":null}}}}}},"status":{{}}}}"#
            );
            let message = envelope.transcoded(item.as_bytes(), Encoding::Protobuf);
            let made = Metadata::of_message(&message.unwrap(), &envelope).unwrap();
            let found = Metadata::find(item.as_bytes(), &envelope).unwrap();
            assert!(!made.needs_json());
            let text = |metadata: &Metadata, json: &str| {
                String::from_utf8(metadata.bytes(json.as_bytes()).to_vec()).unwrap()
            };
            assert_eq!(text(&made, ""), text(&found, &item));
        }
        let envelope = Envelope::new(Form::Struct, "apps/v1", "DaemonSet", "List");
        for broken in [&b""[..], b"\x12\x00", b"\x0a\x05a", b"\x0a\x02\xf8\x07"] {
            assert_eq!(Metadata::of_message(broken, &envelope), None);
        }
    }

    #[test]
    fn map_metadata_is_put_in_order() {
        assert_eq!(
            partial(
                r#"{"apiVersion":"e/v1","kind":"W","metadata":{"annotations":{"x":"y"},"creationTimestamp":"2026-11-21T03:48:19Z","deletionGracePeriodSeconds":0,"finalizers":[],"generation":1,"labels":{"z":"1"},"managedFields":[{"apiVersion":"e/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}},"manager":"m","operation":"Update","subresource":"status","time":"2026-11-21T03:48:19Z"}],"name":"a","namespace":"d","ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":false,"kind":"K","name":"n","uid":"u"}],"resourceVersion":"5","uid":"i"}}"#,
                Form::Map
            )
            .unwrap(),
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"d","uid":"i","resourceVersion":"5","generation":1,"creationTimestamp":"2026-11-21T03:48:19Z","deletionGracePeriodSeconds":0,"labels":{"z":"1"},"annotations":{"x":"y"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":false,"blockOwnerDeletion":true}],"managedFields":[{"manager":"m","operation":"Update","apiVersion":"e/v1","time":"2026-11-21T03:48:19Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}},"subresource":"status"}]}}"#
        );
        assert_eq!(
            partial(r#"{"metadata":{"clusterName":"x"}}"#, Form::Map),
            None
        );
        assert_eq!(partial(r#"{"spec":{}}"#, Form::Map), None);
    }

    #[test]
    fn lists() {
        let meta = ListMeta::at(375);
        let list = |empty, items: &str| {
            let prefix = list_prefix(&meta, MetaVersion::V1, empty);
            String::from_utf8([&prefix[..], items.as_bytes(), &list_suffix(empty)].concat())
                .unwrap()
        };
        assert_eq!(
            list(true, ""),
            "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"resourceVersion\":\"375\"},\"items\":null}\n"
        );
        assert_eq!(
            list(false, "{}"),
            "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"resourceVersion\":\"375\"},\"items\":[{}]}\n"
        );
    }
}
