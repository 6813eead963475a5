//! The condition of a write, and its failures.

/// The state that a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    /// The object at exactly this resourceVersion.
    Revision(u64),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    #[error("the key exists")]
    Exists,
    #[error("the key does not exist")]
    Missing,
    #[error("the object changed")]
    Changed,
}
