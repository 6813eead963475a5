//! The source of a list: the facts that decide after a restart whether a saved
//! copy of the list can be used.

use std::time::Duration;

use apifront_source::{ServerIdentity, Source, Unidentified};
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::Form;

use super::custom_resource_definition::DefinitionState;
use super::entry::Entry;
use super::source_encoding;
use crate::saved::{Columns, Header, Revision};
use crate::store::Store;

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

/// Returns the header of a saved copy of the entry's store. The caller fills in
/// the versions and the time. `None` if the store may not be saved.
pub(super) fn header(entry: &Entry, store: &Store, list_forms: &[String]) -> Option<Header> {
    let origin = entry.origin()?;
    let resource = &store.resource;
    let envelope = &resource.envelope;
    let bookmark = resource.bookmark.get().map(|b| b.object(0, false));
    let bookmark = bookmark.and_then(|object| String::from_utf8(object).ok());
    Some(Header {
        group: entry.gvr.group.clone(),
        version: entry.gvr.version.clone(),
        resource: entry.gvr.resource.clone(),
        cluster: origin.server.cluster,
        git_version: origin.server.git_version,
        definition: origin.definition,
        saved_at: 0,
        since: 0,
        resource_version: 0,
        namespaced: resource.namespaced,
        go_struct: envelope.form == Form::Struct,
        api_version: envelope.api_version.clone(),
        kind: envelope.kind.clone(),
        list_kind: envelope.list_kind.clone(),
        json_only: entry.is_json_only(),
        reads_json: entry.reads_json(),
        fields: resource.fields.labels().map(str::to_owned).collect(),
        initial_events: store.presentation().initial_events,
        lacks_initial_events: store.presentation().lacks_initial_events,
        blueprint: store.presentation().blueprint,
        bookmark,
        columns: origin.columns,
        list_forms: list_forms.to_vec(),
    })
}
