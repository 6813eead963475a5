//! The tags of a file's blocks: checksums, or encryption with a key.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use sha2::{Digest, Sha256};

use super::Refusal;
use super::key::Key;

pub(super) const SALT_BYTES: usize = 32;

pub(super) const MAX_TAG_BYTES: usize = 32;

const NONCE_BYTES: usize = 12;

/// Seals and opens the blocks of one file.
pub(super) enum Seal {
    /// Each block has a checksum, which depends on this digest of preamble and
    /// header.
    Checksum([u8; 32]),
    /// Each block is encrypted with a key that only this file has.
    Encrypted(Box<LessSafeKey>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPosition {
    pub(super) index: u64,
    pub(super) last: bool,
}

impl BlockPosition {
    fn bytes(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        if let Some((last, index)) = bytes.split_last_mut() {
            index.copy_from_slice(&self.index.to_le_bytes());
            *last = u8::from(self.last);
        }
        bytes
    }
}

impl Seal {
    /// Makes the seal of a file that begins with `start`, its preamble and
    /// header.
    pub(super) fn new(key: Option<&Key>, salt: &[u8; SALT_BYTES], start: &[u8]) -> Option<Self> {
        let digest: [u8; 32] = Sha256::digest(start).into();
        let Some(key) = key else {
            return Some(Self::Checksum(digest));
        };
        // Each file has its own key, derived from its salt and header. Therefore
        // block numbers can serve as nonces.
        let derived = Salt::new(HKDF_SHA256, salt).extract(&key.0);
        let info = [&digest[..]];
        let derived = derived.expand(&info, &AES_256_GCM).ok()?;
        let derived = LessSafeKey::new(UnboundKey::from(derived));
        Some(Self::Encrypted(Box::new(derived)))
    }

    pub(super) fn tag_bytes(&self) -> usize {
        match self {
            Self::Checksum(_) => 32,
            Self::Encrypted(_) => AES_256_GCM.tag_len(),
        }
    }

    /// Appends the tag to a block, which is encrypted if there is a key.
    pub(super) fn seal(
        &self,
        position: BlockPosition,
        block: &mut Vec<u8>,
    ) -> Result<(), std::io::Error> {
        match self {
            Self::Checksum(digest) => {
                let tag = checksum(digest, position, block);
                block.extend_from_slice(&tag);
                Ok(())
            }
            Self::Encrypted(key) => key
                .seal_in_place_append_tag(nonce(position), Aad::from(position.bytes()), block)
                .map_err(|_| std::io::Error::other("cannot encrypt")),
        }
    }

    /// Checks and removes the tag of `sealed`, and decrypts the block if there is a
    /// key.
    pub(super) fn open(
        &self,
        position: BlockPosition,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let length = sealed.len().checked_sub(self.tag_bytes());
        let length = length.ok_or(Refusal::Torn)?;
        match self {
            Self::Checksum(digest) => {
                let tag = sealed.split_off(length);
                let right = checksum(digest, position, sealed)[..] == tag[..];
                right.then_some(()).ok_or(Refusal::Checksum)
            }
            Self::Encrypted(key) => {
                key.open_in_place(nonce(position), Aad::from(position.bytes()), sealed)
                    .map_err(|_| Refusal::Key("the key is another one, or the file was changed"))?;
                sealed.truncate(length);
                Ok(())
            }
        }
    }
}

fn checksum(digest: &[u8; 32], position: BlockPosition, block: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(digest);
    hash.update(position.bytes());
    hash.update(block);
    hash.finalize().into()
}

fn nonce(position: BlockPosition) -> Nonce {
    let mut bytes = [0; NONCE_BYTES];
    for (to, from) in bytes.iter_mut().zip(position.index.to_le_bytes()) {
        *to = from;
    }
    Nonce::assume_unique_for_key(bytes)
}
