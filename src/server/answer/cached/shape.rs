//! The representation in which a cached read is answered.

use std::sync::Arc;

use apifront_watch_cache::read::{BypassReason, Shape, ShapeKind};
use apifront_watch_cache::store::Store;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use kubernetes_wire::api::Query;
use kubernetes_wire::negotiation::{
    self, IncludeObject, MediaType, Negotiation, Offer, Representation, Transform,
};
use kubernetes_wire::representation::table::TableOptions;
use kubernetes_wire::representation::{Encoding, Form};

use super::list;
use super::located::Target;
use super::plan::Plan;
use crate::flow::HeldBytes;
use crate::server::answer::convert;
use crate::server::offload::{OffloadRefusal, OffloadUser};
use crate::server::reply::answer::Answer;
use crate::server::reply::compression;
use crate::shapes::{Rule, SHAPE, Shapes};

pub(super) fn representation(
    headers: &HeaderMap,
    query: &Query,
    store: &Store,
    plan: &Plan,
    drops_managed_fields: bool,
) -> Result<(Representation, Shape), BypassReason> {
    let offer = match store.resource.envelope.form {
        Form::Struct => Offer::BUILT_IN,
        Form::Map => Offer::CUSTOM_RESOURCE,
    };
    let offer = Offer {
        drops_managed_fields,
        ..offer
    };
    let negotiated = match plan {
        Plan::Get(_) | Plan::List(..) => negotiation::negotiate(headers, query, offer),
        Plan::Watch(..) => negotiation::negotiate_watch(headers, offer),
    };
    let Negotiation::Accepted(accepted) = negotiated else {
        return Err(BypassReason::Representation);
    };
    Ok((accepted, shape(accepted, query, store, plan)?))
}

/// Returns the shape of the answer. A list cannot be a single PartialObjectMetadata,
/// and an object cannot be a list of them. These requests are forwarded, so that
/// upstream words the error.
fn shape(
    accepted: Representation,
    query: &Query,
    store: &Store,
    plan: &Plan,
) -> Result<Shape, BypassReason> {
    if !accepted.transform.suits(matches!(plan, Plan::List(..))) {
        return Err(BypassReason::Representation);
    }
    let encoding = Encoding::from(accepted.media_type);
    match accepted.transform {
        Transform::None if !store.writes(encoding) => Err(BypassReason::Representation),
        // Protobuf made from the JSON would have fields that the release lacks.
        Transform::None if encoding == Encoding::Protobuf && store.presentation().other_release => {
            Err(BypassReason::Representation)
        }
        Transform::None => Ok(Shape::whole(encoding)),
        Transform::Table(version) => {
            let include = IncludeObject::from_query(query);
            let options = TableOptions {
                version,
                include: include.map_err(|_| BypassReason::InvalidOptions)?,
            };
            if options.include == IncludeObject::None && store.presentation().other_lists {
                return Err(BypassReason::Representation);
            }
            let printer = store.presentation().printer.clone();
            let watched = matches!(plan, Plan::Watch(..));
            let printer = printer.filter(|printer| !watched || printer.can_watch());
            let printer = printer.ok_or(BypassReason::Representation)?;
            Ok(Shape::table(printer, options))
        }
        // An earlier watch ended at an object that it could not write. Another watch
        // would also end there.
        Transform::PartialObjectMetadata(_)
            if matches!(plan, Plan::Watch(..)) && store.failed_to_write(encoding) =>
        {
            Err(BypassReason::Representation)
        }
        Transform::PartialObjectMetadata(version)
        | Transform::PartialObjectMetadataList(version) => Ok(Shape::partial(version, encoding)),
    }
}

/// Returns the representation and the shape without managedFields, if the client asked
/// for that or the rule has it so. Also returns the rule if that is the reason.
pub(super) fn without_managed_fields(
    (representation, shape): (Representation, Shape),
    rule: Option<Arc<Rule>>,
    shapes: &Shapes,
) -> Result<(Representation, Shape, Option<Arc<Rule>>), BypassReason> {
    // A cell that shows something of managedFields would have to be printed without
    // them.
    let is_printed = match &shape.kind {
        ShapeKind::Table(printer, _) => printer.reads_managed_fields(),
        ShapeKind::Whole(_) | ShapeKind::Partial(..) => false,
    };
    if representation.drops_managed_fields {
        return match is_printed {
            true => Err(BypassReason::Representation),
            false => {
                let shape = shape.without_managed_fields(shapes.asked_for());
                Ok((representation, shape, None))
            }
        };
    }
    let rule = rule.filter(|_| shape.kind.shows_managed_fields() && !is_printed);
    let Some(rule) = rule else {
        return Ok((representation, shape, None));
    };
    let representation = Representation {
        drops_managed_fields: true,
        ..representation
    };
    let shape = shape.without_managed_fields(rule.left_out());
    Ok((representation, shape, Some(rule)))
}

/// Makes the answer from a body: as YAML or indented if the client wants that, and
/// compressed if the client accepts it. The body comes with the [`HeldBytes`] that
/// account for it.
pub(super) async fn answer(
    body: (Vec<Bytes>, HeldBytes),
    target: &Target<'_>,
    headers: &HeaderMap,
    warnings: &[HeaderValue],
    by: OffloadUser<'_>,
) -> Result<Answer, OffloadRefusal> {
    let representation = target.representation;
    let (body, held) = match representation.media_type {
        MediaType::Yaml => convert::to_yaml(body.0, by).await?,
        _ if representation.pretty => convert::indented(body.0, by).await?,
        _ => body,
    };
    let mut answer = headed(body, target, warnings).holding(held);
    answer.compress_for(headers, by).await?;
    Ok(answer)
}

/// Returns the answer with the headers that tell its form.
fn headed(body: Vec<Bytes>, target: &Target<'_>, warnings: &[HeaderValue]) -> Answer {
    let content_type = target.representation.media_type.as_str();
    let mut answer = Answer::new(StatusCode::OK, content_type, body);
    answer.warn(warnings);
    if let Some(shape) = target.shape_header() {
        answer.headers.insert(SHAPE, shape);
    }
    answer
}

pub(super) async fn list(
    body: list::Body,
    target: &Target<'_>,
    headers: &HeaderMap,
    warnings: &[HeaderValue],
    by: OffloadUser<'_>,
) -> Result<Answer, OffloadRefusal> {
    let list = match body {
        list::Body::Plain(body, held) => {
            return answer((body, held), target, headers, warnings, by).await;
        }
        list::Body::Gzip(list) => list,
    };
    let (compressed, held) = compression::list(*list, by).await?;
    let mut answer = headed(Vec::new(), target, warnings).holding(held);
    answer.set_compressed(compressed);
    Ok(answer)
}
