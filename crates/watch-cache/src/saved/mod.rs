//! Stores on disk, one file for each resource, so that a restarted process
//! begins with the state of the one before it.

mod directory;
mod file_format;
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
