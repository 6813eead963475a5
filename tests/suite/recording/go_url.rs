//! Targets as they must arrive: octets that a URI may not contain are escaped, and
//! for backends the form is that of Go's `net/url`.

use std::collections::BTreeMap;

/// Returns a target whose octets are all allowed in a URI. Go's server reads an
/// octet and its escape alike.
pub fn escaped(target: &[u8]) -> Vec<u8> {
    let is_forbidden = |octet: u8| b" \"#<>`".contains(&octet) || octet >= 0x7f;
    escaped_where(target, is_forbidden)
}

/// Returns the target with which kube-apiserver's aggregator asks a backend: the
/// path is decoded and encoded again, and so is the query, whose keys are sorted.
pub fn rewritten(target: &[u8]) -> Vec<u8> {
    let mut parts = target.splitn(2, |b| *b == b'?');
    let path = unescaped(parts.next().unwrap_or_default(), false).unwrap_or_default();
    let kept = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&octet);
    let mut rewritten = escaped_where(&path, |octet| !kept(octet));
    let query = encoded_query(parts.next().unwrap_or_default());
    if !query.is_empty() {
        rewritten.push(b'?');
        rewritten.extend(query);
    }
    rewritten
}

/// Does the same as Go's `url.ParseQuery` and `Values.Encode`.
fn encoded_query(query: &[u8]) -> Vec<u8> {
    let mut values: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for pair in query.split(|b| *b == b'&') {
        // Since Go 1.17, a semicolon makes a pair invalid.
        if pair.is_empty() || pair.contains(&b';') {
            continue;
        }
        let mut halves = pair.splitn(2, |b| *b == b'=');
        let key = unescaped(halves.next().unwrap_or_default(), true);
        let value = unescaped(halves.next().unwrap_or_default(), true);
        if let (Some(key), Some(value)) = (key, value) {
            values.entry(key).or_default().push(value);
        }
    }
    let mut encoded = Vec::new();
    for (key, values) in values {
        for value in values {
            if !encoded.is_empty() {
                encoded.push(b'&');
            }
            encoded.extend(component(&key));
            encoded.push(b'=');
            encoded.extend(component(&value));
        }
    }
    encoded
}

/// Does the same as Go's `url.QueryEscape`.
fn component(text: &[u8]) -> Vec<u8> {
    let kept = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.~ ".contains(&octet);
    let escaped = escaped_where(text, |octet| !kept(octet));
    let spaces = escaped.iter().map(|b| if *b == b' ' { b'+' } else { *b });
    spaces.collect()
}

/// Does the same as Go's `path.Clean`, but keeps a slash at the end.
pub fn cleaned(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in path.split(|b| *b == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut cleaned = vec![b'/'];
    cleaned.extend(segments.join(&b'/'));
    if path.ends_with(b"/") && cleaned.len() > 1 {
        cleaned.push(b'/');
    }
    cleaned
}

fn escaped_where(text: &[u8], is_escaped: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut escaped = Vec::new();
    for octet in text {
        match is_escaped(*octet) {
            true => escaped.extend(format!("%{octet:02X}").as_bytes()),
            false => escaped.push(*octet),
        }
    }
    escaped
}

/// Decodes escapes, and `+` in a query. Returns `None` if an escape is invalid.
fn unescaped(text: &[u8], in_query: bool) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                let digits = std::str::from_utf8(digits).ok()?;
                let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
                let octet = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
                plain.push(octet);
                rest = after;
            }
            b'+' if in_query => plain.push(b' '),
            octet => plain.push(*octet),
        }
    }
    Some(plain)
}

#[test]
fn targets_are_written_as_go_writes_them() {
    for (target, expected) in [
        ("/a#b?c=#", "/a%23b?c=%23"),
        ("/a<b>\"`\\{}|^", "/a%3Cb%3E%22%60\\{}|^"),
        ("/ü%zz?", "/%C3%BC%zz?"),
    ] {
        let found = String::from_utf8(escaped(target.as_bytes())).expect("text");
        assert_eq!(found, expected);
    }
    for (target, expected) in [
        ("/a%2Fb?", "/a/b"),
        ("/a%20!?b=2&a=1&b=%zz&c;d&&b", "/a%20%21?a=1&b=2&b="),
        ("/a#?x=a+b#/", "/a%23?x=a+b%23%2F"),
    ] {
        let found = String::from_utf8(rewritten(target.as_bytes())).expect("text");
        assert_eq!(found, expected);
    }
    assert_eq!(cleaned(b"/a//./b/../c/"), b"/a/c/");
}
