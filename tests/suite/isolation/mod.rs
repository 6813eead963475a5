//! What one caller, backend or API server can do to the others.

mod hostile_backend;
mod upstream;
