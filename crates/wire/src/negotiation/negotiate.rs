//! Chooses the representation of a read, or finds that none is acceptable.

use http::HeaderMap;

use super::accept_header::{self, first_accept, first_match, is_read_otherwise};
use super::clause::{Clause, DROP};
use super::pretty::wants_pretty;
use super::representation::{MediaType, MetaVersion, OFFERED, Representation, Transform};
use crate::api::Query;

/// The parameter that names what an answer shall not have, and its only value.
const MANAGED_FIELDS: &str = "metadata.managedFields";

/// The outcome of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negotiation {
    /// The client accepts this representation.
    Accepted(Representation),
    /// kube-apiserver answers 406, with one of two texts: see [`super::not_acceptable`].
    NotAcceptable,
    /// Only the API server can decide.
    Unknown,
}

/// The representations that a resource has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// True if go-restful's filter runs before the handler. The filter refuses
    /// `application/*`, which the handler would accept.
    pub routed: bool,
    /// True if objects exist as protobuf. Objects of custom resources do not,
    /// but their PartialObjectMetadata does.
    pub protobuf: bool,
    /// True if another server decides in the end and may know more: CBOR, which is
    /// behind a feature gate, or parameters of a newer release. A header that has
    /// one of them is then [`Negotiation::Unknown`].
    pub perhaps_more: bool,
    /// True if the server knows the parameter `drop=metadata.managedFields` (KEP-5958).
    /// A header that wants to drop anything else is then [`Negotiation::Unknown`].
    pub drops_managed_fields: bool,
}

impl Offer {
    /// The offer of the resources that are built into Kubernetes.
    pub const BUILT_IN: Self = Self {
        routed: true,
        protobuf: true,
        perhaps_more: true,
        drops_managed_fields: false,
    };
    /// The offer of custom resources.
    pub const CUSTOM_RESOURCE: Self = Self {
        routed: false,
        protobuf: false,
        perhaps_more: true,
        drops_managed_fields: false,
    };
}

/// Chooses the representation of a GET or LIST.
///
/// ```
/// use http::{HeaderMap, header::ACCEPT};
/// use kubernetes_wire::api::Query;
/// use kubernetes_wire::negotiation::{
///     MediaType, MetaVersion, Negotiation, Offer, Transform, negotiate,
/// };
///
/// // kubectl get: a Table, or else the objects.
/// let mut headers = HeaderMap::new();
/// let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// headers.insert(ACCEPT, accept.parse()?);
/// let chosen = negotiate(&headers, &Query::default(), Offer::BUILT_IN);
/// let Negotiation::Accepted(representation) = chosen else {
///     panic!("not acceptable");
/// };
/// assert_eq!(representation.media_type, MediaType::Json);
/// assert_eq!(representation.transform, Transform::Table(MetaVersion::V1));
///
/// // Objects of custom resources do not exist as protobuf.
/// headers.insert(ACCEPT, MediaType::Protobuf.as_str().parse()?);
/// let chosen = negotiate(&headers, &Query::default(), Offer::CUSTOM_RESOURCE);
/// assert_eq!(chosen, Negotiation::NotAcceptable);
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn negotiate(headers: &HeaderMap, query: &Query, offer: Offer) -> Negotiation {
    let Some(chosen) = (match choose(headers, offer) {
        Ok(chosen) => chosen,
        Err(AmbiguousHeader) => return Negotiation::Unknown,
    }) else {
        return Negotiation::NotAcceptable;
    };
    let pretty = chosen.pretty || wants_pretty(headers, query);
    Negotiation::Accepted(Representation {
        pretty: chosen.media_type == MediaType::Json && pretty,
        ..chosen
    })
}

/// Chooses the representation of a WATCH. The choice is the same as for a GET.
/// If it cannot be streamed, no other is chosen.
pub fn negotiate_watch(headers: &HeaderMap, offer: Offer) -> Negotiation {
    match choose(headers, offer) {
        Err(AmbiguousHeader) => Negotiation::Unknown,
        Ok(None) => Negotiation::NotAcceptable,
        Ok(Some(chosen)) => match (chosen.media_type, chosen.transform) {
            (MediaType::Yaml, _) => Negotiation::NotAcceptable,
            // An event is never a list. Converting the first event fails and ends the
            // stream.
            (_, Transform::PartialObjectMetadataList(_)) => Negotiation::Unknown,
            _ => Negotiation::Accepted(Representation {
                pretty: false,
                ..chosen
            }),
        },
    }
}

struct AmbiguousHeader;

/// Chooses by the header alone.
fn choose(headers: &HeaderMap, offer: Offer) -> Result<Option<Representation>, AmbiguousHeader> {
    let header = first_accept(headers).ok_or(AmbiguousHeader)?;
    if offer.perhaps_more && header.contains("application/cbor") {
        return Err(AmbiguousHeader);
    }
    if header.is_empty() {
        return Ok(Some(Representation::JSON));
    }
    if offer.routed && !accept_header::route_matches(header, &OFFERED.map(MediaType::as_str)) {
        return Ok(None);
    }
    let clauses = accept_header::parse(header).ok_or(AmbiguousHeader)?;
    if offer.drops_managed_fields && clauses.iter().any(drops_something_else) {
        return Err(AmbiguousHeader);
    }
    let found = first_match(&clauses, |clause, media_type| {
        allowed_transform(clause, media_type, offer).is_some()
            && clause.param("sv").is_none_or(|v| v.is_empty() || v == "v1")
            && clause.stream_allowed(media_type)
    });
    let chosen = found.map(|(clause, _)| clause);
    if offer.perhaps_more && is_read_otherwise(&clauses, chosen, offer.drops_managed_fields) {
        return Err(AmbiguousHeader);
    }
    Ok(found.map(|(clause, media_type)| Representation {
        media_type,
        transform: allowed_transform(clause, media_type, offer).unwrap_or(Transform::None),
        pretty: clause.asks_for_pretty(),
        drops_managed_fields: offer.drops_managed_fields
            && clause.param(DROP) == Some(MANAGED_FIELDS),
    }))
}

/// Tells whether the Accept header asks for an answer without managedFields, perhaps in
/// a clause that is not chosen.
pub fn mentions_drop(headers: &HeaderMap) -> bool {
    first_accept(headers).is_some_and(|header| header.contains("drop="))
}

fn drops_something_else(clause: &Clause<'_>) -> bool {
    !matches!(clause.param(DROP), None | Some("" | MANAGED_FIELDS))
}

/// Returns the transformation that the clause asks for, or `None` if it may not
/// be answered in this media type.
fn allowed_transform(
    clause: &Clause<'_>,
    media_type: MediaType,
    offer: Offer,
) -> Option<Transform> {
    let protobuf = media_type == MediaType::Protobuf;
    let Some((kind, group, version)) = clause.transform() else {
        return (offer.protobuf || !protobuf).then_some(Transform::None);
    };
    let version = match (group, version) {
        ("meta.k8s.io", "v1") => MetaVersion::V1,
        ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
        _ => return None,
    };
    match kind {
        "Table" if !protobuf => Some(Transform::Table(version)),
        "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata(version)),
        "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList(version)),
        _ => None,
    }
}
