//! The root of OpenAPI v3, which lists the group versions with a document, and each
//! document's hash: how it is read and written.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderValue;
use kubernetes_wire::api::{GroupVersion, go_json};
use serde::{Deserialize, Serialize};

use super::document::Document;
use super::error::DocumentError;

pub(super) const PATH: &str = "/openapi/v3";

/// The Content-Type of the root: no handler sets one, so Go sniffs this one.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// A root as its server wrote it.
#[derive(Debug)]
pub(super) struct Root {
    pub bytes: Bytes,
    /// The path of each document by its key (`api/v1`, `apis/apps/v1`, `version`).
    pub paths: BTreeMap<String, String>,
    /// The documents of a backend that has only v2. The other fields are then empty.
    pub converted: Option<Converted>,
}

/// The v2 document of a backend, and the v3 document made from it for all group
/// versions of the backend.
#[derive(Debug)]
pub(super) struct Converted {
    pub v2: Arc<Document>,
    pub v3: Arc<Document>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    paths: BTreeMap<String, Item>,
}

#[derive(Serialize, Deserialize)]
struct Item {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: String,
}

impl Root {
    pub(super) fn parse(bytes: Bytes) -> Result<Self, DocumentError> {
        let written: Written =
            serde_json::from_slice(&bytes).map_err(|e| DocumentError::Content(e.to_string()))?;
        let paths = written.paths.into_iter();
        Ok(Self {
            bytes,
            paths: paths
                .map(|(k, item)| (k, item.server_relative_url))
                .collect(),
            converted: None,
        })
    }

    pub(super) fn converted(v2: Arc<Document>, v3: Arc<Document>) -> Self {
        Self {
            bytes: Bytes::new(),
            paths: BTreeMap::new(),
            converted: Some(Converted { v2, v3 }),
        }
    }

    /// Returns the hash of a key's document. `None` if the server gives none.
    pub(super) fn hash(&self, key: &str) -> Option<&str> {
        let (_, query) = self.paths.get(key)?.split_once("?hash=")?;
        // A hash in another format could need decoding, so it is not used.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (!query.is_empty() && query.bytes().all(plain)).then_some(query)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    Version(GroupVersion),
    /// `apis/G`, and `api`.
    Group(String),
    /// `version`, `.well-known/openid-configuration`.
    Other,
}

impl Key {
    pub(super) fn parse(key: &str) -> Self {
        let parts: Vec<&str> = key.split('/').collect();
        let (group, version) = match parts.as_slice() {
            ["api", version] => ("", version),
            ["apis", group, version] => (*group, version),
            ["api"] => return Self::Group(String::new()),
            ["apis", group] => return Self::Group((*group).to_owned()),
            _ => return Self::Other,
        };
        Self::Version(GroupVersion {
            group: group.to_owned(),
            version: (*version).to_owned(),
        })
    }
}

/// Returns the key of a group version, such as `apis/apps/v1`.
pub(super) fn key_of(version: &GroupVersion) -> String {
    version.path().trim_start_matches('/').to_owned()
}

/// Returns the URL as kube-openapi's `constructServerRelativeURL` makes it. A
/// backend's own URL is not used, because it could lead anywhere.
pub(super) fn url(key: &str, hash: Option<&str>) -> String {
    match hash {
        Some(hash) => format!("{PATH}/{key}?hash={hash}"),
        None => format!("{PATH}/{key}"),
    }
}

pub(super) fn write(paths: BTreeMap<String, String>) -> Bytes {
    let paths = paths.into_iter().map(|(key, server_relative_url)| {
        let item = Item {
            server_relative_url,
        };
        (key, item)
    });
    let written = Written {
        paths: paths.collect(),
    };
    go_json::to_vec(&written).into()
}

/// Makes the document of a root. Its Last-Modified is the current time, because
/// kube-aggregator makes the root for every request.
pub(super) fn document(bytes: Bytes, now: Option<HeaderValue>) -> Document {
    let mut document = Document::new(bytes, CONTENT_TYPE);
    document.last_modified = now;
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_read_and_written() {
        let text = r#"{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=AB"},"x":{"serverRelativeURL":"/openapi/v3/x"},"y":{"serverRelativeURL":"//evil?hash=a%22"}}}"#;
        let root = Root::parse(Bytes::from_static(text.as_bytes())).unwrap();
        assert_eq!(root.hash("api/v1"), Some("AB"));
        assert_eq!(root.hash("x"), None);
        assert_eq!(root.hash("y"), None);
        assert_eq!(root.hash("z"), None);
        assert_eq!(write(root.paths), text);
        for bad in ["<html>", "{}", r#"{"paths":{"a":{}}}"#, "[]"] {
            assert!(Root::parse(Bytes::from_static(bad.as_bytes())).is_err());
        }
    }

    #[test]
    fn keys() {
        let version = |text: &str| Key::Version(GroupVersion::parse(text).unwrap());
        for (key, meaning) in [
            ("api/v1", version("v1")),
            ("apis/apps/v1", version("apps/v1")),
            ("api", Key::Group(String::new())),
            ("apis/apps", Key::Group("apps".to_owned())),
            ("apis", Key::Other),
            ("version", Key::Other),
            ("apis/apps/v1/", Key::Other),
        ] {
            assert_eq!(Key::parse(key), meaning, "{key}");
        }
        assert_eq!(key_of(&GroupVersion::parse("v1").unwrap()), "api/v1");
    }
}
