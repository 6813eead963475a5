//! Masks the versions of lists in bodies before a comparison. Two caches with the
//! same objects may name different versions, since each has its own progress. A
//! version may have any number of digits.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use prost::encoding::{decode_varint, encode_varint};

const MASK: &[u8] = b"N";
/// The tags of fields with a length: `raw` of an Unknown, the metadata of a list,
/// and in that the version and the continue token.
const RAW: u8 = 0x12;
const METADATA: u8 = 0x0a;
const VERSION: u8 = 0x12;
const TOKEN: u8 = 0x1a;
const MESSAGE: u8 = 0x1a;
/// A part of a Status' message; the cache's version follows.
const TOO_LARGE: &str = "Too large resource version: 999999999, current: ";
/// The first bytes of a protobuf body.
const MAGIC: &[u8] = b"k8s\0";
/// The beginning of a ListMeta: an empty selfLink. An ObjectMeta begins with a name,
/// which is not empty.
const LIST_META: [u8; 2] = [0x0a, 0x00];

/// Masks the version in a list and its continue token, a Table, a bookmark and a
/// "too large" Status. Objects stay unchanged, since an object's metadata has a name
/// before its version.
pub fn text(body: &[u8]) -> Bytes {
    let body = token_in_text(body).unwrap_or_else(|| body.to_vec());
    let mut out = String::from_utf8_lossy(&body).into_owned();
    for marker in [
        "\"metadata\":{\"resourceVersion\":\"",
        "\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"",
        "\"metadata\": {\n    \"resourceVersion\": \"",
        "\"metadata\": {\n    \"continue\": \"\",\n    \"resourceVersion\": \"",
        "\nmetadata:\n  resourceVersion: \"",
        "\nmetadata:\n  continue: \"\"\n  resourceVersion: \"",
        "{\"annotations\":{\"k8s.io/initial-events-end\":\"true\"},\"resourceVersion\":\"",
        TOO_LARGE,
        "too old resource version: ",
    ] {
        let mut masked = String::new();
        let mut rest = out.as_str();
        while let Some(at) = rest.find(marker) {
            let (head, tail) = rest.split_at(at + marker.len());
            masked += head;
            masked += "N";
            rest = tail.trim_start_matches(|c: char| c.is_ascii_digit() || "( )".contains(c));
        }
        masked += rest;
        out = masked;
    }
    out.into()
}

/// Masks the version in a continue token, if it equals the version of the list.
fn token_in_text(body: &[u8]) -> Option<Vec<u8>> {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let position = |of: &[u8]| body.windows(of.len()).position(|found| found == of);
    let at = position(URL_SAFE_NO_PAD.encode(TOKEN_BEFORE_VERSION).as_bytes())?;
    let length = body[at..].iter().take_while(|b| is_base64(b)).count();
    let (version, masked) = token(&body[at..at + length])?;
    position(format!("\"{version}\"").as_bytes())?;
    Some([&body[..at], &masked, &body[at + length..]].concat())
}

/// The beginning of a decoded continue token,
/// `{"v":"meta.k8s.io/v1","rv":504,"start":"…"}`.
const TOKEN_BEFORE_VERSION: &[u8] = br#"{"v":"meta.k8s.io/v1","rv":"#;

/// These two stand between the version and the key at which the next page starts, and
/// kube-apiserver means the same with both. Its cache writes the slash. Once etcd has been
/// compacted, it takes later pages of a resource that did not change since from etcd, and
/// their tokens have none.
const TOKEN_BEFORE_START: [&[u8]; 2] = [br#","start":"/"#, br#","start":""#];

/// Returns the version in a continue token, and the masked token.
fn token(token: &[u8]) -> Option<(String, Vec<u8>)> {
    let plain = URL_SAFE_NO_PAD.decode(token).ok()?;
    let rest = plain.strip_prefix(TOKEN_BEFORE_VERSION)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (version, rest) = rest.split_at(digits);
    let [slash, bare] = TOKEN_BEFORE_START;
    let start = rest
        .strip_prefix(slash)
        .or_else(|| rest.strip_prefix(bare))?;
    let masked = [TOKEN_BEFORE_VERSION, MASK, bare, start].concat();
    let version = String::from_utf8_lossy(version).into_owned();
    Some((version, URL_SAFE_NO_PAD.encode(masked).into_bytes()))
}

/// Does the same as [`text`] for protobuf, `k8s\0` + Unknown{raw = List{metadata =
/// ListMeta}}, and for the message of a Status in it.
pub(crate) fn protobuf(body: &[u8]) -> Bytes {
    let masked = body.strip_prefix(MAGIC).and_then(|unknown| {
        let masked = changed(unknown, &[RAW, METADATA], &list_meta)
            .or_else(|| changed(unknown, &[RAW, MESSAGE], &too_large))?;
        Some([MAGIC, &masked].concat())
    });
    masked.unwrap_or_else(|| body.to_vec()).into()
}

/// Returns the message with new content for the field at the path of tags. All
/// fields before it must have a length.
fn changed(
    message: &[u8],
    tags: &[u8],
    change: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let Some((tag, below)) = tags.split_first() else {
        return change(message);
    };
    let mut rest = message;
    loop {
        let at = message.len() - rest.len();
        let (found, content, after) = field(rest)?;
        if found != *tag {
            rest = after;
            continue;
        }
        let content = changed(content, below, change)?;
        let mut out = message[..at].to_vec();
        push(&mut out, *tag, &content);
        out.extend_from_slice(after);
        return Some(out);
    }
}

fn list_meta(meta: &[u8]) -> Option<Vec<u8>> {
    let rest = meta.strip_prefix(&LIST_META)?;
    let (tag, version, mut rest) = field(rest)?;
    if tag != VERSION || version.is_empty() || !version.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut out = LIST_META.to_vec();
    push(&mut out, VERSION, MASK);
    if let Some((TOKEN, found, after)) = field(rest)
        && let Some((of_token, masked)) = token(found)
        && of_token.as_bytes() == version
    {
        push(&mut out, TOKEN, &masked);
        rest = after;
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Masks the cache's version in a Status' message.
fn too_large(message: &[u8]) -> Option<Vec<u8>> {
    let mut parts = message.windows(TOO_LARGE.len());
    let before = parts.position(|part| part == TOO_LARGE.as_bytes())?;
    let at = before + TOO_LARGE.len();
    let digits = message[at..].iter().take_while(|b| b.is_ascii_digit());
    let after = at + digits.count();
    Some([&message[..at], MASK, &message[after..]].concat())
}

/// Splits off the first field, which must have a length: its tag, its content and the
/// rest.
fn field(message: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, mut rest) = message.split_first()?;
    let has_length = tag & 7 == 2;
    let length = decode_varint(&mut rest).ok()?;
    let (content, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    has_length.then_some((*tag, content, after))
}

fn push(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(version: &str, token: Option<&str>) -> Vec<u8> {
        let mut meta = LIST_META.to_vec();
        push(&mut meta, VERSION, version.as_bytes());
        if let Some(token) = token {
            push(&mut meta, TOKEN, URL_SAFE_NO_PAD.encode(token).as_bytes());
        }
        let mut list = Vec::new();
        push(&mut list, METADATA, &meta);
        push(&mut list, 0x12, &[7; 200]);
        let mut unknown = Vec::new();
        push(&mut unknown, 0x0a, b"types");
        push(&mut unknown, RAW, &list);
        push(&mut unknown, 0x1a, b"");
        [MAGIC, &unknown].concat()
    }

    #[test]
    fn versions_of_any_length_are_equal_and_all_else_differs() {
        let token = |version: &str, start: &str| {
            format!(r#"{{"v":"meta.k8s.io/v1","rv":{version},"start":"{start}"}}"#)
        };
        let of = |version: &str, token: Option<&str>| protobuf(&list(version, token));
        assert_eq!(of("99", None), of("100", None));
        assert_ne!(of("99", None), list("99", None));
        assert_eq!(
            of("99", Some(&token("99", "a"))),
            of("1000", Some(&token("1000", "a")))
        );
        assert_ne!(
            of("99", Some(&token("99", "a"))),
            of("99", Some(&token("99", "b")))
        );
        assert_eq!(
            of("99", Some(&token("99", "a"))),
            of("99", Some(&token("99", "/a")))
        );
        // A token whose version is not the list's stays as it is.
        assert_ne!(
            of("99", Some(&token("98", "a"))),
            of("99", Some(&token("97", "a")))
        );
        let status = |current: &str| {
            let mut status = Vec::new();
            push(&mut status, METADATA, &[0x0a, 0x00, 0x12, 0x00]);
            push(&mut status, 0x12, b"Failure");
            push(
                &mut status,
                MESSAGE,
                format!("Timeout: {TOO_LARGE}{current}").as_bytes(),
            );
            push(&mut status, 0x22, b"Timeout");
            let mut unknown = Vec::new();
            push(&mut unknown, RAW, &status);
            protobuf(&[MAGIC, &unknown].concat())
        };
        assert_eq!(status("99"), status("1000"));
        assert_ne!(status("99"), status("99 and more"));
        let json = |version: &str, of_token: &str| {
            let token = URL_SAFE_NO_PAD.encode(token(of_token, "a"));
            let body =
                format!(r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{token}"}}}}"#);
            text(body.as_bytes())
        };
        assert_eq!(json("99", "99"), json("100", "100"));
        assert_ne!(json("99", "99"), json("99", "98"));
        assert_ne!(json("99", "98"), json("99", "97"));
    }
}
