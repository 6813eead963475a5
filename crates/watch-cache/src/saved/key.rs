//! The key with which saved stores are encrypted.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(super) const KEY_BYTES: usize = 32;

/// The most bytes of a key file: a key in base64, with line ends.
const MAX_FILE_BYTES: u64 = 256;

pub(super) struct Key(pub(super) [u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the key file {file:?}: {error}")]
    Read { file: PathBuf, error: io::Error },
    #[error(
        "the key file {file:?} has mode {mode:04o}: others must not read it, and only its owner may write it"
    )]
    Permissions { file: PathBuf, mode: u32 },
    #[error("the key file {file:?} must hold 32 bytes, as they are or in base64")]
    Length { file: PathBuf },
}

impl Key {
    /// Reads a key file. Its group may read it: kubelet uses the group (`fsGroup`)
    /// to give a Secret to a process that is not root.
    pub(super) fn read(path: &Path) -> Result<Self, KeyError> {
        let file = || path.to_owned();
        let read = |error| KeyError::Read {
            file: file(),
            error,
        };
        let opened = File::open(path).map_err(read)?;
        let mode = opened.metadata().map_err(read)?.mode() & 0o777;
        if mode & 0o027 != 0 {
            return Err(KeyError::Permissions { file: file(), mode });
        }
        let mut bytes = Vec::new();
        opened
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut bytes)
            .map_err(read)?;
        Self::parse(&bytes).ok_or_else(|| KeyError::Length { file: file() })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        if let Ok(key) = <[u8; KEY_BYTES]>::try_from(bytes) {
            return Some(Self(key));
        }
        let decoded = STANDARD.decode(bytes.trim_ascii()).ok()?;
        <[u8; KEY_BYTES]>::try_from(decoded.as_slice())
            .ok()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_32_bytes() {
        let raw = [7u8; KEY_BYTES];
        let text = STANDARD.encode(raw);
        assert_eq!(Key::parse(&raw).unwrap().0, raw);
        assert_eq!(Key::parse(format!("{text}\n").as_bytes()).unwrap().0, raw);
        for wrong in [&raw[1..], b"", b"secret", &text.as_bytes()[1..]] {
            assert!(Key::parse(wrong).is_none(), "{wrong:?}");
        }
        assert_eq!(format!("{:?}", Key(raw)), "Key(…)");
    }
}
