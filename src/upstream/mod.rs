//! What apifront says to the servers behind it.

pub mod review;
