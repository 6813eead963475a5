//! Tells which values of a field the objects of a leaf may have. The pods of a node are
//! few, in few leaves. So a list of them passes over the other leaves without a look at
//! their objects.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kubernetes_wire::api::{FieldSelector, GroupVersionResource};

use super::fields::Selectable;
use super::{Derived, Leaf, Resource, StoredObject};

/// The bits of a digest. With the values of a full leaf, each of which sets two, one
/// leaf in 70 seems to have a value that it does not have.
const BITS: usize = 1024;
const WORD_BITS: usize = u64::BITS as usize;

/// Returns the field by which kube-apiserver's cache indexes objects
/// (`IndexFields` in kubernetes `pkg/registry`).
pub(crate) fn indexed_field(gvr: &GroupVersionResource) -> Option<&'static str> {
    match (gvr.group.as_str(), gvr.resource.as_str()) {
        ("", "pods") | ("resource.k8s.io", "resourceslices") => Some("spec.nodeName"),
        _ => None,
    }
}

/// A value of the indexed field that objects must have.
#[derive(Clone, Debug)]
pub(super) struct IndexedValue {
    column: usize,
    bits: [usize; 2],
}

impl IndexedValue {
    /// Returns the value that the selector requires. `None` if it requires none, or if
    /// the resource has no indexed field.
    pub(super) fn required(fields: &FieldSelector, resource: &Resource) -> Option<Self> {
        let lookup = |field: &str| match resource.fields.lookup(field, resource.namespaced)? {
            Selectable::Column(column) => Some(column),
            Selectable::Name | Selectable::Namespace | Selectable::Empty => None,
        };
        let column = lookup(indexed_field(&resource.gvr)?)?;
        let mut requirements = fields.requirements.iter();
        let required = requirements.find(|r| r.equal && lookup(&r.field) == Some(column))?;
        let bits = bits(&required.value);
        Some(Self { column, bits })
    }

    /// Tells whether an object of the leaf may have the value. Only leaves of the
    /// current state are known; others may always have it.
    pub(super) fn may_be_in(&self, leaf: &Leaf) -> bool {
        let digest = leaf.digest(self.column);
        digest.is_none_or(|digest| self.is_in(digest))
    }

    /// Tells whether it is known already that no object of the leaf has the value.
    pub(super) fn is_known_absent(&self, leaf: &Leaf) -> bool {
        let digest = leaf.digest_if_ready();
        digest.is_some_and(|digest| !self.is_in(digest))
    }

    fn is_in(&self, digest: &FieldDigest) -> bool {
        self.bits.iter().all(|bit| digest.has(*bit))
    }
}

/// The values of the indexed field of a leaf's objects, as a Bloom filter.
pub(super) struct FieldDigest([u64; BITS / WORD_BITS]);

impl FieldDigest {
    pub(super) fn new(objects: &[Arc<StoredObject>], column: usize) -> Self {
        let mut digest = Self([0; BITS / WORD_BITS]);
        for object in objects {
            let value = object.fields().get(column).unwrap_or_default();
            bits(value).into_iter().for_each(|bit| digest.set(bit));
        }
        digest
    }

    fn set(&mut self, bit: usize) {
        if let Some(word) = self.0.get_mut(bit / WORD_BITS) {
            *word |= mask(bit);
        }
    }

    fn has(&self, bit: usize) -> bool {
        let word = self.0.get(bit / WORD_BITS);
        word.is_some_and(|word| word & mask(bit) != 0)
    }
}

impl Derived for FieldDigest {
    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

fn mask(bit: usize) -> u64 {
    1 << (bit % WORD_BITS)
}

/// Returns the bits that stand for a value.
fn bits(value: &str) -> [usize; 2] {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let hash = hasher.finish() as usize;
    [hash % BITS, (hash / BITS) % BITS]
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kubernetes_wire::api::LabelSelector;

    use super::*;
    use crate::store::tests::pods;
    use crate::store::{Filter, KeyScope, Snapshot, Store};

    fn of_node(store: &Store, namespace: &str, node: usize) -> Filter {
        let fields = FieldSelector::parse(&format!("spec.nodeName=n{node}")).unwrap();
        Filter::new(namespace, LabelSelector::default(), fields, &store.resource).unwrap()
    }

    /// Returns the leaves that may hold pods of the node. All that do are among them.
    fn leaves_of(filter: &Filter, snapshot: &Snapshot) -> usize {
        let may = |leaf: &&Arc<Leaf>| {
            let may = filter.may_match_in(leaf);
            let does = leaf.objects().iter().any(|object| filter.matches(object));
            assert!(may || !does);
            may
        };
        snapshot.leaves().filter(may).count()
    }

    #[test]
    fn few_leaves_without_pods_of_a_node_are_looked_at() {
        let (writer, store) = pods::on_nodes(4_000, 2_000);
        let before = store.snapshot();
        let leaves = before.leaves().count();
        assert!(leaves >= 4_000 / 64, "{leaves}");
        let of_all = |snapshot: &Snapshot| -> usize {
            let nodes = 0..2_000;
            nodes
                .map(|node| leaves_of(&of_node(&store, "", node), snapshot))
                .sum()
        };
        // Each node has two pods, in two leaves at most, and one leaf in 70 seems to
        // have some.
        let most = 2_000 * (2 + leaves / 30);
        let count = |store: &Store| {
            let fields = FieldSelector::parse("spec.nodeName=n7").unwrap();
            let snapshot = store.snapshot();
            snapshot.count_looked_at(&KeyScope::All, &fields, &store.resource)
        };
        assert_eq!(count(&store), 4_000, "nothing is known yet");
        assert!(of_all(&before) <= most);
        assert!(count(&store) <= leaves + 64 * (2 + leaves / 10));
        for version in 6..506 {
            let n = version as usize * 7_919 % 4_000;
            let moved = pods::on_node(n, n / 3 % 2_000, version);
            writer.apply(false, moved, Instant::now()).unwrap();
        }
        assert!(of_all(&store.snapshot()) <= most);
        // The leaves that changed are not known any more, so all their objects are
        // looked at.
        of_all(&before);
        let memory = store.memory();
        assert!(memory.derived >= 128 * leaves / 2, "{memory:?}");
    }

    #[test]
    fn other_fields_and_other_requirements_tell_nothing() {
        let (_, store) = pods::on_nodes(100, 10);
        let leaves = store.snapshot().leaves().count();
        for fields in [
            "spec.nodeName!=n1",
            "status.phase=Running",
            "metadata.namespace=a",
        ] {
            let fields = FieldSelector::parse(fields).unwrap();
            let all = Filter::new("", LabelSelector::default(), fields, &store.resource).unwrap();
            assert!(!all.is_indexed());
            assert_eq!(leaves_of(&all, &store.snapshot()), leaves);
        }
        let fields = FieldSelector::parse("spec.nodeName!=n1,spec.host=n3").unwrap();
        let both = Filter::new("", LabelSelector::default(), fields, &store.resource).unwrap();
        assert!(both.is_indexed());
    }
}
