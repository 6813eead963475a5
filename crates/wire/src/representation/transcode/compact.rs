//! JSON in objects for which there is no schema (managedFields, raw extensions). It
//! is checked and copied without white space, as Go does with the result of a
//! `MarshalJSON`.

use super::super::scan::{past, past_all, skip_space};
use super::NotTranscodable::{Malformed, TooDeep};
use super::{MAX_DEPTH, Result, text};

/// Appends JSON as Go's `encoding/json` compacts it: without white space between
/// tokens, and with `<`, `>`, `&` and line separators in strings escaped.
pub(crate) fn write(json: &[u8], out: &mut Vec<u8>) -> Result {
    let mut copy = Copy { json, from: 0, out };
    let end = scan(json, 0, &mut copy)?;
    if skip_space(json, end) != json.len() {
        return Err(Malformed);
    }
    copy.flush(end);
    Ok(())
}

/// Checks the JSON value that begins at `at`, and returns its end.
pub(crate) fn value_end(json: &[u8], at: usize) -> Result<usize> {
    scan(json, at, &mut Ignore)
}

/// Receives the parts of the JSON that are not copied unchanged.
trait Sink {
    fn skip(&mut self, from: usize, to: usize);
    /// Handles a character in a string that may need an escape. Returns its number
    /// of bytes.
    fn special(&mut self, at: usize) -> usize;
}

struct Ignore;

impl Sink for Ignore {
    fn skip(&mut self, _: usize, _: usize) {}

    fn special(&mut self, _: usize) -> usize {
        1
    }
}

struct Copy<'a> {
    json: &'a [u8],
    /// The position up to which the JSON was copied.
    from: usize,
    out: &'a mut Vec<u8>,
}

impl Copy<'_> {
    fn flush(&mut self, to: usize) {
        let part = self.json.get(self.from..to).unwrap_or_default();
        self.out.extend_from_slice(part);
        self.from = to;
    }
}

impl Sink for Copy<'_> {
    fn skip(&mut self, from: usize, to: usize) {
        self.flush(from);
        self.from = to;
    }

    fn special(&mut self, at: usize) -> usize {
        let rest = self.json.get(at..).unwrap_or_default();
        if !matches!(rest.first(), Some(b'<' | b'>' | b'&' | 0xe2)) {
            return 1;
        }
        self.flush(at);
        let taken = text::escape_html(rest, self.out);
        self.from = self.from.saturating_add(taken);
        taken.max(1)
    }
}

/// Returns the position of the first byte of a string, from `at` on, that needs
/// special treatment.
#[inline]
pub(crate) fn past_plain(json: &[u8], at: usize) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    // The sum is at most the length of `json`.
    at.wrapping_add(text::plain(rest))
}

/// The open containers, as one bit each, which is set for an object.
struct Open {
    bits: [u64; MAX_DEPTH.div_ceil(64)],
    depth: usize,
}

impl Open {
    fn push(&mut self, object: bool) -> Result {
        if self.depth >= MAX_DEPTH {
            return Err(TooDeep);
        }
        let word = self.bits.get_mut(self.depth / 64).ok_or(TooDeep)?;
        let bit = 1u64 << (self.depth % 64);
        *word = if object { *word | bit } else { *word & !bit };
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    fn in_object(&self) -> bool {
        let Some(top) = self.depth.checked_sub(1) else {
            return false;
        };
        let word = self.bits.get(top / 64).copied().unwrap_or_default();
        word >> (top % 64) & 1 == 1
    }
}

/// Reads one value without recursion, and returns its end.
fn scan(json: &[u8], start: usize, sink: &mut impl Sink) -> Result<usize> {
    let mut open = Open {
        bits: [0; MAX_DEPTH.div_ceil(64)],
        depth: 0,
    };
    let mut at = space(json, start, sink);
    'value: loop {
        // A value begins here.
        match json.get(at).ok_or(Malformed)? {
            opening @ (b'{' | b'[') => {
                let object = *opening == b'{';
                let closing = if object { b'}' } else { b']' };
                at = space(json, at.saturating_add(1), sink);
                if let Some(end) = past(json, at, closing) {
                    at = end;
                } else {
                    open.push(object)?;
                    if object {
                        at = key(json, at, sink)?;
                    }
                    continue 'value;
                }
            }
            b'"' => at = string(json, at.saturating_add(1), sink)?,
            b't' => at = word(json, at, b"true")?,
            b'f' => at = word(json, at, b"false")?,
            b'n' => at = word(json, at, b"null")?,
            _ => at = number(json, at)?,
        }
        // A value has ended. The containers around it may end, too.
        loop {
            let Some(outside) = open.depth.checked_sub(1) else {
                return Ok(at);
            };
            at = space(json, at, sink);
            match json.get(at).ok_or(Malformed)? {
                b',' => {
                    at = space(json, at.saturating_add(1), sink);
                    if open.in_object() {
                        at = key(json, at, sink)?;
                    }
                    continue 'value;
                }
                b'}' if open.in_object() => {}
                b']' if !open.in_object() => {}
                _ => return Err(Malformed),
            }
            open.depth = outside;
            at = at.saturating_add(1);
        }
    }
}

#[inline]
fn space(json: &[u8], at: usize, sink: &mut impl Sink) -> usize {
    if json.get(at).is_some_and(|byte| *byte > b' ') {
        return at;
    }
    let end = skip_space(json, at);
    if end > at {
        sink.skip(at, end);
    }
    end
}

/// Skips a key and its colon. Returns the position of the value.
fn key(json: &[u8], at: usize, sink: &mut impl Sink) -> Result<usize> {
    let first = past(json, at, b'"').ok_or(Malformed)?;
    let end = string(json, first, sink)?;
    let colon = space(json, end, sink);
    let value = past(json, colon, b':').ok_or(Malformed)?;
    Ok(space(json, value, sink))
}

/// Returns the end of a string whose first character is at `at`.
fn string(json: &[u8], mut at: usize, sink: &mut impl Sink) -> Result<usize> {
    loop {
        at = past_plain(json, at);
        match json.get(at).ok_or(Malformed)? {
            b'"' => return Ok(at.saturating_add(1)),
            b'\\' => at = past_escape(json, at)?,
            0..0x20 => return Err(Malformed),
            _ => at = at.saturating_add(sink.special(at)),
        }
    }
}

/// Returns the position after the escape whose backslash is at `at`.
fn past_escape(json: &[u8], at: usize) -> Result<usize> {
    let length = match json.get(at..).unwrap_or_default() {
        [
            _,
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
            ..,
        ] => 2,
        [_, b'u', digits @ ..] => {
            let four = digits.first_chunk::<4>().ok_or(Malformed)?;
            if !four.iter().all(u8::is_ascii_hexdigit) {
                return Err(Malformed);
            }
            6
        }
        _ => return Err(Malformed),
    };
    Ok(at.saturating_add(length))
}

/// Returns the position after the word that begins at `at`.
pub(crate) fn word(json: &[u8], at: usize, word: &[u8]) -> Result<usize> {
    let end = at.saturating_add(word.len());
    match json.get(at..end) {
        Some(found) if found == word => Ok(end),
        _ => Err(Malformed),
    }
}

/// Returns the end of a number (RFC 8259, section 6).
pub(crate) fn number(json: &[u8], mut at: usize) -> Result<usize> {
    let past = |at: usize, byte: u8| past(json, at, byte);
    let digits = |at: usize| {
        let end = past_all(json, at, u8::is_ascii_digit);
        (end > at).then_some(end).ok_or(Malformed)
    };
    at = past(at, b'-').unwrap_or(at);
    at = match past(at, b'0') {
        Some(end) => end,
        None => digits(at)?,
    };
    if let Some(fraction) = past(at, b'.') {
        at = digits(fraction)?;
    }
    if let Some(exponent) = past(at, b'e').or_else(|| past(at, b'E')) {
        let sign = past(exponent, b'+').or_else(|| past(exponent, b'-'));
        at = digits(sign.unwrap_or(exponent))?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compacted(json: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        write(json, &mut out).map(|()| out)
    }

    #[test]
    fn white_space_goes_and_html_is_escaped() {
        for (json, expected) in [
            (
                &b" { \"a\" : [ 1 , -0.5e+3 ,\ttrue ] } \n"[..],
                &br#"{"a":[1,-0.5e+3,true]}"#[..],
            ),
            (
                br#"{"f:a":{"k:{\"n\":1}":{".":{}}}}"#,
                br#"{"f:a":{"k:{\"n\":1}":{".":{}}}}"#,
            ),
            (br#""<&> \u003c\/""#, br#""\u003c\u0026\u003e \u003c\/""#),
            (
                "[\"\u{2028}é\u{2029}\"]".as_bytes(),
                "[\"\\u2028é\\u2029\"]".as_bytes(),
            ),
            (b"[[],{},\"\",null,false]", b"[[],{},\"\",null,false]"),
        ] {
            assert_eq!(compacted(json).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for json in [
            "",
            " ",
            "{",
            "[",
            "{]",
            "[}",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{,}",
            "1 2",
            "nul",
            "tru",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "\"a",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1,}",
            "]",
            "}",
            "\"\\u12",
        ] {
            assert_eq!(compacted(json.as_bytes()), Err(Malformed), "{json}");
        }
        let bomb = "[".repeat(1 << 20);
        assert_eq!(compacted(bomb.as_bytes()), Err(TooDeep));
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde(bytes in r#"[\[\]{},:"a1u0.e tn\\-]{0,12}"#) {
            let ours = compacted(bytes.as_bytes()).is_ok();
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&bytes).is_ok();
            // serde decodes surrogates; Go and this code check only the digits.
            prop_assert!(ours == theirs || bytes.contains("\\u"), "{}", bytes);
        }
    }
}
