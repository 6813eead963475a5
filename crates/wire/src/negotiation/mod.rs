//! Reads from Accept and Accept-Encoding which representation a client wants, as
//! k8s.io/apiserver `endpoints/handlers/negotiation` and go-restful do. Every rule
//! was tried against kube-apiserver; see the tests.

mod accept;
mod accept_encoding;
mod content_type;
mod discovery;
mod include_object;

use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue};

pub use accept::{Clause, parse as parse_accept};
pub use accept_encoding::accepts_gzip;
pub use content_type::input_media_type;
pub use discovery::{
    Aggregated, DiscoveryNegotiation, DiscoveryOffer, DiscoveryRepresentation, negotiate_discovery,
};
pub use include_object::IncludeObject;

use crate::api::{Query, Reason, Status, status::Details};

/// The media types that kube-apiserver encodes, in the order in which it offers
/// them. CBOR is behind a feature gate, so a client that names it gets
/// [`Negotiation::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaType {
    /// JSON, the default.
    Json,
    /// YAML, which is made of the JSON.
    Yaml,
    /// The protobuf of built-in kinds.
    Protobuf,
}

const OFFERED: [MediaType; 3] = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];

impl MediaType {
    /// Returns the media type without parameters, as Content-Type has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn subtype(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Protobuf => "vnd.kubernetes.protobuf",
        }
    }
}

/// The version of meta.k8s.io in which a transformed answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// Returns the `apiVersion` of the answer.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The transformation of an object before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transform {
    /// The object as it is.
    None,
    /// A Table, which has a row for each object. kubectl asks for it.
    Table(MetaVersion),
    /// The metadata of one object.
    PartialObjectMetadata(MetaVersion),
    /// A list with the metadata of each object.
    PartialObjectMetadataList(MetaVersion),
}

impl Transform {
    /// Tells whether a LIST (if `list`) or a GET can be answered in this form. If
    /// not, kube-apiserver answers 406 and names the Go type of the requested object.
    pub fn suits(self, list: bool) -> bool {
        match self {
            Self::None | Self::Table(_) => true,
            Self::PartialObjectMetadata(_) => !list,
            Self::PartialObjectMetadataList(_) => list,
        }
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Representation {
    /// The encoding.
    pub media_type: MediaType,
    /// The transformation before the encoding.
    pub transform: Transform,
    /// Indented output. It exists only in JSON, and never in a watch.
    pub pretty: bool,
}

impl Representation {
    /// The object itself in compact JSON, which a client without an Accept header
    /// gets.
    pub const JSON: Self = Self {
        media_type: MediaType::Json,
        transform: Transform::None,
        pretty: false,
    };
}

/// The outcome of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negotiation {
    /// The client accepts this representation.
    Accepted(Representation),
    /// kube-apiserver answers 406, with one of two texts: see [`not_acceptable`].
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
}

impl Offer {
    /// The offer of the resources that are built into Kubernetes.
    pub const BUILT_IN: Self = Self {
        routed: true,
        protobuf: true,
        perhaps_more: true,
    };
    /// The offer of custom resources.
    pub const CUSTOM_RESOURCE: Self = Self {
        routed: false,
        protobuf: false,
        perhaps_more: true,
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
    let Some((media_type, transform, pretty)) = (match choose(headers, offer) {
        Ok(chosen) => chosen,
        Err(AmbiguousHeader) => return Negotiation::Unknown,
    }) else {
        return Negotiation::NotAcceptable;
    };
    Negotiation::Accepted(Representation {
        media_type,
        transform,
        pretty: media_type == MediaType::Json && (pretty || wants_pretty(headers, query)),
    })
}

/// Chooses the representation of a WATCH. The choice is the same as for a GET.
/// If it cannot be streamed, no other is chosen.
pub fn negotiate_watch(headers: &HeaderMap, offer: Offer) -> Negotiation {
    match choose(headers, offer) {
        Err(AmbiguousHeader) => Negotiation::Unknown,
        Ok(None | Some((MediaType::Yaml, ..))) => Negotiation::NotAcceptable,
        // An event is never a list. Converting the first event fails and ends the
        // stream.
        Ok(Some((_, Transform::PartialObjectMetadataList(_), _))) => Negotiation::Unknown,
        Ok(Some((media_type, transform, _))) => Negotiation::Accepted(Representation {
            media_type,
            transform,
            pretty: false,
        }),
    }
}

/// The encoding of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorEncoding {
    /// Compact JSON with a newline at its end.
    Json,
    /// Indented JSON without a newline at the end. A client gets it if it asks
    /// for pretty output, or if its Accept header allows no plain Status.
    IndentedJson,
    /// YAML.
    Yaml,
    /// Protobuf.
    Protobuf,
}

impl ErrorEncoding {
    /// Returns the Content-Type of the error.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::IndentedJson => MediaType::Json.as_str(),
            Self::Yaml => MediaType::Yaml.as_str(),
            Self::Protobuf => MediaType::Protobuf.as_str(),
        }
    }
}

/// Chooses the encoding of an error. For errors the header is negotiated again,
/// with no transformation and no server version allowed. If this fails, the error
/// is written as indented JSON.
pub fn error_encoding(headers: &HeaderMap, query: &Query) -> ErrorEncoding {
    let chosen = error_media(headers.get(ACCEPT));
    match chosen {
        Some((MediaType::Json, pretty)) if !pretty && !wants_pretty(headers, query) => {
            ErrorEncoding::Json
        }
        Some((MediaType::Yaml, _)) => ErrorEncoding::Yaml,
        Some((MediaType::Protobuf, _)) => ErrorEncoding::Protobuf,
        Some((MediaType::Json, _)) | None => ErrorEncoding::IndentedJson,
    }
}

/// Tells whether the client accepts an error in any encoding. If not, it gets
/// JSON anyway.
pub fn error_is_negotiable(accept: Option<&HeaderValue>) -> bool {
    error_media(accept).is_some()
}

/// Returns the media type of an error, and whether its clause asks for
/// indentation.
fn error_media(accept: Option<&HeaderValue>) -> Option<(MediaType, bool)> {
    let plain = |clause: &Clause<'_>, media_type| {
        transform_of(clause).is_none()
            && clause.param("sv").is_none_or(str::is_empty)
            && stream_allowed(clause, media_type)
    };
    let header = accept.map_or(Some(""), |value| value.to_str().ok())?;
    if header.is_empty() {
        return Some((MediaType::Json, false));
    }
    let clauses = accept::parse(header)?;
    first_match(&clauses, plain).map(|(clause, media)| (media, media_pretty(clause)))
}

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
        .is_some_and(|header| accept::route_matches(header, &OFFERED.map(MediaType::as_str)))
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

struct AmbiguousHeader;

type Choice = (MediaType, Transform, bool);

fn choose(headers: &HeaderMap, offer: Offer) -> Result<Option<Choice>, AmbiguousHeader> {
    let header = first_accept(headers).ok_or(AmbiguousHeader)?;
    if offer.perhaps_more && header.contains("application/cbor") {
        return Err(AmbiguousHeader);
    }
    if header.is_empty() {
        return Ok(Some((MediaType::Json, Transform::None, false)));
    }
    if offer.routed && !accept::route_matches(header, &OFFERED.map(MediaType::as_str)) {
        return Ok(None);
    }
    let clauses = accept::parse(header).ok_or(AmbiguousHeader)?;
    let found = first_match(&clauses, |clause, media_type| {
        allowed_transform(clause, media_type, offer).is_some()
            && clause.param("sv").is_none_or(|v| v.is_empty() || v == "v1")
            && stream_allowed(clause, media_type)
    });
    if offer.perhaps_more && is_read_otherwise(&clauses, found.map(|(clause, _)| clause)) {
        return Err(AmbiguousHeader);
    }
    Ok(found.map(|(clause, media_type)| {
        let transform = allowed_transform(clause, media_type, offer).unwrap_or(Transform::None);
        (media_type, transform, media_pretty(clause))
    }))
}

/// Returns the first Accept line, since upstream ignores the rest. The result
/// is `None` if it is not text.
fn first_accept(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(ACCEPT)
        .map_or(Some(""), |value| value.to_str().ok())
}

fn first_match<'c, 'a>(
    clauses: &'c [Clause<'a>],
    allowed: impl Fn(&Clause<'a>, MediaType) -> bool,
) -> Option<(&'c Clause<'a>, MediaType)> {
    clauses.iter().find_map(|clause| {
        OFFERED
            .into_iter()
            .find(|m| clause.matches("application", m.subtype()) && allowed(clause, *m))
            .map(|m| (clause, m))
    })
}

/// Tells whether a newer server may choose differently: the chosen clause, or one
/// that is tried before it, has a parameter that is unknown here. Every server
/// skips clauses of other media types.
fn is_read_otherwise(clauses: &[Clause<'_>], chosen: Option<&Clause<'_>>) -> bool {
    let is_offered = |clause: &&Clause<'_>| {
        OFFERED
            .iter()
            .any(|m| clause.matches("application", m.subtype()))
    };
    let is_chosen = |clause: &Clause<'_>| chosen.is_some_and(|chosen| std::ptr::eq(clause, chosen));
    for clause in clauses.iter().filter(is_offered) {
        if clause.has_unknown_parameter() {
            return true;
        }
        if is_chosen(clause) {
            return false;
        }
    }
    false
}

fn media_pretty(clause: &Clause<'_>) -> bool {
    clause.param("pretty") == Some("1")
}

fn stream_allowed(clause: &Clause<'_>, media_type: MediaType) -> bool {
    match clause.param("stream") {
        None | Some("") => true,
        Some(stream) => stream == "watch" && media_type != MediaType::Yaml,
    }
}

/// Returns kind, group and version if at least one of them is given.
fn transform_of<'a>(clause: &Clause<'a>) -> Option<(&'a str, &'a str, &'a str)> {
    let [kind, group, version] = ["as", "g", "v"].map(|name| clause.param(name));
    (kind.is_some() || group.is_some() || version.is_some()).then(|| {
        (
            kind.unwrap_or_default(),
            group.unwrap_or_default(),
            version.unwrap_or_default(),
        )
    })
}

/// Returns the transformation that the clause asks for, or `None` if it may not
/// be answered in this media type.
fn allowed_transform(
    clause: &Clause<'_>,
    media_type: MediaType,
    offer: Offer,
) -> Option<Transform> {
    let protobuf = media_type == MediaType::Protobuf;
    let Some((kind, group, version)) = transform_of(clause) else {
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

/// Tells whether the output is indented. The query decides; if it lacks the
/// parameter, the user agent decides.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.get("pretty") {
        None | Some("") => headers
            .get(USER_AGENT)
            .is_some_and(|agent| is_human(agent.as_bytes())),
        // As in strconv.ParseBool, whose errors count as false.
        Some(value) => matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True"),
    }
}

fn is_human(user_agent: &[u8]) -> bool {
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|prefix| user_agent.starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests;
