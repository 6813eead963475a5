//! x

pub(super) mod apifront;
pub(super) mod build;
pub(super) mod self_check;
