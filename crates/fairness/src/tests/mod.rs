//! Tests of the engine as a whole.

mod admission;
mod borrowing;
mod classification;
mod commotion;
mod dumps;
mod figures;
mod metrics;
pub(crate) mod support;
