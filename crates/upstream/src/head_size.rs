//! The size of a request's head, which decides the connection that it is sent on.

use http::HeaderMap;

/// The size from which a head has an HTTP/1.1 connection of its own. A server may
/// end an HTTP/2 connection with all its streams for a head that is much larger
/// than it takes, and the streams belong to other callers. Every server takes this
/// many bytes.
pub const LARGE_HEAD: usize = 48 << 10;

/// The bytes that HTTP/2 counts for each field beside its octets (RFC 9113, 6.5.2).
const PER_FIELD: usize = 32;

/// Returns the size of a head as HTTP/2 counts it.
pub fn head_size(target: usize, headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| field_size(name.as_str().len(), value.len()))
        .fold(target, usize::saturating_add)
}

/// Returns the size of a field as HTTP/2 counts it.
pub fn field_size(name: usize, value: usize) -> usize {
    name.saturating_add(value).saturating_add(PER_FIELD)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn every_field_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(head_size(7, &headers), 7);
        headers.append("a", HeaderValue::from_static("bc"));
        headers.append("a", HeaderValue::from_static(""));
        assert_eq!(head_size(7, &headers), 7 + 35 + 33);
    }
}
