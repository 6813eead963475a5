//! The number that stands for a flow, from which its queues are dealt.

use sha2::{Digest, Sha256};

/// Returns the first eight bytes, as a little-endian number, of the SHA-256 of
/// the schema's name, a zero byte and what distinguishes the flow.
pub(crate) fn flow_hash(flow_schema: &str, distinguisher: &str) -> u64 {
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
