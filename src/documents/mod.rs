//! Documents of other servers that are kept recent here. Both discovery and
//! OpenAPI use them.
//!
//! ```text
//! caller ─ get(max_age) ─▶ Recent ─ one question for all ─▶ fetch ─▶ server
//!        ◀── the document ──┘ ▲
//!        Interest ─ how often ┘
//! ```
//!
//! A document is requested with its ETag, again after a time, and less often
//! after a failure. The last document stays while its server fails.

mod fetch;
mod interest;
mod own_documents;
mod recent;
mod server;

pub use fetch::{FetchError, Fetched, Limits};
pub use interest::{Interest, Rhythm};
pub use own_documents::OwnDocuments;
pub use recent::{Pace, Recent, Refreshed};
pub use server::DocumentServer;
