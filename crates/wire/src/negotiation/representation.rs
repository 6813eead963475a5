//! The forms in which an object is answered: its encoding, and the transformation
//! before it.

/// The media types that kube-apiserver encodes, in the order in which it offers
/// them. CBOR is behind a feature gate, so a client that names it gets
/// [`super::Negotiation::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaType {
    /// JSON, the default.
    Json,
    /// YAML, which is made of the JSON.
    Yaml,
    /// The protobuf of built-in kinds.
    Protobuf,
}

pub(super) const OFFERED: [MediaType; 3] = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];

impl MediaType {
    /// Returns the media type without parameters, as Content-Type has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    pub(super) fn subtype(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Protobuf => "vnd.kubernetes.protobuf",
        }
    }
}

/// The version of meta.k8s.io in which a transformed answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// Returns the `apiVersion` of the answer.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The transformation of an object before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transform {
    /// The object as it is.
    None,
    /// A Table, which has a row for each object. kubectl asks for it.
    Table(MetaVersion),
    /// The metadata of one object.
    PartialObjectMetadata(MetaVersion),
    /// A list with the metadata of each object.
    PartialObjectMetadataList(MetaVersion),
}

impl Transform {
    /// Tells whether a LIST (if `list`) or a GET can be answered in this form. If
    /// not, kube-apiserver answers 406 and names the Go type of the requested object.
    pub fn suits(self, list: bool) -> bool {
        match self {
            Self::None | Self::Table(_) => true,
            Self::PartialObjectMetadata(_) => !list,
            Self::PartialObjectMetadataList(_) => list,
        }
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Representation {
    /// The encoding.
    pub media_type: MediaType,
    /// The transformation before the encoding.
    pub transform: Transform,
    /// Indented output. It exists only in JSON, and never in a watch.
    pub pretty: bool,
    /// Without `metadata.managedFields` (KEP-5958).
    pub drops_managed_fields: bool,
}

impl Representation {
    /// The object itself in compact JSON, which a client without an Accept header
    /// gets.
    pub const JSON: Self = Self {
        media_type: MediaType::Json,
        transform: Transform::None,
        pretty: false,
        drops_managed_fields: false,
    };
}
