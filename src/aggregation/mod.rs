//! Many backends as one API: which server answers for which group version.

mod source;

pub use source::{Source, SourceVersion};
