//! The representation of an answer, as a label of metrics.

use http::HeaderMap;
use kubernetes_wire::api::Query;
use kubernetes_wire::negotiation::{
    self, MediaType, Negotiation, Offer, Representation, Transform,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    Json,
    Yaml,
    Protobuf,
    Table,
    PartialObjectMetadataJson,
    PartialObjectMetadataProtobuf,
    /// An error, or a form that the cache does not know.
    Other,
}

impl Label {
    /// Returns the representation that a request negotiates.
    pub fn of_request(headers: &HeaderMap, query: &Query, is_watch: bool) -> Self {
        let negotiated = match is_watch {
            true => negotiation::negotiate_watch(headers, Offer::BUILT_IN),
            false => negotiation::negotiate(headers, query, Offer::BUILT_IN),
        };
        match negotiated {
            Negotiation::Accepted(accepted) => Self::from_representation(accepted),
            _ => Self::Other,
        }
    }

    fn from_representation(accepted: Representation) -> Self {
        match (accepted.transform, accepted.media_type) {
            (Transform::Table(_), _) => Self::Table,
            (Transform::None, MediaType::Json) => Self::Json,
            (Transform::None, MediaType::Yaml) => Self::Yaml,
            (Transform::None, MediaType::Protobuf) => Self::Protobuf,
            (_, MediaType::Protobuf) => Self::PartialObjectMetadataProtobuf,
            (_, MediaType::Json) => Self::PartialObjectMetadataJson,
            (_, MediaType::Yaml) => Self::Yaml,
        }
    }

    /// Returns the representation of an answer for which this one was negotiated. A
    /// resource without protobuf is answered as JSON.
    pub fn answered_as(self, content_type: &str) -> Self {
        let is_protobuf = content_type.starts_with("application/vnd.kubernetes.protobuf");
        match self {
            Self::Protobuf if !is_protobuf => Self::Json,
            Self::PartialObjectMetadataProtobuf if !is_protobuf => Self::PartialObjectMetadataJson,
            Self::Json if is_protobuf => Self::Protobuf,
            label => label,
        }
    }

    pub fn is_protobuf(self) -> bool {
        matches!(self, Self::Protobuf | Self::PartialObjectMetadataProtobuf)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Protobuf => "protobuf",
            Self::Table => "table",
            Self::PartialObjectMetadataJson => "partial_object_metadata_json",
            Self::PartialObjectMetadataProtobuf => "partial_object_metadata_protobuf",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn each_form_has_its_label() {
        for (accept, label) in [
            ("application/json", Label::Json),
            ("application/yaml", Label::Yaml),
            ("application/vnd.kubernetes.protobuf", Label::Protobuf),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", Label::Table),
            (
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                Label::PartialObjectMetadataJson,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                Label::PartialObjectMetadataProtobuf,
            ),
            ("text/html", Label::Other),
        ] {
            let headers =
                HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static(accept))]);
            let found = Label::of_request(&headers, &Query::default(), false);
            assert_eq!(found, label, "{accept}");
        }
        assert_eq!(Label::Protobuf.answered_as("application/json"), Label::Json);
        assert_eq!(Label::Table.answered_as("application/json"), Label::Table);
    }
}
