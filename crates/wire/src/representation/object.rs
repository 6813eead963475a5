//! One built-in object in every representation that an API server has.
//!
//! This is the simple interface for a single object. A server that answers many
//! requests keeps an [`Envelope`] for each resource and the bytes of its
//! objects, and joins them without transcoding.

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::protobuf_envelope::Answer;
use super::{
    Encoding, Envelope, Form, NotEncodable, NotPrintable, Printer, TableOptions,
    partial_object_metadata, scan,
};
use crate::api::{GroupVersion, GroupVersionResource};
use crate::negotiation::MetaVersion;

/// Why bytes cannot be read as an object, or an object cannot be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The bytes tell no kind, so they may be no object of the API.
    #[error("the bytes have no `k8s` envelope, or no kind and apiVersion")]
    NoKind,
    /// The object cannot be converted, for instance because of a field of a newer
    /// release.
    #[error(transparent)]
    Encoding(#[from] NotEncodable),
    /// The kind has no printer, or its printer is not certain about the object.
    #[error(transparent)]
    Table(#[from] NotPrintable),
    /// The metadata has a field that is not known here.
    #[error("the metadata has a field that is not in the schema")]
    Metadata,
}

/// An object of a kind that is built into Kubernetes.
///
/// ```
/// use kubernetes_wire::representation::BuiltInObject;
///
/// // A ConfigMap as etcd has it: `k8s\0`, kind and apiVersion, and the message.
/// let bytes = b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x14\n\x0a\n\x04blue\x1a\x02ns\
///     \x12\x06\n\x01a\x12\x01b\x1a\0\"\0";
/// let object = BuiltInObject::from_protobuf(bytes)?;
/// assert_eq!(object.kind(), "ConfigMap");
/// let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"blue","namespace":"ns"},"data":{"a":"b"}}"#;
/// assert_eq!(object.to_json(), format!("{json}\n"));
/// # Ok::<(), kubernetes_wire::representation::ObjectError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BuiltInObject {
    envelope: Envelope,
    /// The JSON of the object as a list item: without kind and apiVersion.
    item: Bytes,
}

impl BuiltInObject {
    /// Reads the `application/vnd.kubernetes.protobuf` of a server, or a value
    /// from etcd.
    pub fn from_protobuf(bytes: &[u8]) -> Result<Self, ObjectError> {
        let answer = Answer::parse(bytes).ok_or(ObjectError::NoKind)?;
        Self::from_message(answer.api_version, answer.kind, answer.message)
    }

    /// Reads JSON with its members in any order. They are put into the API
    /// server's order.
    pub fn from_json(json: &[u8]) -> Result<Self, ObjectError> {
        let text = |key| scan::text_at(json, &[key]).ok_or(ObjectError::NoKind);
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let message = envelope(&api_version, &kind).transcoded(json, Encoding::Protobuf)?;
        Self::from_message(&api_version, &kind, &message)
    }

    fn from_message(api_version: &str, kind: &str, message: &[u8]) -> Result<Self, ObjectError> {
        let envelope = envelope(api_version, kind);
        let item = envelope.transcoded(message, Encoding::Json)?;
        Ok(Self { envelope, item })
    }

    /// Returns the group version: `v1`, `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.envelope.api_version
    }

    /// Returns the kind, such as `Pod`.
    pub fn kind(&self) -> &str {
        &self.envelope.kind
    }

    /// Returns the body of a GET in JSON. It ends with a newline.
    pub fn to_json(&self) -> Bytes {
        self.envelope.answer(Encoding::Json, &self.item)
    }

    /// Returns the body of a GET in protobuf.
    pub fn to_protobuf(&self) -> Result<Bytes, ObjectError> {
        let message = self.envelope.transcoded(&self.item, Encoding::Protobuf)?;
        Ok(self.envelope.answer(Encoding::Protobuf, &message))
    }

    /// Returns the Table that `kubectl get` asks for. `resource` is the plural
    /// name of the kind (`pods`). Ages are computed for the time `now`.
    ///
    /// ```
    /// use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
    /// use kubernetes_wire::representation::{BuiltInObject, TableOptions};
    ///
    /// let object = BuiltInObject::from_json(
    ///     br#"{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b"},
    ///     "metadata":{"name":"blue","creationTimestamp":"2026-01-01T00:00:00Z"}}"#,
    /// )?;
    /// let options = TableOptions {
    ///     version: MetaVersion::V1,
    ///     include: IncludeObject::None,
    /// };
    /// let table = object.to_table("configmaps", options, "2026-01-03T00:00:00Z".parse()?)?;
    /// let table: serde_json::Value = serde_json::from_slice(&table)?;
    /// assert_eq!(table["columnDefinitions"][1]["name"], "Data");
    /// assert_eq!(table["rows"][0]["cells"], serde_json::json!(["blue", 1, "2d"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_table(
        &self,
        resource: &str,
        options: TableOptions,
        now: DateTime<Utc>,
    ) -> Result<Vec<u8>, ObjectError> {
        let version = GroupVersion::parse(self.api_version()).ok_or(ObjectError::NoKind)?;
        let gvr = GroupVersionResource::new(&version.group, &version.version, resource);
        let printer = Printer::builtin(&gvr).ok_or(NotPrintable)?;
        Ok(printer.single(&self.item, &self.envelope, options, now)?)
    }

    /// Returns PartialObjectMetadata as JSON, without a newline at its end.
    pub fn to_partial_object_metadata(&self) -> Result<Bytes, ObjectError> {
        partial_object_metadata::object(&self.item, &self.envelope, MetaVersion::V1)
            .ok_or(ObjectError::Metadata)
    }
}

fn envelope(api_version: &str, kind: &str) -> Envelope {
    Envelope::new(Form::Struct, api_version, kind, &format!("{kind}List"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiation::IncludeObject;

    const POD: &str = r#"{"metadata":{"name":"web"},"kind":"Pod","apiVersion":"v1",
        "spec":{"containers":[{"image":"nginx","name":"nginx"}]}}"#;

    #[test]
    fn an_object_has_every_shape() {
        let pod = BuiltInObject::from_json(POD.as_bytes()).unwrap();
        assert_eq!((pod.api_version(), pod.kind()), ("v1", "Pod"));
        let json = pod.to_json();
        assert!(json.starts_with(br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web""#));
        let again = BuiltInObject::from_protobuf(&pod.to_protobuf().unwrap()).unwrap();
        assert_eq!(again.to_json(), json);
        let partial = pod.to_partial_object_metadata().unwrap();
        assert!(partial.starts_with(br#"{"kind":"PartialObjectMetadata""#));
        let options = TableOptions {
            version: MetaVersion::V1,
            include: IncludeObject::None,
        };
        let table = pod.to_table("pods", options, DateTime::UNIX_EPOCH).unwrap();
        let table: serde_json::Value = serde_json::from_slice(&table).unwrap();
        assert_eq!(table["rows"][0]["cells"][0], "web");
        let error = pod.to_table("gadgets", options, DateTime::UNIX_EPOCH);
        assert_eq!(error, Err(NotPrintable.into()));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let unknown = br#"{"kind":"Gadget","apiVersion":"example.com/v1"}"#;
        let newer = br#"{"kind":"Pod","apiVersion":"v1","spec":{"fromTheFuture":1}}"#;
        let error = |json: &[u8]| BuiltInObject::from_json(json).err();
        assert_eq!(error(b"{}"), Some(ObjectError::NoKind));
        assert_eq!(error(unknown), Some(NotEncodable::UnknownKind.into()));
        assert!(matches!(error(newer), Some(ObjectError::Encoding(_))));
        let plain = BuiltInObject::from_protobuf(b"{}").err();
        assert_eq!(plain, Some(ObjectError::NoKind));
    }
}
