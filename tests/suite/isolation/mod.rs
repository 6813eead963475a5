//! No caller's rights, slowness or flood becomes another's.

mod connection_reuse;
mod matrix;
mod parameters;
mod question;
mod scope;
mod shown;
mod tenants;
mod vocabulary;
