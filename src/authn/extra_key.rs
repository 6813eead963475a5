//! Keys of user extra as parts of header names: `X-Remote-Extra-<key>`,
//! `Impersonate-Extra-<key>`.

use percent_encoding::percent_decode_str;

/// Reads the key in a header name, after the prefix. The key is lower-cased and then
/// percent-decoded like Go's `url.PathUnescape`. A key is taken literally if it has
/// a bad escape or does not decode to text.
pub fn decode(encoded: &str) -> String {
    let encoded = encoded.to_ascii_lowercase();
    if !has_valid_escapes(encoded.as_bytes()) {
        return encoded;
    }
    match percent_decode_str(&encoded).decode_utf8() {
        Ok(decoded) => decoded.into_owned(),
        Err(_) => encoded,
    }
}

/// Encodes a key so that [`decode`] returns it again (in lower case): `%` and bytes
/// that a header name cannot have are percent-encoded.
pub fn encode(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn has_valid_escapes(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        let escape = rest.get(at..).unwrap_or_default();
        let Some(([_, digits @ ..], after)) = escape.split_first_chunk::<3>() else {
            return false;
        };
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_go() {
        for (encoded, key) in [
            ("Scopes", "scopes"),
            (
                "authentication.kubernetes.io%2fpod-name",
                "authentication.kubernetes.io/pod-name",
            ),
            ("A%2FB", "a/b"),
            ("a%zz", "a%zz"),
            ("a%2", "a%2"),
            ("%", "%"),
            ("a%25b", "a%b"),
            ("a+b", "a+b"),
            ("%ff", "%ff"),
            ("%c3%a9", "é"),
            ("", ""),
        ] {
            assert_eq!(decode(encoded), key, "{encoded}");
        }
        for key in ["plain", "a/b", "a%2fb", "é", "with space", "co:lon", ""] {
            let encoded = encode(key);
            assert!(
                key.is_empty() || http::HeaderName::from_bytes(encoded.as_bytes()).is_ok(),
                "{encoded}"
            );
            assert_eq!(decode(&encoded), key);
        }
    }
}
