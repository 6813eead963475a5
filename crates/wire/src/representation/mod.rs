//! The same object in the shapes clients ask for: list and single envelopes,
//! watch frames, indented JSON, Tables and PartialObjectMetadata.

// These modules read objects from the wire: none of them may overflow a number,
// or look for something where it is not.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

pub mod bookmark;
pub mod deflate;
pub mod encoding;
pub mod envelope;
pub mod error;
pub mod message;
pub mod partial;
pub mod partial_message;
pub mod pretty;
pub mod resource_version;
pub mod scan;
pub mod table;
pub mod transcode;
pub mod yaml;

pub use bookmark::BookmarkTemplate;
pub use encoding::{Encoding, NotEncodable};
pub use envelope::{Envelope, EventType, Form, ListMeta};
pub use table::{NotPrintable, Printer, TableOptions};
