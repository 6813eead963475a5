//! Stores on disk, one file for each resource, so that a restarted process
//! begins with the state of the one before it. `stores.rs` opens and reads a file,
//! `file_format.rs` checks its bytes, and `reflector/resume.rs` whether upstream still
//! has what comes after it.

mod directory;
mod file_format;
mod found_stores;
mod header;
mod key;
mod records;
mod refusal;
mod seal;
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
