//! In what representation a cached read is answered.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::Plan;
use crate::api::Query;
use crate::negotiation::{
    self, IncludeObject, MediaType, Negotiation, Offer, Representation, Transform,
};
use crate::read::{BypassReason, Shape};
use crate::representation::table::TableOptions;
use crate::representation::{Form, pretty};
use crate::server::respond::Answer;
use crate::store::Store;

pub(super) fn representation(
    headers: &HeaderMap,
    query: &Query,
    store: &Store,
    plan: &Plan,
) -> Result<(Representation, Shape), BypassReason> {
    let offer = match store.resource.envelope.form {
        Form::Struct => Offer::BUILT_IN,
        Form::Map => Offer::CUSTOM_RESOURCE,
    };
    let negotiated = match plan {
        Plan::Get(_) | Plan::List(..) => negotiation::negotiate(headers, query, offer),
        Plan::Watch(..) => negotiation::negotiate_watch(headers, offer),
    };
    let accepted = match negotiated {
        Negotiation::Accepted(accepted) if accepted.media_type == MediaType::Json => accepted,
        Negotiation::Accepted(_) | Negotiation::NotAcceptable | Negotiation::Unknown => {
            return Err(BypassReason::Representation);
        }
    };
    Ok((accepted, shape(accepted, query, store, plan)?))
}

/// A list cannot be one PartialObjectMetadata, nor an object a list of them:
/// the error is upstream's to word.
fn shape(
    accepted: Representation,
    query: &Query,
    store: &Store,
    plan: &Plan,
) -> Result<Shape, BypassReason> {
    if !accepted.transform.suits(matches!(plan, Plan::List(..))) {
        return Err(BypassReason::Representation);
    }
    match accepted.transform {
        Transform::None => Ok(Shape::Whole),
        Transform::Table(version) => {
            let include = IncludeObject::from_query(query);
            let options = TableOptions {
                version,
                include: include.map_err(|_| BypassReason::InvalidOptions)?,
            };
            let printer = store.presentation().printer.clone();
            let watched = matches!(plan, Plan::Watch(..));
            let printer = printer.filter(|printer| !watched || printer.can_watch());
            let printer = printer.ok_or(BypassReason::Representation)?;
            Ok(Shape::Table(printer, options))
        }
        Transform::PartialObjectMetadata(version)
        | Transform::PartialObjectMetadataList(version) => Ok(Shape::Partial(version)),
    }
}

/// A body on its way out: indented and compressed where the client wants that.
pub(super) async fn json(
    body: Vec<Bytes>,
    representation: Representation,
    headers: &HeaderMap,
    warnings: &[String],
) -> Answer {
    let body = if representation.pretty {
        vec![pretty::indent(&body.concat()).into()]
    } else {
        body
    };
    let mut answer = Answer::new(StatusCode::OK, "application/json", body);
    answer.warn(warnings);
    if negotiation::accepts_gzip(headers) {
        answer.compress().await;
    }
    answer
}
