//! No caller's rights, slowness or flood becomes another's.

mod matrix;
mod question;
mod scope;
mod shown;
mod tenants;
mod vocabulary;
