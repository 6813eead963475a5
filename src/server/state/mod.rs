//! x

pub(super) mod drain;
pub(super) mod generation;
