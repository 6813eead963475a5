//! Fingerprints of contents, for reports of differences. Within one process, equal
//! contents have equal fingerprints. The random key never leaves the process, so
//! nobody can test guesses of the contents against a fingerprint.

use std::fmt;

use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;
use sha2::{Digest as _, Sha256};

const SHOWN_BYTES: usize = 16;

/// The SHA-256 of contents. It may be compared but not shown: short or known
/// contents could be guessed from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

/// The key of a process' fingerprints: 256 bits from the system's randomness.
#[derive(Clone)]
pub struct FingerprintKey(hmac::Key);

/// The system gives no random bytes.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

impl Digest {
    pub fn from_contents(contents: &[u8]) -> Self {
        Self(Sha256::digest(contents).into())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

impl FingerprintKey {
    pub fn random() -> Result<Self, NoRandomness> {
        let key = hmac::Key::generate(HMAC_SHA256, &SystemRandom::new());
        key.map(Self).map_err(|_| NoRandomness)
    }

    /// Returns the fingerprint as text: `hmac:` and 32 hexadecimal digits.
    pub fn fingerprint(&self, digest: &Digest) -> String {
        let tag = hmac::sign(&self.0, &digest.0);
        let digits = tag.as_ref().iter().take(SHOWN_BYTES);
        let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
        format!("hmac:{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_equal_for_equal_contents_within_one_process_alone() {
        let (key, other) = (FingerprintKey::random(), FingerprintKey::random());
        let (key, other) = (key.unwrap(), other.unwrap());
        let of = |key: &FingerprintKey, contents: &[u8]| {
            key.fingerprint(&Digest::from_contents(contents))
        };
        assert_eq!(of(&key, b"secret"), of(&key.clone(), b"secret"));
        assert_ne!(of(&key, b"secret"), of(&key, b"secret2"));
        assert_ne!(of(&key, b"secret"), of(&other, b"secret"));
        // Long contents have fingerprints of the same length.
        for contents in [&b""[..], b"secret", &[7; 10_000]] {
            assert_eq!(of(&key, contents).len(), "hmac:".len() + 2 * SHOWN_BYTES);
        }
    }

    /// The SHA-256 of a short value can be found by trying all values.
    #[test]
    fn digests_are_not_shown() {
        let digest = Digest::from_contents(b"secret");
        let shown = format!("{digest:?} {digest:#?}");
        assert_eq!(shown, "Digest Digest");
    }
}
