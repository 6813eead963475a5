//! Compares the bodies of two answers, byte by byte.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;

use super::difference::Difference;
use super::representation::Label;
use super::{age, json, protobuf};

/// The longest text in a Table's cell that may hold an age.
const MAX_CELL: usize = 128;

/// The reason why a body of upstream cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("not gzip")]
    NotGzip,
    #[error("too large")]
    TooLarge,
}

#[derive(Debug)]
pub struct Body {
    pub pieces: Vec<Bytes>,
    pub is_gzip: bool,
}

/// Returns the plain bytes of a body, which may be at most `most`.
pub fn plain(body: &Body, most: usize) -> Result<Vec<u8>, Unreadable> {
    let bytes = body.pieces.concat();
    if !body.is_gzip {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut reader = MultiGzDecoder::new(bytes.as_slice()).take(limit);
    let read = reader.read_to_end(&mut out);
    match read {
        Ok(_) if out.len() > most => Err(Unreadable::TooLarge),
        Ok(_) => Ok(out),
        Err(_) => Err(Unreadable::NotGzip),
    }
}

/// Compares upstream's bytes with pieces without joining the pieces.
pub fn compare_pieces(upstream: &[u8], pieces: &[Bytes]) -> bool {
    let mut rest = upstream;
    let begins = pieces
        .iter()
        .all(|piece| match rest.strip_prefix(&**piece) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        });
    begins && rest.is_empty()
}

/// Returns the first difference of two bodies. Ages in Tables may differ by the time
/// between the answers.
pub fn compare(
    label: Label,
    upstream: &[u8],
    apifront: &[u8],
    between: Duration,
) -> Option<Difference> {
    if upstream == apifront {
        return None;
    }
    if label == Label::Table && equal_but_for_ages(upstream, apifront, between) {
        return None;
    }
    let found = match label.is_protobuf() {
        true => protobuf::first_difference(upstream, apifront),
        false => json::first_difference("body", upstream, apifront, between),
    };
    Some(found.unwrap_or_else(|| at_byte(upstream, apifront)))
}

/// Names the difference by its byte position, for bytes without structure or with
/// equal structure.
pub(super) fn at_byte(upstream: &[u8], apifront: &[u8]) -> Difference {
    let same = upstream.iter().zip(apifront).take_while(|(a, b)| a == b);
    let path = format!("body byte {}", same.count());
    Difference::of_bytes(&path, Some(upstream), Some(apifront))
}

/// Tells whether two Tables have the same bytes, except for JSON strings that are
/// ages.
fn equal_but_for_ages(one: &[u8], other: &[u8], between: Duration) -> bool {
    let (mut one, mut other) = (one, other);
    loop {
        let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
        if same == one.len() && same == other.len() {
            return true;
        }
        let common = one.get(..same).unwrap_or_default();
        let Some(quote) = common.iter().rposition(|b| *b == b'"') else {
            return false;
        };
        let start = quote.saturating_add(1);
        let (Some(a), Some(b)) = (string_at(one, start), string_at(other, start)) else {
            return false;
        };
        if !age::ticked(a, b, between) {
            return false;
        }
        one = one.get(start.saturating_add(a.len())..).unwrap_or_default();
        other = other
            .get(start.saturating_add(b.len())..)
            .unwrap_or_default();
    }
}

/// Returns the text from this position to the next quote.
fn string_at(bytes: &[u8], start: usize) -> Option<&str> {
    let rest = bytes.get(start..)?;
    let end = rest.iter().take(MAX_CELL).position(|b| *b == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pieces_are_compared_where_they_lie() {
        let pieces = |texts: &[&'static str]| -> Vec<Bytes> {
            texts
                .iter()
                .map(|t| Bytes::from_static(t.as_bytes()))
                .collect()
        };
        for (texts, same) in [
            (&["abc"][..], true),
            (&["a", "", "bc"], true),
            (&["ab"], false),
            (&["abc", "d"], false),
            (&["abd"], false),
            (&[], false),
        ] {
            assert_eq!(compare_pieces(b"abc", &pieces(texts)), same, "{texts:?}");
        }
    }

    #[test]
    fn gzip_is_bounded() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&[0; 1_000]).unwrap();
        let body = Body {
            pieces: vec![encoder.finish().unwrap().into()],
            is_gzip: true,
        };
        assert_eq!(plain(&body, 1_000).unwrap().len(), 1_000);
        assert_eq!(plain(&body, 999), Err(Unreadable::TooLarge));
        let junk = Body {
            pieces: vec![Bytes::from_static(b"junk")],
            is_gzip: true,
        };
        assert_eq!(plain(&junk, 9), Err(Unreadable::NotGzip));
    }

    #[test]
    fn tables_may_differ_in_ages_alone() {
        let table = |age: &str, name: &str| {
            format!(r#"{{"kind":"Table","rows":[{{"cells":["{name}","{age}"]}}]}}"#)
        };
        let compared = |one: &str, other: &str| {
            compare(Label::Table, one.as_bytes(), other.as_bytes(), SECOND)
        };
        assert_eq!(compared(&table("9s", "a"), &table("10s", "a")), None);
        let found = compared(&table("9s", "a"), &table("10s", "b")).unwrap();
        assert_eq!(found.path, "body.rows[0].cells[0]");
        let found = compared(&table("9s", "a"), &table("19s", "a")).unwrap();
        assert_eq!(found.path, "body.rows[0].cells[1]");
        let spaced = table("9s", "a").replace("\"rows\"", " \"rows\"");
        let found = compared(&spaced, &table("10s", "a")).unwrap();
        assert_eq!(found.path, "body byte 16");
    }

    #[test]
    fn nothing_else_ticks() {
        let found = compare(Label::Json, br#"{"a":"9s"}"#, br#"{"a":"10s"}"#, SECOND).unwrap();
        assert_eq!(found.path, "body.a");
        assert_eq!(compare(Label::Json, b"same", b"same", SECOND), None);
        let found = compare(Label::Yaml, b"a: 1", b"a: 2", SECOND).unwrap();
        assert_eq!(found.path, "body byte 3");
    }
}
