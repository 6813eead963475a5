//! The octets of a request's target: its path and query.

use std::borrow::Cow;

/// Percent-encodes the octets of a target that no URI may hold (RFC 3986, 3.3
/// and 3.4) and that Rust's URI type refuses or takes for the start of a
/// fragment: space, `"`, `#`, `<`, `>`, `` ` ``, DEL, and octets from 0x80 on.
///
/// Go's server takes such octets as part of the path or the query, and reads
/// them as it reads their percent-encoding. Both forms name the same object, and
/// kube-apiserver writes the encoded one into its audit log. Control characters
/// are left as they are, because Go's server refuses them.
pub fn escape(target: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = target.iter().position(|octet| is_escaped(*octet)) else {
        return Cow::Borrowed(target);
    };
    let (plain, rest) = target.split_at_checked(first).unwrap_or((target, &[]));
    let mut escaped = Vec::with_capacity(target.len().saturating_add(16));
    escaped.extend_from_slice(plain);
    for octet in rest {
        if is_escaped(*octet) {
            escaped.push(b'%');
            escaped.extend([octet >> 4, octet & 0xf].map(hex_digit));
        } else {
            escaped.push(*octet);
        }
    }
    Cow::Owned(escaped)
}

fn is_escaped(octet: u8) -> bool {
    matches!(octet, b' ' | b'"' | b'#' | b'<' | b'>' | b'`' | 0x7f..)
}

fn hex_digit(nibble: u8) -> u8 {
    match nibble {
        0..10 => b'0'.saturating_add(nibble),
        _ => b'A'.saturating_add(nibble.saturating_sub(10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_holds_stays_as_it_is() {
        for target in ["/", "*", "/a/b%23?x=%zz&y={|}^\\~!$'()*+,;:@[]"] {
            assert!(matches!(escape(target.as_bytes()), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn what_no_uri_holds_is_encoded() {
        let escaped = escape(b"/a#b <c>`\"\x7f\xc3\xa9\xff?d#e=%23");
        assert_eq!(
            escaped,
            b"/a%23b%20%3Cc%3E%60%22%7F%C3%A9%FF?d%23e=%23".as_slice()
        );
    }

    /// The URI type keeps every remaining octet.
    #[test]
    fn every_escaped_target_is_a_uri() {
        for octet in 0x21..=0xffu8 {
            let target = [b"/a".as_slice(), &[octet], b"?b=", &[octet]].concat();
            let escaped = String::from_utf8(escape(&target).into_owned()).unwrap();
            let uri: http::Uri = escaped.parse().unwrap();
            assert_eq!(uri.path_and_query().unwrap().as_str(), escaped);
        }
    }
}
