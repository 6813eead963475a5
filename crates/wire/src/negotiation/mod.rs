//! Reads from Accept and Accept-Encoding which representation a client wants, as
//! k8s.io/apiserver `endpoints/handlers/negotiation` and go-restful do. Every rule
//! was tried against kube-apiserver; see the tests.

mod accept_encoding;
mod accept_header;
mod clause;
mod content_type;
mod discovery;
mod error_encoding;
mod include_object;
mod negotiate;
mod not_acceptable;
mod pretty;
mod representation;
#[cfg(test)]
mod tests;

pub use accept_encoding::accepts_gzip;
pub use accept_header::parse as parse_accept;
pub use clause::Clause;
pub use content_type::input_media_type;
pub use discovery::{
    Aggregated, DiscoveryNegotiation, DiscoveryOffer, DiscoveryRepresentation, negotiate_discovery,
};
pub use error_encoding::{ErrorEncoding, error_encoding, error_is_negotiable};
pub use include_object::IncludeObject;
pub use negotiate::{Negotiation, Offer, mentions_drop, negotiate, negotiate_watch};
pub use not_acceptable::{not_acceptable, not_acceptable_to_filter, passes_filter};
pub use representation::{MediaType, MetaVersion, Representation, Transform};
