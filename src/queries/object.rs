//! A stored object as queries see it.

use std::cmp::Ordering;
use std::sync::Arc;

use apifront_query::{Candidate, Unreadable};
use apifront_watch_cache::store::StoredObject;
use kubernetes_wire::representation::{Envelope, Projection};

#[derive(Clone)]
pub struct QueriedObject {
    pub object: Arc<StoredObject>,
    pub envelope: Arc<Envelope>,
}

impl Candidate for QueriedObject {
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
        let projected = self.object.project(wanted, &self.envelope, out);
        projected.map_err(|_| Unreadable)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.object.key.cmp(&other.object.key)
    }
}
