//! Where a store's objects come from, and in which encoding they are read.

use std::sync::atomic::{AtomicBool, Ordering};

use apifront_source::CurrentSource;
use kubernetes_wire::api::{GroupVersionResource, Release};
use parking_lot::Mutex;

use super::definition::{self, ListedBy};
use super::origin::Origin;
use super::source_encoding;
use crate::store::MalformedObject;

/// The source of a store's objects.
pub(super) struct Provenance {
    gvr: GroupVersionResource,
    /// The resource's protobuf holds something that the schema does not know.
    json_only: AtomicBool,
    /// The release of Kubernetes that the last list came from.
    release: Mutex<Option<Release>>,
    savable: bool,
    /// The source of the store. `None` if the store may not be saved or the
    /// source is unknown.
    origin: Mutex<Option<Origin>>,
    listed_by: Mutex<ListedBy>,
}

impl Provenance {
    pub(super) fn new(gvr: GroupVersionResource) -> Self {
        Self {
            gvr,
            json_only: AtomicBool::new(false),
            release: Mutex::default(),
            savable: false,
            origin: Mutex::default(),
            listed_by: Mutex::default(),
        }
    }

    pub(super) fn set_savable(&mut self, savable: bool) {
        self.savable = savable;
    }

    /// Tells whether the store may be saved, if its origin is known.
    pub(super) fn is_savable(&self) -> bool {
        self.savable
    }

    /// Judges an object that could not be used. If its protobuf could not be
    /// turned into JSON, upstream is newer than the schema, and all objects are
    /// read as JSON from now on. Returns true if this call decided that.
    pub(super) fn judge(&self, error: &MalformedObject) -> bool {
        let newer = matches!(error, MalformedObject::Protobuf(_));
        if newer && !self.json_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(resource = %self.gvr, %error, "read as JSON from now on");
            return true;
        }
        false
    }

    pub(super) fn reads_json(&self) -> bool {
        self.is_json_only() || !source_encoding::is_written_alike(&self.gvr, self.release())
    }

    pub(super) fn is_json_only(&self) -> bool {
        self.json_only.load(Ordering::Relaxed)
    }

    pub(super) fn set_json_only(&self, only: bool) {
        self.json_only.store(only, Ordering::Relaxed);
    }

    pub(super) fn release(&self) -> Option<Release> {
        *self.release.lock()
    }

    pub(super) fn set_release(&self, release: Option<Release>) {
        *self.release.lock() = release;
    }

    pub(super) fn origin(&self) -> Option<Origin> {
        self.origin.lock().clone()
    }

    pub(super) fn set_origin(&self, origin: Option<Origin>) {
        *self.origin.lock() = origin;
    }

    /// Notes the definition that the store's list was made with. It must be
    /// [`ListedBy::Unsure`] while the store changes.
    pub(super) fn set_listed_by(&self, definition: ListedBy) {
        *self.listed_by.lock() = definition;
    }

    /// Tells whether the resource's definition is still the one that the store was
    /// listed with. [`Entry`](super::Entry) says what callers must heed.
    pub(super) async fn is_listed_by_current_definition(&self, owner: &dyn CurrentSource) -> bool {
        let before = self.listed_by.lock().clone();
        match &before {
            ListedBy::Unsure => false,
            ListedBy::None => true,
            ListedBy::Revision(revision) => {
                let upstream = owner.current();
                let now = definition::revision(&*upstream, &self.gvr).await;
                // The store may have been filled by another list meanwhile.
                now.as_ref() == Some(revision) && *self.listed_by.lock() == before
            }
        }
    }

    pub(super) fn has_definition(&self) -> bool {
        *self.listed_by.lock() != ListedBy::None
    }
}
