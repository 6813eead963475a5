//! The documents of an API that this process answers itself. They never change.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::fetch::Fetched;

/// JSON documents by their path.
pub struct OwnDocuments(BTreeMap<&'static str, Bytes>);

impl OwnDocuments {
    pub fn new(documents: impl IntoIterator<Item = (&'static str, Bytes)>) -> Self {
        Self(documents.into_iter().collect())
    }

    pub fn json(&self, path: &str) -> Option<&Bytes> {
        self.0.get(path)
    }

    pub(super) fn fetch(&self, path: &str) -> Fetched {
        let Some(json) = self.json(path) else {
            return Fetched::Refused(StatusCode::NOT_FOUND);
        };
        let json_type = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, json_type)]);
        Fetched::Document(headers, json.clone())
    }
}
