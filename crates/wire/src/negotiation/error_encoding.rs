//! Chooses the encoding of an error, which has a Status as its body.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

use super::accept_header::{self, first_match};
use super::clause::Clause;
use super::pretty::wants_pretty;
use super::representation::MediaType;
use crate::api::Query;

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
        clause.transform().is_none()
            && clause.param("sv").is_none_or(str::is_empty)
            && clause.stream_allowed(media_type)
    };
    let header = accept.map_or(Some(""), |value| value.to_str().ok())?;
    if header.is_empty() {
        return Some((MediaType::Json, false));
    }
    let clauses = accept_header::parse(header)?;
    first_match(&clauses, plain).map(|(clause, media)| (media, clause.asks_for_pretty()))
}
