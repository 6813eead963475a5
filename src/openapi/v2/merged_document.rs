//! The merged document: whose paths are in it, and in which order they are merged.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderValue;
use kubernetes_wire::api::GroupVersion;
use tokio::sync::OnceCell;

use super::merge_rules;
use super::spec::Spec;
use crate::openapi::accept::{Encoding, Version};
use crate::openapi::document::Document;
use crate::openapi::gnostic;
use crate::openapi::shown_apis::ShownApis;

/// The documents from which a merged document is made.
#[derive(Clone)]
pub(in crate::openapi) struct Parts {
    pub shown: Arc<ShownApis>,
    pub upstream: Arc<Document>,
    /// The documents of the shown backends, in order.
    pub backends: Vec<Option<Arc<Document>>>,
}

pub(in crate::openapi) struct Merged {
    parts: Parts,
    json: Arc<Document>,
    /// The protobuf encoding, made at its first request.
    protobuf: OnceCell<Option<Arc<Document>>>,
}

impl Parts {
    fn is_same(&self, other: &Self) -> bool {
        let backends = self.backends.iter().zip(&other.backends);
        Arc::ptr_eq(&self.shown, &other.shown)
            && Arc::ptr_eq(&self.upstream, &other.upstream)
            && self.backends.len() == other.backends.len()
            && backends.into_iter().all(|pair| match pair {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            })
    }
}

impl Merged {
    /// Merges the documents, which takes tens of milliseconds. Returns `None` if
    /// upstream's is no OpenAPI document. A backend's document is left out if it is
    /// none or cannot be merged.
    pub(in crate::openapi) fn new(parts: Parts) -> Option<Self> {
        let json = merge(&parts)?;
        let document = Document::made(json, Version::V2.content_type(Encoding::Json));
        Some(Self {
            parts,
            json: Arc::new(document),
            protobuf: OnceCell::new(),
        })
    }

    pub(in crate::openapi) fn is_of(&self, parts: &Parts) -> bool {
        self.parts.is_same(parts)
    }

    pub(in crate::openapi) async fn document(&self, encoding: Encoding) -> Option<Arc<Document>> {
        match encoding {
            Encoding::Json => Some(self.json.clone()),
            Encoding::Protobuf => self.protobuf.get_or_init(|| self.encode()).await.clone(),
        }
    }

    async fn encode(&self) -> Option<Arc<Document>> {
        let json = self.json.bytes.clone();
        let encode = move || gnostic::encode_v2(&json);
        let bytes = tokio::task::spawn_blocking(encode).await.ok()??;
        let content_type = Version::V2.content_type(Encoding::Protobuf);
        let content_type = HeaderValue::from_static(content_type);
        let mut document = Document::new(Bytes::from(bytes), content_type);
        // The answer varies with the Accept header, so encodings may share an ETag.
        document.etag = self.json.etag.clone();
        document.last_modified = self.json.last_modified.clone();
        Some(Arc::new(document))
    }
}

/// Returns upstream's document with the paths of backends, and without those that the
/// configuration hides.
fn merge(parts: &Parts) -> Option<Vec<u8>> {
    let shown = &parts.shown;
    let mut merged = Spec::parse(&parts.upstream.bytes)
        .inspect_err(|error| tracing::warn!(%error, "upstream's OpenAPI v2 is none"))
        .ok()?;
    hide(&mut merged, shown);
    let names = shown.backends.iter().map(|b| b.server.name.as_str());
    let documents = parts.backends.iter().zip(names);
    let specs: Vec<Option<(Spec<'_>, &str)>> = documents
        .map(|(document, name)| Some((parse_backends(document.as_ref()?, name)?, name)))
        .collect();
    for (index, version) in shown.in_order() {
        let Some(Some((whole, name))) = specs.get(index) else {
            continue;
        };
        let mut spec = whole.clone();
        let prefix = prefix(version);
        spec.keep_paths(|path| path.starts_with(&prefix));
        if let Err(error) = merge_rules::merge(&mut merged, spec) {
            tracing::warn!(backend = %name, %version, %error, "not in OpenAPI v2");
        }
    }
    let length = parts.backends.iter().flatten().map(|d| d.bytes.len());
    let length = parts.upstream.bytes.len().saturating_add(length.sum());
    Some(merged.write(length))
}

fn parse_backends<'a>(document: &'a Document, name: &str) -> Option<Spec<'a>> {
    Spec::parse(&document.bytes)
        .inspect_err(|error| tracing::warn!(backend = %name, %error, "its OpenAPI v2 is none"))
        .ok()
}

fn prefix(version: &GroupVersion) -> String {
    format!("{}/", version.path())
}

/// Removes the paths of group versions that are disabled or served by a backend.
fn hide(spec: &mut Spec<'_>, shown: &ShownApis) {
    let versions: BTreeSet<GroupVersion> = spec
        .paths
        .keys()
        .filter_map(|path| version_of(path))
        .collect();
    let hidden =
        |version: &GroupVersion| !shown.runtime.is_enabled(version) || shown.is_backends(version);
    let mut prefixes: Vec<String> = versions
        .iter()
        .filter(|version| hidden(version))
        .map(prefix)
        .collect();
    let groups: BTreeSet<&str> = versions.iter().map(|v| v.group.as_str()).collect();
    let empty = groups.into_iter().filter(|group| {
        let mut of_group = versions.iter().filter(|v| v.group == *group);
        of_group.all(|v| !shown.runtime.is_enabled(v))
    });
    prefixes.extend(empty.map(|group| match group {
        "" => "/api/".to_owned(),
        group => format!("/apis/{group}/"),
    }));
    if !prefixes.is_empty() {
        spec.keep_paths(|path| !prefixes.iter().any(|prefix| path.starts_with(prefix)));
    }
}

fn version_of(path: &str) -> Option<GroupVersion> {
    let mut parts = path.trim_start_matches('/').split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let version = parts.next().filter(|version| !version.is_empty())?;
    Some(GroupVersion {
        group: group.to_owned(),
        version: version.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_paths() {
        for (path, version) in [
            ("/api/v1/pods", Some("v1")),
            ("/apis/apps/v1/", Some("apps/v1")),
            ("/apis/apps/", None),
            ("/apis/", None),
            ("/version/", None),
        ] {
            let version = version.and_then(GroupVersion::parse);
            assert_eq!(version_of(path), version, "{path}");
        }
    }
}
