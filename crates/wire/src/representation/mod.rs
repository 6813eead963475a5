//! The representations of an object that clients ask for: lists and single
//! answers, watch frames, indented JSON, Tables and PartialObjectMetadata.

mod bookmark_template;
pub mod deflate;
pub mod encoding;
pub mod error_status;
pub mod json_envelope;
pub mod list;
pub mod managed_fields;
mod object;
pub mod partial_object_metadata;
pub mod partial_object_metadata_protobuf;
pub mod pretty;
pub mod projection;
pub mod protobuf_envelope;
pub mod resource_version;
pub mod scan;
pub mod table;
pub mod transcode;
pub mod whole;
pub mod yaml;

pub use bookmark_template::BookmarkTemplate;
pub use encoding::{Encoding, NotEncodable};
pub use json_envelope::{Envelope, EventType, Form, ListMeta};
pub use object::{BuiltInObject, ObjectError};
pub use projection::{PathStep, Projection};
pub use table::{NotPrintable, Printer, TableOptions};
