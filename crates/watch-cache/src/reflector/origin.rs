//! The source of a list: the facts that decide after a restart whether a saved
//! copy of the list can be used.

use std::time::Duration;

use apifront_source::{ServerIdentity, Source, Unidentified};
use kubernetes_wire::api::GroupVersionResource;

use super::definition::DefinitionState;
use super::source_encoding;
use crate::saved::{Columns, Revision};

const IDENTITY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) server: ServerIdentity,
    pub(super) definition: Option<Revision>,
    pub(super) columns: Columns,
}

pub(super) async fn ask(upstream: &dyn Source) -> Result<ServerIdentity, Unidentified> {
    let asked = tokio::time::timeout(IDENTITY_TIMEOUT, upstream.identity()).await;
    asked.unwrap_or(Err(Unidentified::Later))
}

/// Returns the definition that shows whether saved objects are current. `None`
/// for aggregated APIs, whose server may be replaced without a sign.
pub(super) fn definition(
    gvr: &GroupVersionResource,
    defined: &DefinitionState,
) -> Option<Option<Revision>> {
    match defined {
        DefinitionState::By(definition) => Some(Some(definition.revision.clone())),
        DefinitionState::Elsewhere if source_encoding::is_built_in(gvr) => Some(None),
        DefinitionState::Elsewhere | DefinitionState::Unknown => None,
    }
}
