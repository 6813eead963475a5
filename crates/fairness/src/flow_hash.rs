//! The hash of a flow, which selects the flow's queues.

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The number of flows of a schema that are remembered. A flow can evict one other,
/// which is then hashed again.
const MAX_FLOWS: usize = 256;
/// Longer distinguishers are not remembered.
const MAX_DISTINGUISHER_BYTES: usize = 128;

/// The hashes of a schema's flows. On a processor without SHA-256 instructions,
/// hashing would take longer than all the rest of a request's way.
pub(crate) struct FlowHashes {
    flow_schema: String,
    recent: Box<[Mutex<Slot>]>,
}

/// A flow's distinguisher and its hash.
type Slot = Option<(Box<str>, u64)>;

impl FlowHashes {
    pub(crate) fn new(flow_schema: &str) -> Self {
        Self {
            flow_schema: flow_schema.to_owned(),
            recent: (0..MAX_FLOWS).map(|_| Mutex::default()).collect(),
        }
    }

    pub(crate) fn hash(&self, distinguisher: &str) -> u64 {
        // A slot that is locked is not waited for: hashing again is quicker.
        let slot = self.recent.get(slot(distinguisher));
        let mut slot = slot.and_then(Mutex::try_lock);
        if let Some(Some((known, hash))) = slot.as_deref()
            && **known == *distinguisher
        {
            return *hash;
        }
        let hash = flow_hash(&self.flow_schema, distinguisher);
        if let Some(slot) = slot.as_deref_mut()
            && distinguisher.len() <= MAX_DISTINGUISHER_BYTES
        {
            *slot = Some((distinguisher.into(), hash));
        }
        hash
    }
}

/// Returns the slot of a flow. It depends on the last letters, in which names
/// mostly differ.
fn slot(distinguisher: &str) -> usize {
    let bytes = distinguisher.as_bytes();
    let last = match bytes.last_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => bytes
            .iter()
            .fold(0, |sum: u64, byte| sum.rotate_left(8) ^ u64::from(*byte)),
    };
    let mixed = (last ^ bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The highest bits depend on all the others.
    (mixed >> 56) as usize
}

/// Returns the first eight bytes, as a little-endian number, of the SHA-256 of the
/// schema's name, a zero byte and the flow's distinguisher.
fn flow_hash(flow_schema: &str, distinguisher: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(flow_schema.as_bytes());
    hash.update([0]);
    hash.update(distinguisher.as_bytes());
    let sum = hash.finalize();
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(sum) {
        *to = from;
    }
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_hashes_are_those_of_their_flows() {
        let hashes = FlowHashes::new("schema");
        let long = "x".repeat(MAX_DISTINGUISHER_BYTES + 1);
        let names = (0..2000).map(|n| format!("system:serviceaccount:ns-{n}:name"));
        let names: Vec<String> = names.chain([String::new(), "a".to_owned(), long]).collect();
        for _ in 0..2 {
            for name in &names {
                let expected = flow_hash("schema", name);
                assert_eq!(
                    [hashes.hash(name), hashes.hash(name)],
                    [expected; 2],
                    "{name}"
                );
            }
        }
        let used = hashes.recent.iter().filter(|slot| slot.lock().is_some());
        assert!(used.count() > MAX_FLOWS / 2);
    }
}
