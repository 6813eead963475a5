//! The Accept-Encoding header.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Tells whether the answer may be compressed. The token must be exactly
/// `gzip`: a weight makes it another token. Only the first header line counts.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|token| token.trim() == "gzip"))
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
}
