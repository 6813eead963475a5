//! Finds the document at a path, or the answer for hidden APIs.

use std::sync::Arc;

use kubernetes_wire::api::GroupVersion;
use kubernetes_wire::negotiation::Aggregated;

use super::path::DiscoveryPath;
use super::remote_document::MAX_AGE;
use super::version_documents::VersionDocument;
use super::{Discovery, EncodedDocument};
use crate::runtime_config::is_built_in_group;

pub enum Found {
    Document(Arc<EncodedDocument>),
    /// The document is hidden.
    Missing(Missing),
    /// Upstream or the backend that owns the path answers.
    Elsewhere,
}

/// The two answers of kube-apiserver for something that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// `404 page not found`: no server is responsible for the path.
    Page,
    /// A Status: the server of the group does not know the resource.
    Status,
}

impl Discovery {
    /// Tells whether upstream serves its documents of all groups as v2beta1. `None`
    /// if it never said.
    pub async fn serves_v2beta1(&self, path: &DiscoveryPath) -> Option<bool> {
        self.interest.note();
        let everything = match path {
            DiscoveryPath::Api => &self.api,
            _ => &self.apis,
        };
        let (document, _) = everything.documents_for(Aggregated::V2Beta1);
        let found = document.get(&self.server, MAX_AGE).await.is_some();
        document.confirmed().map(|_| found)
    }

    /// Finds the document at a path. `everything` asks for the document of all
    /// groups.
    pub async fn find(&self, path: &DiscoveryPath, everything: Option<Aggregated>) -> Found {
        self.interest.note();
        let found = match (path, everything) {
            (DiscoveryPath::Api, Some(aggregated)) => {
                let merged = self.merged(&self.api, aggregated).await;
                merged.map(|m| m.encoded.clone())
            }
            (DiscoveryPath::Apis, Some(aggregated)) => {
                let merged = self.merged(&self.apis, aggregated).await;
                merged.map(|m| m.encoded.clone())
            }
            (DiscoveryPath::Api, None) => {
                let document = self.plain_api.get(&self.server, MAX_AGE).await;
                document.map(|d| {
                    let make = || EncodedDocument::new(d.body.clone(), None);
                    self.plain_api_made.get(d.number, make)
                })
            }
            (DiscoveryPath::Apis | DiscoveryPath::ApisSlash, _) => {
                self.groups().await.map(|g| g.encoded.clone())
            }
            (DiscoveryPath::Group(group), _) => return self.find_group(group).await,
            (DiscoveryPath::Version(version), _) => return self.find_version(version).await,
        };
        found.map_or(Found::Elsewhere, Found::Document)
    }

    async fn find_group(&self, group: &str) -> Found {
        let Some(groups) = self.groups().await else {
            return Found::Elsewhere;
        };
        if let Some(encoded) = groups.group(group) {
            return Found::Document(encoded);
        }
        let hidden = self.last(&self.apis).is_some_and(|merged| {
            !merged.has_group(group) && merged.hidden.iter().any(|gv| gv.group == group)
        });
        if hidden {
            Found::Missing(Missing::Page)
        } else {
            Found::Elsewhere
        }
    }

    async fn find_version(&self, version: &GroupVersion) -> Found {
        let config = self.hides();
        let everything = self.everything(&version.group);
        // A known version needs no other proof than its own document.
        let known = self.last(everything).filter(|known| known.has(version));
        let merged = match known {
            Some(known) => Some(known),
            None => self.merged(everything, Aggregated::V2).await,
        };
        let Some(merged) = merged else {
            return Found::Elsewhere;
        };
        if merged.hidden.contains(version) {
            return Found::Missing(self.missing(version));
        }
        if !merged.has(version) {
            return Found::Elsewhere;
        }
        let server = match self.owner(version) {
            None => self.server.clone(),
            // A backend's own answer is passed on if all of it may be shown.
            Some(backend) if !backend.is_own() && !config.hides_some_of(version) => {
                return Found::Elsewhere;
            }
            Some(backend) => backend,
        };
        let Some(of_version) = self.version_document(version) else {
            return Found::Elsewhere;
        };
        let Some(document) = of_version.document.get(&server, MAX_AGE).await else {
            return Found::Elsewhere;
        };
        of_version
            .shown(&document, version, &config, self.generation())
            .map_or(Found::Elsewhere, Found::Document)
    }

    /// Returns the answer for a version that is hidden as a whole, or all of whose
    /// resources are hidden.
    pub fn hidden(&self, version: &GroupVersion) -> Option<Missing> {
        let config = self.hides();
        if config.is_default() {
            return None;
        }
        let shown = self.last(self.everything(&version.group));
        let hidden = !config.is_enabled(version)
            || shown.is_some_and(|merged| merged.hidden.contains(version));
        hidden.then(|| self.missing(version))
    }

    /// Returns the answer for a hidden version or for one of its resources.
    pub fn missing(&self, version: &GroupVersion) -> Missing {
        // Every path below /api belongs to the API server.
        if version.group.is_empty() {
            return Missing::Status;
        }
        let shown = self.last(&self.apis);
        let shown = shown.as_ref();
        let serves = if is_built_in_group(&version.group) {
            shown.is_none_or(|merged| merged.has_group(&version.group))
        } else {
            self.owner(version).is_some() && shown.is_none_or(|merged| merged.has(version))
        };
        if serves {
            Missing::Status
        } else {
            Missing::Page
        }
    }

    /// Returns the plain document of a version, unless there are too many.
    fn version_document(&self, version: &GroupVersion) -> Option<Arc<VersionDocument>> {
        self.versions.get(version, || {
            let shown = [&self.api, &self.apis].map(|everything| self.last(everything));
            move |version| shown.iter().flatten().any(|merged| merged.has(version))
        })
    }
}
