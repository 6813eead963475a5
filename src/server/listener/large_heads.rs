//! Bounds the bytes of large request heads that the process holds.
//!
//! Like kube-apiserver, apifront takes heads of a mebibyte from every client, before
//! it knows the caller. But this budget limits how many it takes at a time, for one
//! address and for all. Small heads take nothing from the budget.

use std::net::IpAddr;

use apifront_shares::{Limits, Share, Shares};

/// A head of up to this size is small. The groups of nearly every user fit, and a
/// few tokens.
pub(in crate::server) const SMALL_HEAD: usize = 64 << 10;

/// The most bytes of all large heads in the process: 64 of the largest.
const TOTAL_BYTES: usize = 64 << 20;

/// The most bytes of the large heads of one address.
const PER_CLIENT_BYTES: usize = TOTAL_BYTES / 4;

#[derive(Clone, Debug)]
pub(in crate::server) struct LargeHeads(Shares<IpAddr>);

/// The share of the budget that one head holds until it is dropped.
pub(in crate::server) type LargeHead = Share<IpAddr>;

impl Default for LargeHeads {
    fn default() -> Self {
        Self(Shares::new(Limits::fixed(TOTAL_BYTES, PER_CLIENT_BYTES)))
    }
}

impl LargeHeads {
    /// Takes the bytes of a large head. Returns `None` if the budget is used up.
    pub(in crate::server) fn take(&self, client: IpAddr, bytes: usize) -> Option<LargeHead> {
        self.0.take(client, bytes).ok()
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
            .map(|n| budget.take(client(n), PER_CLIENT_BYTES / 2).unwrap())
            .collect();
        assert!(heads[0].grow(PER_CLIENT_BYTES / 2).is_ok());
        assert!(heads[0].grow(1).is_err(), "its own share is used up");
        assert!(budget.take(client(0), 1).is_none());
        for head in &mut heads[1..] {
            assert!(head.grow(PER_CLIENT_BYTES / 2).is_ok());
        }
        assert!(budget.take(client(9), 1).is_none(), "all is used up");
        heads.clear();
        assert_eq!(budget.0.held(), 0);
    }
}
