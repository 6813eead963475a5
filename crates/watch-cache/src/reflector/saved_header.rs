//! The header of a saved copy of an entry's store.

use kubernetes_wire::representation::Form;

use super::entry::Entry;
use crate::saved::Header;
use crate::store::Store;

/// Returns the header of a saved copy of the entry's store. The caller fills in
/// the versions and the time. `None` if the store may not be saved.
pub(super) fn saved_header(entry: &Entry, store: &Store, list_forms: &[String]) -> Option<Header> {
    let origin = entry.provenance().origin()?;
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
        json_only: entry.provenance().is_json_only(),
        reads_json: entry.provenance().reads_json(),
        fields: resource.fields.labels().map(str::to_owned).collect(),
        initial_events: store.presentation().initial_events,
        lacks_initial_events: store.presentation().lacks_initial_events,
        blueprint: store.presentation().blueprint,
        bookmark,
        columns: origin.columns,
        list_forms: list_forms.to_vec(),
    })
}
