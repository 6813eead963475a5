//! The bytes of large request heads that the process holds.
//!
//! kube-apiserver takes heads of a mebibyte from everybody, before it knows who
//! asks. So does apifront, but only as many at a time as this bound allows, for
//! one address and for all. The small heads of everybody else need nothing from
//! it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The size up to which a head is small. It holds the groups of nearly every
/// user, and a few tokens.
pub(in crate::server) const SMALL_HEAD: usize = 64 << 10;

/// The bytes that all large heads of the process may have: 64 of the largest.
const TOTAL: usize = 64 << 20;

/// The bytes that the large heads of one address may have.
const PER_CLIENT: usize = TOTAL / 4;

/// The budget of the process.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct LargeHeads(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// The part of the budget that one head has until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct LargeHead {
    budget: LargeHeads,
    client: IpAddr,
    bytes: usize,
}

impl LargeHeads {
    /// Takes the bytes of a large head. Returns `None` if too many are held
    /// already.
    pub(in crate::server) fn take(&self, client: IpAddr, bytes: usize) -> Option<LargeHead> {
        let mut head = LargeHead {
            budget: self.clone(),
            client,
            bytes: 0,
        };
        head.grow(bytes).then_some(head)
    }
}

impl LargeHead {
    pub(in crate::server) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more bytes. Returns false, and takes nothing, if too many are held
    /// already.
    pub(in crate::server) fn grow(&mut self, bytes: usize) -> bool {
        let mut held = self.budget.0.lock();
        let total = held.total.saturating_add(bytes);
        let before = held.by_client.get(&self.client).copied();
        let of_client = before.unwrap_or_default().saturating_add(bytes);
        if total > TOTAL || of_client > PER_CLIENT {
            return false;
        }
        held.total = total;
        held.by_client.insert(self.client, of_client);
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }
}

impl Drop for LargeHead {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.budget.0.lock();
        held.total = held.total.saturating_sub(self.bytes);
        if let Some(of_client) = held.by_client.get_mut(&self.client) {
            *of_client = of_client.saturating_sub(self.bytes);
            if *of_client == 0 {
                held.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_heads_share_a_bound_and_give_back_what_they_took() {
        let budget = LargeHeads::default();
        let client = |n| IpAddr::from([192, 0, 2, n]);
        let mut heads: Vec<_> = (0..4)
            .map(|n| budget.take(client(n), PER_CLIENT / 2).unwrap())
            .collect();
        assert!(heads[0].grow(PER_CLIENT / 2));
        assert!(!heads[0].grow(1), "its own share is used up");
        assert!(budget.take(client(0), 1).is_none());
        for head in &mut heads[1..] {
            assert!(head.grow(PER_CLIENT / 2));
        }
        assert!(budget.take(client(9), 1).is_none(), "all is used up");
        heads.clear();
        let held = budget.0.lock();
        assert_eq!((held.total, held.by_client.len()), (0, 0));
    }
}
