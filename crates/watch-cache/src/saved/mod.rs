//! Stores on disk, one file for each resource, so that a restarted process
//! begins with the state of the one before it.
//!
//! ```text
//! preamble │ header (JSON)      │ tag │ block │ tag │ … │ last block │ tag
//! magic,   │ cluster, release,  │     objects at one version, then the events
//! format   │ resource, versions │     that lead to the newest version
//! ```
//!
//! A tag is a SHA-256 checksum or, with a key, the tag of AES-256-GCM. Every tag
//! depends on the header and on the block's place. So a file cannot be cut, put
//! together from others, or given another resource's name. The contents of a file
//! are trusted as little as bytes from the wire.

mod blocks;
mod directory;
mod header;
mod key;
mod records;
mod refusal;
mod seal;
mod start;
mod stores;
#[cfg(test)]
mod tests;

pub use directory::DirectoryError;
pub use key::KeyError;
pub use stores::{OpenError, SavedStores};

pub(crate) use header::{Columns, Header, Revision};
pub(crate) use records::Loaded;
pub(crate) use refusal::Refusal;
pub(crate) use stores::SavedFile;
