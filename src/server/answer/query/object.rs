//! A stored object as queries see it.

use std::sync::Arc;

use apifront_query::{Candidate, Unreadable};
use apifront_watch_cache::store::StoredObject;
use kubernetes_wire::representation::{Envelope, Projection};

pub(super) struct Object<'s> {
    pub(super) object: &'s Arc<StoredObject>,
    pub(super) envelope: &'s Envelope,
}

impl Candidate for Object<'_> {
    fn namespace(&self) -> &str {
        self.object.key.namespace()
    }

    fn name(&self) -> &str {
        self.object.key.name()
    }

    fn uid(&self) -> &str {
        self.object.uid()
    }

    fn project(&self, wanted: &Projection, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let projected = self.object.project(wanted, self.envelope, out);
        projected.map_err(|_| Unreadable)
    }
}
