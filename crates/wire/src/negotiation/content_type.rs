//! The Content-Type of a request's body.

use super::representation::{MediaType, OFFERED};

/// Returns the encoding of a request body. Without a Content-Type it is JSON.
/// `None` leads to a 415.
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
