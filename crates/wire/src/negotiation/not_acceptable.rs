//! The 406 of a request that accepts no representation.

use http::HeaderMap;

use super::accept_header::{self, first_accept};
use super::representation::{MediaType, OFFERED};
use crate::api::{Reason, Status, status::Details};

/// The media types of whole answers and of watches, as error messages list them.
const WHOLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMED: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Returns the 406 of the handlers. go-restful's filter has a different text.
pub fn not_acceptable(watch: bool) -> Status {
    let types = if watch { STREAMED } else { WHOLE };
    Status::failure(
        406,
        Reason::NotAcceptable,
        format!("only the following media types are accepted: {types}"),
    )
}

/// Tells whether go-restful's filter, which runs before all built-in handlers,
/// lets a request through.
pub fn passes_filter(headers: &HeaderMap) -> bool {
    first_accept(headers)
        .is_some_and(|header| accept_header::route_matches(header, &OFFERED.map(MediaType::as_str)))
}

/// Returns the 406 of go-restful's filter. `streams` says whether the path can
/// be watched.
pub fn not_acceptable_to_filter(streams: bool) -> Status {
    let mut message = format!("406: Not Acceptable\n\nAvailable representations: {WHOLE}");
    if streams {
        message.push_str(", ");
        message.push_str(STREAMED);
    }
    Status::failure(406, Reason::NotAcceptable, message).with_details(Details::default())
}
