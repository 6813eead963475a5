//! The form of the answer to a query, as its client accepts it.

use http::request;
use kubernetes_wire::api::{Reason, Status};
use kubernetes_wire::negotiation::{self, MediaType, MetaVersion, Negotiation, Offer, Transform};

use crate::server::stage::Identified;

/// The form of the answer.
pub(super) struct Accepted {
    pub(super) media_type: MediaType,
    pub(super) is_indented: bool,
    /// The version of a Table, if the answer is to be one.
    pub(super) table: Option<MetaVersion>,
}

pub(super) fn accepted(
    request: &request::Parts,
    identified: &Identified,
    is_live: bool,
) -> Result<Accepted, Status> {
    let offer = Offer::CUSTOM_RESOURCE;
    let negotiated = negotiation::negotiate(&request.headers, identified.query(), offer);
    let Negotiation::Accepted(accepted) = negotiated else {
        return Err(not_acceptable(is_live));
    };
    let table = match accepted.transform {
        Transform::None => None,
        Transform::Table(version) if !is_live => Some(version),
        _ => return Err(not_acceptable(is_live)),
    };
    if is_live && accepted.media_type != MediaType::Json {
        return Err(not_acceptable(is_live));
    }
    Ok(Accepted {
        media_type: accepted.media_type,
        is_indented: accepted.pretty,
        table,
    })
}

fn not_acceptable(is_live: bool) -> Status {
    let types = match is_live {
        true => "application/json",
        false => "application/json, application/yaml",
    };
    let message = format!("only the following media types are accepted: {types}");
    Status::failure(406, Reason::NotAcceptable, message)
}
