//! A forward-only scanner over JSON bytes: it finds the positions of values without
//! building them. Whoever splices and searches objects needs no tree.
//!
//! The input should be valid JSON, which is what API servers send. On anything
//! else the scanner returns `None`, an error, or a wrong span inside the bytes.
//! It never panics and never recurses.

use std::borrow::Cow;
use std::ops::Range;

/// The bytes are not JSON of the expected shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON")]
pub struct Malformed;

/// A member of an object. The key is without its quotes, but with its escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member<'a> {
    /// The key without its quotes, but with its escapes.
    pub key: &'a [u8],
    /// The position of the value in the scanned bytes.
    pub span: Range<usize>,
    /// The bytes of the value.
    pub value: &'a [u8],
}

/// Returns the members of the object `json`, in their order.
pub fn members(json: &[u8]) -> Members<'_> {
    Members(Items::new(json, b'{', b'}'))
}

/// Returns the elements of the array `json`: their positions and their bytes.
pub fn elements(json: &[u8]) -> Elements<'_> {
    Elements(Items::new(json, b'[', b']'))
}

/// Returns the span of the value at a path of keys.
pub fn find(json: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let mut span = 0..json.len();
    for key in path {
        let inside = json.get(span.clone())?;
        let found = members(inside)
            .map_while(Result::ok)
            .find(|m| m.key == key.as_bytes())?;
        let start = span.start.saturating_add(found.span.start);
        span = start..start.saturating_add(found.value.len());
    }
    Some(span)
}

/// Returns the bytes of the value at a path of keys.
pub fn get<'a>(json: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    json.get(find(json, path)?)
}

/// Returns the value of a JSON string, without its quotes and escapes.
pub fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    let inside = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inside.contains(&b'\\') {
        return serde_json::from_slice(value).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inside).ok().map(Cow::Borrowed)
}

/// Returns the string at a path of keys.
pub fn text_at<'a>(json: &'a [u8], path: &[&str]) -> Option<Cow<'a, str>> {
    text(get(json, path)?)
}

/// The iterator of [`members`].
pub struct Members<'a>(Items<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|json, at| {
            let key_end = skip_string(json, at)?;
            let [_, key @ .., _] = json.get(at..key_end)? else {
                return None;
            };
            let colon = skip_space(json, key_end);
            let start = skip_space(json, past(json, colon, b':')?);
            let span = start..skip_value(json, start)?;
            let value = json.get(span.clone())?;
            Some((span.end, Member { key, span, value }))
        })
    }
}

/// The iterator of [`elements`].
pub struct Elements<'a>(Items<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Result<(Range<usize>, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|json, at| {
            let span = at..skip_value(json, at)?;
            Some((span.end, (span.clone(), json.get(span)?)))
        })
    }
}

/// The common part of [`Members`] and [`Elements`]: items between brackets, with
/// commas.
struct Items<'a> {
    json: &'a [u8],
    at: usize,
    close: u8,
    state: State,
}

#[derive(PartialEq)]
enum State {
    /// Before the opening bracket, which is this byte.
    Before(u8),
    /// After the opening bracket.
    First,
    /// After an item.
    Later,
    Done,
}

impl<'a> Items<'a> {
    fn new(json: &'a [u8], open: u8, close: u8) -> Self {
        Self {
            json,
            at: 0,
            close,
            state: State::Before(open),
        }
    }

    fn step<T>(
        &mut self,
        item: impl FnOnce(&'a [u8], usize) -> Option<(usize, T)>,
    ) -> Option<Result<T, Malformed>> {
        if self.state == State::Done {
            return None;
        }
        match self.advance(item) {
            Some(Some(found)) => {
                self.state = State::Later;
                Some(Ok(found))
            }
            Some(None) => {
                self.state = State::Done;
                None
            }
            None => {
                self.state = State::Done;
                Some(Err(Malformed))
            }
        }
    }

    /// Reads the next item. Returns `Some(None)` at the closing bracket.
    fn advance<T>(
        &mut self,
        item: impl FnOnce(&'a [u8], usize) -> Option<(usize, T)>,
    ) -> Option<Option<T>> {
        self.at = skip_space(self.json, self.at);
        if let State::Before(open) = self.state {
            let inside = past(self.json, self.at, open)?;
            self.at = skip_space(self.json, inside);
            self.state = State::First;
        }
        match *self.json.get(self.at)? {
            c if c == self.close => return Some(None),
            b',' if self.state == State::Later => {
                self.at = skip_space(self.json, self.at.saturating_add(1));
            }
            _ if self.state == State::First => {}
            _ => return None,
        }
        let (end, found) = item(self.json, self.at)?;
        self.at = end;
        Some(Some(found))
    }
}

pub(super) fn skip_space(json: &[u8], at: usize) -> usize {
    past_all(json, at, |byte| {
        matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
    })
}

/// Returns the position of the first byte from `at` on for which `is` is false.
#[inline]
pub(super) fn past_all(json: &[u8], mut at: usize, is: impl Fn(&u8) -> bool) -> usize {
    while json.get(at).is_some_and(&is) {
        at = at.saturating_add(1);
    }
    at
}

/// Returns the position after `at` if the byte at `at` is `byte`.
#[inline]
pub(super) fn past(json: &[u8], at: usize, byte: u8) -> Option<usize> {
    (json.get(at) == Some(&byte)).then(|| at.saturating_add(1))
}

/// Returns the end of the string whose opening quote is at `at`.
fn skip_string(json: &[u8], at: usize) -> Option<usize> {
    let mut at = past(json, at, b'"')?;
    loop {
        match json.get(at)? {
            b'"' => return Some(at.saturating_add(1)),
            b'\\' => at = at.saturating_add(2),
            _ => at = at.saturating_add(1),
        }
    }
}

/// Returns the end of the value that starts at `at`.
fn skip_value(json: &[u8], at: usize) -> Option<usize> {
    match json.get(at)? {
        b'"' => skip_string(json, at),
        b'{' | b'[' => {
            let (mut at, mut depth) = (at, 0usize);
            loop {
                match json.get(at)? {
                    b'"' => {
                        at = skip_string(json, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth = depth.saturating_add(1),
                    b'}' | b']' => {
                        depth = depth.saturating_sub(1);
                        if depth == 0 {
                            return Some(at.saturating_add(1));
                        }
                    }
                    _ => {}
                }
                at = at.saturating_add(1);
            }
        }
        b't' | b'f' | b'n' | b'-' | b'0'..=b'9' => {
            let end = past_all(
                json,
                at,
                |b| matches!(b, b'a'..=b'z' | b'E' | b'-' | b'+' | b'.' | b'0'..=b'9'),
            );
            Some(end)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POD: &[u8] = br#" {"metadata":{"name":"a\"}","labels":{"x":"1"}},"n":[1,{"a":[]},"]"],"spec":{"on":true,"no":null,"count":-1.5e3,"s":"\u003c"}} "#;

    #[test]
    fn values_are_found_by_path() {
        for (path, expected) in [
            (vec!["metadata", "labels"], Some(r#"{"x":"1"}"#)),
            (vec!["metadata", "name"], Some(r#""a\"}""#)),
            (vec!["spec", "count"], Some("-1.5e3")),
            (vec!["n"], Some(r#"[1,{"a":[]},"]"]"#)),
            (vec!["n", "a"], None),
            (vec!["nope"], None),
        ] {
            let got = get(POD, &path).map(|v| std::str::from_utf8(v).unwrap());
            assert_eq!(got, expected, "{path:?}");
        }
        let items: Vec<_> = elements(get(POD, &["n"]).unwrap())
            .map(|e| e.unwrap().1)
            .collect();
        assert_eq!(items, [&b"1"[..], br#"{"a":[]}"#, br#""]""#]);
    }

    #[test]
    fn malformed_input_ends() {
        for bad in [
            "",
            "{",
            "{\"a",
            "{\"a\\",
            "{\"a\":",
            "{\"a\":1 2}",
            "{,}",
            "[1",
            "x",
            "{\"a\":}",
        ] {
            let json = bad.as_bytes();
            assert!(members(json).any(|m| m.is_err()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde(json in any_json()) {
            let bytes = serde_json::to_vec_pretty(&json).unwrap();
            let found: Result<Vec<_>, _> = members(&bytes).collect();
            let object = json.as_object().unwrap();
            let found = found.unwrap();
            prop_assert_eq!(found.len(), object.len());
            for member in found {
                let key = text(&[b"\"", member.key, b"\""].concat()).unwrap().into_owned();
                let value: serde_json::Value = serde_json::from_slice(member.value).unwrap();
                prop_assert_eq!(Some(&value), object.get(&key));
            }
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b'"'), Just(b':'), Just(b','), Just(b'\\'), any::<u8>()], 0..40)) {
            let _ = members(&bytes).count() + elements(&bytes).count();
            let _ = find(&bytes, &["", "a"]);
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(".{0,3}", inner, 0..4).prop_map(Value::from_iter),
            ]
        });
        proptest::collection::hash_map(".{0,3}", value, 0..5).prop_map(Value::from_iter)
    }
}
