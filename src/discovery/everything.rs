//! A document of all groups, from fetching it to answering clients.

use std::sync::Arc;

use kubernetes_wire::negotiation::Aggregated;

use super::memo::Memo;
use super::merged_document::Merged;
use super::remote_document::{RemoteDocument, Wanted};

pub(super) const EVERYTHING: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const WITHOUT_PEERS: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer";
const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The documents at one path: with peers, without peers, and in version v2beta1.
pub(super) struct Everything {
    pub(super) documents: [Arc<RemoteDocument>; 3],
    merged: [MergedMemo; 3],
}

/// The merged document. It is made again when one of its inputs changes: the number
/// of upstream's document, the generation, or the number of the APIServices.
pub(super) type MergedMemo = Memo<(u64, u64, u64), Merged>;

impl Everything {
    pub(super) fn new(path: &str) -> Self {
        let document = |accept, content_type| {
            let wanted = Wanted {
                accept,
                content_type,
                own: true,
            };
            RemoteDocument::new(path, wanted)
        };
        Self {
            documents: [
                document(EVERYTHING, EVERYTHING),
                document(WITHOUT_PEERS, EVERYTHING),
                document(BETA, BETA),
            ],
            merged: Default::default(),
        }
    }

    pub(super) fn documents_for(
        &self,
        aggregated: Aggregated,
    ) -> (&Arc<RemoteDocument>, &MergedMemo) {
        let [v2, without_peers, beta] = &self.documents;
        let [merged_v2, merged_without_peers, merged_beta] = &self.merged;
        match aggregated {
            Aggregated::V2 => (v2, merged_v2),
            Aggregated::V2WithoutPeers => (without_peers, merged_without_peers),
            Aggregated::V2Beta1 => (beta, merged_beta),
        }
    }
}
