//! WATCH from the store: a cursor over the log, turned into frames.

// These modules read values from the wire: none of them may overflow a number,
// or be looked for where it is not.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

mod frames;
mod session;
#[cfg(test)]
mod tests;
mod transition;

pub use frames::{PartialMessageFrames, TransformedFrames, WholeFrames};
pub use session::{FrameWriter, Watch, WatchEnd, WatchOptions};
pub use transition::transition;
