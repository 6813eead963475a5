//! The other two negotiated headers: Accept-Encoding and Content-Type.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

use super::{MediaType, OFFERED};

/// Whether the answer may be compressed: the token must be `gzip` and nothing
/// else, a weight makes it another token. Only the first header line counts.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|token| token.trim() == "gzip"))
}

/// The encoding of a request body; without a Content-Type it is JSON. `None` is
/// a 415.
pub fn input_media_type(content_type: Option<&str>) -> Option<MediaType> {
    let Some(text) = content_type.filter(|text| !text.is_empty()) else {
        return Some(MediaType::Json);
    };
    let media = text.split(';').next()?.trim().to_ascii_lowercase();
    OFFERED.into_iter().find(|m| m.as_str() == media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bare_token_compresses() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, gzip ,br", true),
            ("gzip;q=1", false),
            ("GZIP", false),
            ("*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
    }

    #[test]
    fn bodies() {
        for (value, expected) in [
            (None, Some(MediaType::Json)),
            (
                Some("Application/JSON; charset=utf-8"),
                Some(MediaType::Json),
            ),
            (Some("application/yaml"), Some(MediaType::Yaml)),
            (Some("text/plain"), None),
        ] {
            assert_eq!(input_media_type(value), expected, "{value:?}");
        }
    }
}
