//! Writes the objects of bookmarks.

use std::borrow::Cow;

use bytes::Bytes;
use kubernetes_wire::representation::json_envelope::Form;
use kubernetes_wire::representation::{BookmarkTemplate, Envelope};

use crate::store::Store;

/// Returns a bookmark's object as JSON, in the form of stored objects.
pub(super) fn bookmark_item(
    store: &Store,
    version: u64,
    initial_events_end: bool,
) -> Option<Bytes> {
    let template: &BookmarkTemplate = store.resource.bookmark.get()?;
    let object = Bytes::from(template.object(version, initial_events_end));
    store.resource.envelope.fragment(&object)
}

/// Does the same as [`bookmark_item`] for a watch that shows metadata. Also
/// returns the envelope to read the item with.
pub(super) fn bookmark_of_metadata(
    store: &Store,
    version: u64,
    initial_events_end: bool,
) -> Option<(Bytes, Cow<'_, Envelope>)> {
    let envelope = &store.resource.envelope;
    if !store.presentation().writes_null_times {
        let item = bookmark_item(store, version, initial_events_end)?;
        return Some((item, Cow::Borrowed(envelope)));
    }
    let template = store.resource.bookmark.get()?.of_metadata_before_1_34();
    let object = template.object(version, initial_events_end);
    let item = envelope.fragment(&object.into())?;
    // With this form, the metadata stays as the template writes it.
    let mut envelope = envelope.clone();
    envelope.form = Form::Struct;
    Some((item, Cow::Owned(envelope)))
}
