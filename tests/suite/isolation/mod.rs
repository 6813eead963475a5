//! What one caller does is nobody else's delay, loss or memory.

mod audit_flood;
mod credentials;
mod metric_labels;
mod two_users;
