//! What one caller, backend or API server can do to the others.

mod upstream;
