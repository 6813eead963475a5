//! A document of everything at a path: of all groups, from fetching to clients.

use std::sync::Arc;

use super::derived::Derived;
use super::merged::Merged;
use super::remote_document::{RemoteDocument, Wanted};

pub(super) const EVERYTHING: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const WITHOUT_PEERS: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer";

/// The choice between the documents of everything, with the APIs of peers or
/// without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    Included,
    Excluded,
}

/// The documents at one path, with peers and without.
pub(super) struct Everything {
    pub(super) documents: [Arc<RemoteDocument>; 2],
    merged: [DerivedMerged; 2],
}

/// The merged document. It is made again when one of these changes: the number
/// of the upstream's document, the generation, the number of the APIServices.
pub(super) type DerivedMerged = Derived<(u64, u64, u64), Merged>;

impl Everything {
    pub(super) fn new(path: &str) -> Self {
        let document = |accept| {
            let wanted = Wanted {
                accept,
                content_type: EVERYTHING,
                own: true,
            };
            RemoteDocument::new(path, wanted)
        };
        Self {
            documents: [document(EVERYTHING), document(WITHOUT_PEERS)],
            merged: Default::default(),
        }
    }

    pub(super) fn of(&self, peers: Peers) -> (&Arc<RemoteDocument>, &DerivedMerged) {
        let [with, without] = &self.documents;
        let [merged_with, merged_without] = &self.merged;
        match peers {
            Peers::Included => (with, merged_with),
            Peers::Excluded => (without, merged_without),
        }
    }
}
