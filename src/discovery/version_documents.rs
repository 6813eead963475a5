//! Plain documents of single versions, each fetched at its first request.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use parking_lot::Mutex;

use super::encoded_document::EncodedDocument;
use super::memo::Memo;
use super::remote_document::{Document, RemoteDocument, Wanted};
use super::{JSON, resource_list};
use crate::runtime_config::RuntimeConfig;

/// The most plain documents that are kept. No cluster has as many versions. Requests
/// for others are forwarded.
const MAX_VERSIONS: usize = 10_000;

pub(super) struct VersionDocument {
    pub(super) document: Arc<RemoteDocument>,
    /// The document without hidden resources. It is made again when the number of
    /// the document or the generation changes.
    made: Memo<(u64, u64), Option<Arc<EncodedDocument>>>,
}

#[derive(Default)]
pub(super) struct VersionDocuments(Mutex<HashMap<GroupVersion, Arc<VersionDocument>>>);

impl VersionDocuments {
    /// Returns the document of a version. If there are too many, documents of
    /// versions that are not shown make room. Without room it returns `None`.
    pub(super) fn get<S>(
        &self,
        version: &GroupVersion,
        shown: impl FnOnce() -> S,
    ) -> Option<Arc<VersionDocument>>
    where
        S: Fn(&GroupVersion) -> bool,
    {
        let mut versions = self.0.lock();
        if let Some(known) = versions.get(version) {
            return Some(known.clone());
        }
        if versions.len() >= MAX_VERSIONS {
            let is_shown = shown();
            versions.retain(|version, _| is_shown(version));
            if versions.len() >= MAX_VERSIONS {
                return None;
            }
        }
        let wanted = Wanted {
            accept: JSON,
            content_type: JSON,
            own: false,
        };
        let document = Arc::new(VersionDocument {
            document: RemoteDocument::new(&version.path(), wanted),
            made: Memo::default(),
        });
        versions.insert(version.clone(), document.clone());
        Some(document)
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

impl VersionDocument {
    /// Returns the document without hidden resources. `None` if some are hidden and
    /// the document has an unknown form.
    pub(super) fn shown(
        &self,
        document: &Document,
        version: &GroupVersion,
        config: &RuntimeConfig,
        generation: u64,
    ) -> Option<Arc<EncodedDocument>> {
        let made = self.made.get((document.number, generation), || {
            without_hidden(document, version, config)
        });
        Option::clone(&made)
    }
}

fn without_hidden(
    document: &Document,
    version: &GroupVersion,
    config: &RuntimeConfig,
) -> Option<Arc<EncodedDocument>> {
    let hidden = |resource: &str| {
        let gvr = GroupVersionResource::new(&version.group, &version.version, resource);
        !config.is_resource_enabled(&gvr)
    };
    let json = if config.is_default() {
        document.body.clone()
    } else {
        resource_list::without(&document.body, hidden)?
    };
    Some(Arc::new(EncodedDocument::new(json, None)))
}
