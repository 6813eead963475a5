//! A document has a hash, by which clients see that it changed.

use sha2::{Digest, Sha512};

/// SHA-512 in capital letters.
pub fn hash(document: &[u8]) -> String {
    Sha512::digest(document)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}
