//! A FlowSchema with its level, ready for matching.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

use crate::flow_hash::FlowHashes;
use crate::level::Level;
use crate::matching::Rule;
use crate::objects::{DistinguisherMethod, FlowSchema};
use crate::uid::Uid;

pub(crate) struct Schema {
    pub name: String,
    pub uid: Uid,
    /// The property that divides the schema's requests into flows.
    pub distinguisher: Option<DistinguisherMethod>,
    /// Whether flows matter: the level has several queues.
    pub has_flows: bool,
    pub level: Arc<Level>,
    pub level_uid: Uid,
    flows: FlowHashes,
    rules: Vec<Rule>,
    /// The schema's last known place in the level's statistics.
    place: AtomicUsize,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("name", &self.name).finish()
    }
}

impl Schema {
    pub(crate) fn new(
        object: &FlowSchema,
        level: Arc<Level>,
        level_uid: &str,
        has_flows: bool,
    ) -> Self {
        Self {
            name: object.metadata.name.clone(),
            uid: Uid::new(&object.metadata.uid),
            distinguisher: object.spec.distinguisher_method.map(|d| d.method),
            has_flows,
            level,
            level_uid: Uid::new(level_uid),
            flows: FlowHashes::new(&object.metadata.name),
            rules: object.spec.rules.iter().map(Rule::from_object).collect(),
            place: AtomicUsize::new(0),
        }
    }

    pub(crate) fn matches(&self, info: &RequestInfo, user: &UserInfo) -> bool {
        self.rules.iter().any(|rule| rule.matches(info, user))
    }

    pub(crate) fn flow(&self, distinguisher: &str) -> u64 {
        match self.has_flows {
            true => self.flows.hash(distinguisher),
            false => 0,
        }
    }

    pub(crate) fn place(&self) -> usize {
        self.place.load(Ordering::Relaxed)
    }

    /// Remembers the place. It is written only when it changes, which is rare.
    pub(crate) fn set_place(&self, place: usize) {
        if self.place() != place {
            self.place.store(place, Ordering::Relaxed);
        }
    }
}
