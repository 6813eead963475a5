//! The first difference of two answers, without their contents.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The bytes of a path that are kept. Names of fields in an object may be long.
const MAX_PATH: usize = 256;

/// A place in an answer, and what stands there on either side: a status code,
/// or the hash of bytes. Empty if the side has nothing there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// `status`, `header NAME`, `body.PATH`, `event` or `byte N`.
    pub path: String,
    pub upstream: String,
    pub apifront: String,
}

impl Difference {
    /// Makes a difference of bytes, which it keeps as hashes.
    pub fn of_bytes(path: &str, upstream: Option<&[u8]>, apifront: Option<&[u8]>) -> Self {
        Self::of_texts(
            path,
            &upstream.map_or_else(String::new, hash),
            &apifront.map_or_else(String::new, hash),
        )
    }

    /// Makes a difference of two texts that may be shown.
    pub fn of_texts(path: &str, upstream: &str, apifront: &str) -> Self {
        let end = path.floor_char_boundary(MAX_PATH);
        Self {
            path: path.get(..end).unwrap_or_default().to_owned(),
            upstream: upstream.to_owned(),
            apifront: apifront.to_owned(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            upstream,
            apifront,
        } = self;
        write!(f, "{path}: upstream {upstream:?}, apifront {apifront:?}")
    }
}

/// Returns the length and the first 16 hexadecimal digits of the SHA-256.
fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("sha256:{digits} ({} bytes)", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_not_shown() {
        let difference = Difference::of_bytes("body.data.k", Some(b"secret"), None);
        assert_eq!(
            difference.to_string(),
            "body.data.k: upstream \"sha256:2bb80d537b1da3e3 (6 bytes)\", apifront \"\""
        );
        let long = Difference::of_texts(&"\u{e9}".repeat(1_000), "", "");
        assert_eq!(long.path.len(), MAX_PATH);
    }
}
