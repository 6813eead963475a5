//! The media types that clients ask for.

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const CBOR: &str = "application/cbor";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// `kubectl get` sends this, and an older version of Table between the two.
pub const TABLE_OR_JSON: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

pub const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub const PARTIAL_OR_JSON: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
pub const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
pub const PARTIAL_LIST_OR_JSON: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
pub const PARTIAL_LIST_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// All groups in one document.
pub const GROUP_DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub const GROUP_DISCOVERY_OR_JSON: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
