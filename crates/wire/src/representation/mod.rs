//! The same object in the shapes clients ask for: list and single envelopes,
//! watch frames, indented JSON, Tables and PartialObjectMetadata.

pub mod bookmark;
pub mod deflate;
pub mod encoding;
pub mod envelope;
pub mod error;
pub mod list;
pub mod message;
pub mod partial;
pub mod partial_message;
pub mod pretty;
pub mod resource_version;
pub mod scan;
pub mod table;
pub mod transcode;
pub mod whole;
pub mod yaml;

pub use bookmark::BookmarkTemplate;
pub use encoding::{Encoding, NotEncodable};
pub use envelope::{Envelope, EventType, Form, ListMeta};
pub use table::{NotPrintable, Printer, TableOptions};
