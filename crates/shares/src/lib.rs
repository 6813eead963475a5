//! Places, bytes and turns that callers share, with a limit for all callers
//! together and a part for each.

// No value from the wire or a file may cause a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

mod fair_queue;
mod ledger;
mod shares;

pub use fair_queue::{Asked, FairQueue, QueueFull, QueueLimits, Queued, Turn};
pub use ledger::{Exceeded, Ledger, Limits, OfOne};
pub use shares::{Share, Shares};
