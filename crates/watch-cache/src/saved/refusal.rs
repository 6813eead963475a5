//! The reasons why a saved store is not used.

use std::io;

/// The reason why a saved store cannot be used. The resource is then listed as if
/// there were no file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Somebody else may have written the file, or may read it.
    #[error("the file {0}")]
    Permissions(&'static str),
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("the file ends early or has more bytes than it should")]
    Torn,
    #[error("a checksum is wrong")]
    Checksum,
    /// A wrong key cannot be told from changed bytes.
    #[error("{0}")]
    Key(&'static str),
    #[error("not a saved store of format {expected}: {found}")]
    Format { expected: u16, found: String },
    #[error("malformed: {0}")]
    Malformed(String),
    #[error("it holds {0}")]
    OtherResource(String),
    #[error("it was saved before another cluster")]
    OtherCluster,
    #[error("it was saved before kube-apiserver {saved}, and this is {now}")]
    OtherRelease { saved: String, now: String },
    #[error("the CustomResourceDefinition has changed")]
    OtherDefinition,
    #[error("upstream no longer has the changes since resourceVersion {0}")]
    TooOld(u64),
    #[error("upstream is at resourceVersion {now}, before {saved}")]
    Ahead { saved: u64, now: u64 },
    #[error("upstream has {0} at an earlier version, or another object of its name")]
    Diverged(String),
    #[error("upstream did not say {0}")]
    Unanswered(&'static str),
    #[error("upstream refuses the watch")]
    WatchRefused,
    #[error("the changes since then did not come in time")]
    Late,
    #[error("no memory: {0}")]
    Memory(String),
    #[error("the resource is not cached")]
    NotCached,
}

impl Refusal {
    /// Every value of the metric's label.
    pub(crate) const REASONS: [&str; 18] = [
        "permissions",
        "unreadable",
        "torn",
        "checksum",
        "key",
        "format",
        "malformed",
        "other_resource",
        "other_cluster",
        "other_release",
        "other_definition",
        "too_old",
        "ahead",
        "diverged",
        "upstream",
        "late",
        "memory",
        "not_cached",
    ];

    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Permissions(_) => "permissions",
            Self::Unreadable(_) => "unreadable",
            Self::Torn => "torn",
            Self::Checksum => "checksum",
            Self::Key(_) => "key",
            Self::Format { .. } => "format",
            Self::Malformed(_) => "malformed",
            Self::OtherResource(_) => "other_resource",
            Self::OtherCluster => "other_cluster",
            Self::OtherRelease { .. } => "other_release",
            Self::OtherDefinition => "other_definition",
            Self::TooOld(_) => "too_old",
            Self::Ahead { .. } => "ahead",
            Self::Diverged(_) => "diverged",
            Self::Unanswered(_) | Self::WatchRefused => "upstream",
            Self::Late => "late",
            Self::Memory(_) => "memory",
            Self::NotCached => "not_cached",
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Torn,
            _ => Self::Unreadable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_series() {
        let io = |kind| Refusal::from(io::Error::from(kind));
        for refusal in [
            Refusal::Permissions(""),
            io(io::ErrorKind::Other),
            io(io::ErrorKind::UnexpectedEof),
            Refusal::Checksum,
            Refusal::Key(""),
            Refusal::Format {
                expected: 1,
                found: String::new(),
            },
            Refusal::Malformed(String::new()),
            Refusal::OtherResource(String::new()),
            Refusal::OtherCluster,
            Refusal::OtherRelease {
                saved: String::new(),
                now: String::new(),
            },
            Refusal::OtherDefinition,
            Refusal::TooOld(1),
            Refusal::Ahead { saved: 2, now: 1 },
            Refusal::Diverged(String::new()),
            Refusal::Unanswered(""),
            Refusal::WatchRefused,
            Refusal::Late,
            Refusal::Memory(String::new()),
            Refusal::NotCached,
        ] {
            assert!(Refusal::REASONS.contains(&refusal.as_str()), "{refusal}");
        }
    }
}
