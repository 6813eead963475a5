//! Makes the facts that answers show of a resource besides its objects. They depend on
//! its server's release and on its definition.

use std::sync::Arc;

use kubernetes_wire::api::{GroupVersionResource, Release};
use kubernetes_wire::representation::Form;

use super::definition::DefinitionState;
use super::entry::Entry;
use super::{printer_check, source_encoding};
use crate::saved::Columns;
use crate::store::Presentation;

/// Returns what the release and the definition say. The caller adds the warnings, and
/// what is known of initial events.
pub(super) fn presentation(
    entry: &Entry,
    form: Form,
    defined: &DefinitionState,
    columns: &Columns,
) -> Presentation {
    let (gvr, release) = (&entry.gvr, entry.provenance().release());
    let printer = printer_check::printer(gvr, form, defined.definition(), release, columns);
    let is_of_kubernetes = is_of_kubernetes(gvr, defined);
    Presentation {
        printer: printer.map(Arc::new),
        other_release: is_other_release(gvr, release),
        other_lists: has_other_lists(gvr, defined, release),
        counts_shards: source_encoding::counts_shards(release),
        compresses_watches: is_of_kubernetes && source_encoding::compresses_watches(release),
        writes_null_times: is_of_kubernetes && source_encoding::writes_null_times(release),
        ..Presentation::default()
    }
}

/// Tells whether upstream's release writes objects of the resource differently
/// than apifront does.
pub(super) fn is_other_release(gvr: &GroupVersionResource, release: Option<Release>) -> bool {
    source_encoding::is_built_in(gvr) && !source_encoding::is_written_alike(gvr, release)
}

/// Tells whether upstream's release writes lists of the resource differently
/// than apifront does.
pub(super) fn has_other_lists(
    gvr: &GroupVersionResource,
    defined: &DefinitionState,
    release: Option<Release>,
) -> bool {
    !source_encoding::lists_alike(is_of_kubernetes(gvr, defined), release)
}

/// Tells whether kube-apiserver itself serves the resource.
fn is_of_kubernetes(gvr: &GroupVersionResource, defined: &DefinitionState) -> bool {
    source_encoding::is_built_in(gvr) || !matches!(defined, DefinitionState::Elsewhere)
}
