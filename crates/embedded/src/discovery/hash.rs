//! The hash of a document, which tells clients that it has changed.

use sha2::{Digest, Sha512};

/// Returns the SHA-512 in upper-case hexadecimal.
pub(super) fn hash(document: &[u8]) -> String {
    Sha512::digest(document)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}
