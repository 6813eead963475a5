//! The vocabulary of the Kubernetes API on the wire, as types that hold only valid
//! values. There is no I/O here.

mod attributes;
mod continue_token;
pub mod dns_name;
pub mod duration;
pub mod field_selector;
pub mod formats;
pub mod go_float;
pub mod go_json;
pub mod go_regexp;
mod group_version;
mod label_matcher;
pub mod label_name;
pub mod label_selector;
mod labels;
mod list_options;
pub mod object_meta;
pub mod protobuf;
pub mod protobuf_wire;
pub mod quantity;
pub mod query;
mod release;
mod resource_version;
mod shard_expression;
mod shard_selector;
pub mod status;
pub mod user;
pub mod version_order;
pub mod warning;

pub use attributes::Attributes;
pub use continue_token::{ContinueToken, InvalidContinueToken};
pub use field_selector::FieldSelector;
pub use group_version::{GroupResource, GroupVersion, GroupVersionResource};
pub use label_matcher::LabelMatcher;
pub use label_selector::LabelSelector;
pub use labels::Labels;
pub use list_options::{ListOptions, ResourceVersionMatch};
pub use object_meta::{ObjectMeta, PartialObject};
pub use query::Query;
pub use release::Release;
pub use resource_version::ResourceVersion;
pub use shard_selector::{InvalidShard, Shard, ShardHash, ShardKey, ShardRange, ShardSelector};
pub use status::{RETRY_SOON, Reason, Status};
pub use user::UserInfo;
