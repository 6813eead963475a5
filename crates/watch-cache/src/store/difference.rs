//! What differs between two snapshots, found by the leaves that they do not share.

use std::cmp::Ordering;
use std::sync::Arc;

use super::tree_leaf::Leaf;
use super::{Snapshot, StoredObject};

/// An object that differs: as it was, and as it is.
#[derive(Clone, Debug)]
pub struct Differing {
    pub before: Option<Arc<StoredObject>>,
    pub after: Option<Arc<StoredObject>>,
}

impl Snapshot {
    /// Returns the objects that are not the same as in an earlier or later state, in key
    /// order. An object may be returned although only its place in memory differs.
    pub fn difference(&self, before: &Self) -> Vec<Differing> {
        if std::ptr::eq(self, before) {
            return Vec::new();
        }
        let (gone, come) = unshared(before, self);
        let mut before = objects(&gone).peekable();
        let mut after = objects(&come).peekable();
        let mut found = Vec::new();
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return found,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(before), Some(after)) => before.key.cmp(&after.key),
            };
            let before = before.next_if(|_| order.is_le()).cloned();
            let after = after.next_if(|_| order.is_ge()).cloned();
            match (&before, &after) {
                (Some(before), Some(after)) if Arc::ptr_eq(before, after) => {}
                _ => found.push(Differing { before, after }),
            }
        }
    }
}

fn objects<'l>(leaves: &'l [&Arc<Leaf>]) -> impl Iterator<Item = &'l Arc<StoredObject>> {
    leaves.iter().flat_map(|leaf| leaf.objects())
}

/// Returns the leaves that only one of the states has, in key order.
fn unshared<'s>(a: &'s Snapshot, b: &'s Snapshot) -> (Vec<&'s Arc<Leaf>>, Vec<&'s Arc<Leaf>>) {
    let (mut of_a, mut of_b) = (a.leaves().peekable(), b.leaves().peekable());
    let (mut only_a, mut only_b) = (Vec::new(), Vec::new());
    loop {
        // A shared leaf has the same first key in both states.
        let order = match (of_a.peek(), of_b.peek()) {
            (None, None) => return (only_a, only_b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {
                of_a.next();
                of_b.next();
                continue;
            }
            (Some(a), Some(b)) => first_key(a).cmp(&first_key(b)),
        };
        only_a.extend(of_a.next_if(|_| order.is_le()));
        only_b.extend(of_b.next_if(|_| order.is_ge()));
    }
}

fn first_key(leaf: &Leaf) -> Option<&str> {
    leaf.objects().first().map(|object| object.key.as_str())
}
