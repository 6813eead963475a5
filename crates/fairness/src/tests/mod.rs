//! Tests of the engine as a whole.

mod admission;
mod borrowing;
mod classification;
mod dumps;
mod figures;
mod metrics;
pub(crate) mod support;
