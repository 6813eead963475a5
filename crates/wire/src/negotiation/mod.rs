//! Which bytes a client wants: Accept and Accept-Encoding, read as
//! k8s.io/apiserver `endpoints/handlers/negotiation` and go-restful read them.
//! Every rule here was tried against kube-apiserver; see the tests.

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
    DiscoveryNegotiation, DiscoveryOffer, DiscoveryRepresentation, negotiate_discovery,
};
pub use include_object::IncludeObject;

use crate::api::{Query, Reason, Status, status::Details};

/// What kube-apiserver encodes, in the order it offers it. CBOR is behind a
/// feature gate: a client that prefers it gets [`Negotiation::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaType {
    Json,
    Yaml,
    Protobuf,
}

const OFFERED: [MediaType; 3] = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];

impl MediaType {
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

/// The version of meta.k8s.io that a transformed answer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What is done to an object before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transform {
    None,
    Table(MetaVersion),
    PartialObjectMetadata(MetaVersion),
    PartialObjectMetadataList(MetaVersion),
}

impl Transform {
    /// Whether a LIST, or else a GET, can be answered so. If not, upstream
    /// answers 406 and names the Go type of what was asked for.
    pub fn suits(self, list: bool) -> bool {
        match self {
            Self::None | Self::Table(_) => true,
            Self::PartialObjectMetadata(_) => !list,
            Self::PartialObjectMetadataList(_) => list,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Representation {
    pub media_type: MediaType,
    pub transform: Transform,
    /// Indented; of JSON alone, never of a watch.
    pub pretty: bool,
}

impl Representation {
    pub const JSON: Self = Self {
        media_type: MediaType::Json,
        transform: Transform::None,
        pretty: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negotiation {
    Accepted(Representation),
    /// kube-apiserver answers 406, with one of two texts: see [`not_acceptable`].
    NotAcceptable,
    /// Only the API server can tell.
    Unknown,
}

/// What a resource can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Whether go-restful's filter stands before the handler. It refuses
    /// `application/*`, which the handler would accept.
    pub routed: bool,
    /// Whether objects exist as protobuf. Those of custom resources do not, but
    /// their PartialObjectMetadata does.
    pub protobuf: bool,
    /// Whether the server may have CBOR, which is behind a feature gate. A
    /// header that names it is then [`Negotiation::Unknown`].
    pub perhaps_cbor: bool,
}

impl Offer {
    pub const BUILT_IN: Self = Self {
        routed: true,
        protobuf: true,
        perhaps_cbor: true,
    };
    pub const CUSTOM_RESOURCE: Self = Self {
        routed: false,
        protobuf: false,
        perhaps_cbor: true,
    };
}

/// How a GET or LIST is answered.
pub fn negotiate(headers: &HeaderMap, query: &Query, offer: Offer) -> Negotiation {
    let Some((media_type, transform, pretty)) = (match choose(headers, offer) {
        Ok(chosen) => chosen,
        Err(Undecidable) => return Negotiation::Unknown,
    }) else {
        return Negotiation::NotAcceptable;
    };
    Negotiation::Accepted(Representation {
        media_type,
        transform,
        pretty: media_type == MediaType::Json && (pretty || wants_pretty(headers, query)),
    })
}

/// How a WATCH is answered. The choice is made as for a GET; that it cannot be
/// streamed does not lead to another one.
pub fn negotiate_watch(headers: &HeaderMap, offer: Offer) -> Negotiation {
    match choose(headers, offer) {
        Err(Undecidable) => Negotiation::Unknown,
        Ok(None | Some((MediaType::Yaml, ..))) => Negotiation::NotAcceptable,
        // No event is a list: converting the first one fails, and ends the
        // stream.
        Ok(Some((_, Transform::PartialObjectMetadataList(_), _))) => Negotiation::Unknown,
        Ok(Some((media_type, transform, _))) => Negotiation::Accepted(Representation {
            media_type,
            transform,
            pretty: false,
        }),
    }
}

/// How an error goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorEncoding {
    Json,
    /// Indented, and with no newline at the end: what a client gets that asks
    /// for pretty output, and one whose Accept header allows no plain Status.
    IndentedJson,
    Yaml,
    Protobuf,
}

impl ErrorEncoding {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::IndentedJson => MediaType::Json.as_str(),
            Self::Yaml => MediaType::Yaml.as_str(),
            Self::Protobuf => MediaType::Protobuf.as_str(),
        }
    }
}

/// Errors are negotiated again, with no transform and no server version
/// allowed. What cannot be negotiated is written as indented JSON.
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

/// Whether the client takes an error in any encoding. If not, it gets JSON all the
/// same.
pub fn error_is_negotiable(accept: Option<&HeaderValue>) -> bool {
    error_media(accept).is_some()
}

/// What an error is written in, and whether that asks for indentation.
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

/// The media types of whole answers, and those of watches, as refusals list them.
const WHOLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMED: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// The 406 of the handlers (go-restful's filter has a text of its own).
pub fn not_acceptable(watch: bool) -> Status {
    let types = if watch { STREAMED } else { WHOLE };
    Status::failure(
        406,
        Reason::NotAcceptable,
        format!("only the following media types are accepted: {types}"),
    )
}

/// Whether go-restful's filter lets a request through to its handler, as it
/// stands before all that is built in.
pub fn passes_filter(headers: &HeaderMap) -> bool {
    first_accept(headers)
        .is_some_and(|header| accept::route_matches(header, &OFFERED.map(MediaType::as_str)))
}

/// The 406 of go-restful's filter. `streams` says whether the path can be
/// watched.
pub fn not_acceptable_to_filter(streams: bool) -> Status {
    let mut message = format!("406: Not Acceptable\n\nAvailable representations: {WHOLE}");
    if streams {
        message.push_str(", ");
        message.push_str(STREAMED);
    }
    Status::failure(406, Reason::NotAcceptable, message).with_details(Details::default())
}

/// The header cannot be read with certainty.
struct Undecidable;

type Choice = (MediaType, Transform, bool);

fn choose(headers: &HeaderMap, offer: Offer) -> Result<Option<Choice>, Undecidable> {
    let header = first_accept(headers).ok_or(Undecidable)?;
    if offer.perhaps_cbor && header.contains("application/cbor") {
        return Err(Undecidable);
    }
    if header.is_empty() {
        return Ok(Some((MediaType::Json, Transform::None, false)));
    }
    if offer.routed && !accept::route_matches(header, &OFFERED.map(MediaType::as_str)) {
        return Ok(None);
    }
    let clauses = accept::parse(header).ok_or(Undecidable)?;
    let found = first_match(&clauses, |clause, media_type| {
        allowed_transform(clause, media_type, offer).is_some()
            && clause.param("sv").is_none_or(|v| v.is_empty() || v == "v1")
            && stream_allowed(clause, media_type)
    });
    Ok(found.map(|(clause, media_type)| {
        let transform = allowed_transform(clause, media_type, offer).unwrap_or(Transform::None);
        (media_type, transform, media_pretty(clause))
    }))
}

/// The first Accept line; others are not looked at. `None` if it is not text.
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

fn media_pretty(clause: &Clause<'_>) -> bool {
    clause.param("pretty") == Some("1")
}

fn stream_allowed(clause: &Clause<'_>, media_type: MediaType) -> bool {
    match clause.param("stream") {
        None | Some("") => true,
        Some(stream) => stream == "watch" && media_type != MediaType::Yaml,
    }
}

/// Kind, group and version, if any of them is given.
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

/// `None` if the clause may not be answered in this media type.
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

/// The query decides; without it, who asks.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.get("pretty") {
        None | Some("") => headers
            .get(USER_AGENT)
            .is_some_and(|agent| is_human(agent.as_bytes())),
        // strconv.ParseBool, whose errors count as false.
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
