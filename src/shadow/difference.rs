//! The first difference of two answers, without their contents.

use std::fmt;

use apifront_watch_cache::fingerprint::{Digest, FingerprintKey};
use serde::Serialize;

/// The most bytes of a path. Names of fields in an object may be long.
const MAX_PATH: usize = 256;

/// A place in two answers, and its content on either side. It is shown only as
/// [`Difference::told`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `status`, `header NAME`, `body.PATH`, `event` or `body byte N`.
    pub path: String,
    pub upstream: Side,
    pub apifront: Side,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    Nothing,
    /// A text that may be shown, such as a status code.
    Text(String),
    Contents(Digest),
}

/// A difference as reports and the log show it. Contents are fingerprints, and a
/// side without content is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldDifference {
    path: String,
    upstream: String,
    apifront: String,
}

impl Difference {
    pub fn of_bytes(path: &str, upstream: Option<&[u8]>, apifront: Option<&[u8]>) -> Self {
        let side = |bytes: Option<&[u8]>| {
            bytes.map_or(Side::Nothing, |bytes| {
                Side::Contents(Digest::from_contents(bytes))
            })
        };
        Self::of_sides(path, side(upstream), side(apifront))
    }

    pub fn of_texts(path: &str, upstream: &str, apifront: &str) -> Self {
        let side = |text: &str| Side::Text(text.to_owned());
        Self::of_sides(path, side(upstream), side(apifront))
    }

    fn of_sides(path: &str, upstream: Side, apifront: Side) -> Self {
        let end = path.floor_char_boundary(MAX_PATH);
        Self {
            path: path.get(..end).unwrap_or_default().to_owned(),
            upstream,
            apifront,
        }
    }

    pub fn told(&self, key: &FingerprintKey) -> ToldDifference {
        let side = |side: &Side| match side {
            Side::Nothing => String::new(),
            Side::Text(text) => text.clone(),
            Side::Contents(digest) => key.fingerprint(digest),
        };
        ToldDifference {
            path: self.path.clone(),
            upstream: side(&self.upstream),
            apifront: side(&self.apifront),
        }
    }
}

impl Side {
    pub fn is_text(&self, text: &str) -> bool {
        matches!(self, Self::Text(own) if own == text)
    }
}

impl fmt::Display for ToldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            upstream,
            apifront,
        } = self;
        write!(f, "{path}: upstream {upstream:?}, apifront {apifront:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents were once shown as their length and a part of their SHA-256. Short
    /// or known values could be found by trying.
    #[test]
    fn contents_cannot_be_guessed_from_what_is_told() {
        let difference = Difference::of_bytes("body.data.k", Some(b"secret"), None);
        let other_process = difference.told(&FingerprintKey::random().unwrap());
        let key = FingerprintKey::random().unwrap();
        let told = difference.told(&key);
        assert_ne!(told, other_process);
        assert_eq!(told.apifront, "");
        let shown = told.to_string();
        // The SHA-256 of the value, and its length.
        assert!(
            !shown.contains("2bb80d53") && !shown.contains('('),
            "{shown}"
        );
        // Equal values have equal fingerprints, and lengths do not show.
        let again = Difference::of_bytes("event", Some(&[0; 5_000]), Some(b"secret"));
        let again = again.told(&key);
        assert_eq!(again.apifront, told.upstream);
        assert_eq!(again.upstream.len(), told.upstream.len());
        assert_ne!(again.upstream, told.upstream);
    }

    #[test]
    fn texts_are_shown_and_paths_are_bounded() {
        let key = FingerprintKey::random().unwrap();
        let difference = Difference::of_texts("status", "200", "404");
        assert_eq!(
            difference.told(&key).to_string(),
            "status: upstream \"200\", apifront \"404\""
        );
        assert!(difference.apifront.is_text("404") && !difference.apifront.is_text("200"));
        let long = Difference::of_texts(&"\u{e9}".repeat(1_000), "", "");
        assert_eq!(long.path.len(), MAX_PATH);
    }
}
