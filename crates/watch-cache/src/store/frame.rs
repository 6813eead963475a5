//! The frames of events that watchers share.

use bytes::Bytes;
use kubernetes_wire::representation::Encoding;

/// A representation whose frames all watchers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFrame {
    pub of: FrameKind,
    pub encoding: Encoding,
    pub without_managed_fields: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Whole = 0,
    /// PartialObjectMetadata of meta.k8s.io/v1.
    Metadata = 1,
    MetadataV1Beta1 = 2,
}

/// A frame that was just made.
#[derive(Clone, Debug)]
pub struct MadeFrame {
    pub bytes: Bytes,
    /// The bytes of managedFields that the frame lacks.
    pub left_out: usize,
}

impl From<Bytes> for MadeFrame {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, left_out: 0 }
    }
}

/// The number of representations: in two encodings, whole objects and two versions of
/// metadata, all of these without managedFields, and all of them as gzip members.
pub(super) const REPRESENTATIONS: usize = 24;

impl SharedFrame {
    /// Tells whether most watchers have this representation.
    pub(super) fn is_usual(self) -> bool {
        self.of == FrameKind::Whole && !self.without_managed_fields
    }

    /// Returns the representation's place among all of them.
    pub(super) fn index(self, compressed: bool) -> usize {
        let flags = [self.without_managed_fields, compressed];
        let index = flags.into_iter().fold(self.of as usize, |index, flag| {
            index.saturating_mul(2).saturating_add(flag.into())
        });
        let index = index.saturating_mul(2);
        index.saturating_add(self.encoding as usize)
    }
}
