//! Query strings as Go's `net/url` reads them, and Go's quoting of strings in
//! error messages.

use percent_encoding::percent_decode_str;

/// The decoded key/value pairs in their order. Malformed pairs are dropped, as
/// by the callers of `url.ParseQuery` in the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query of a URL, which is the text after the `?`.
    pub fn parse(raw: &str) -> Self {
        let pairs = pairs(raw)
            .filter_map(|(key, value)| Some((unescape(key)?, unescape(value)?)))
            .collect();
        Self(pairs)
    }

    /// Returns the first value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Returns all values of `key`, in their order.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Returns all keys with their values, in their order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns the key of each pair. A key that occurs twice is returned twice.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.pairs().map(|(key, _)| key)
    }

    /// Tells whether the query has a pair with this key, even with an empty value.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Reads a boolean as the API server does. If it is present, every value is
    /// true except `0` and `false`, including the empty value.
    pub fn truthy(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|v| v != "0" && !v.eq_ignore_ascii_case("false"))
    }
}

/// Rewrites a query like Go's servers that parse it and write it again
/// (`url.ParseQuery`, `url.Values.Encode`): pairs are sorted by key, and malformed
/// ones are dropped. Octets that are not UTF-8 stay.
pub fn rewritten(raw: &str) -> String {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = pairs(raw)
        .filter_map(|(key, value)| Some((unescaped_octets(key)?, unescaped_octets(value)?)))
        .collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = String::new();
    for (key, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        escape(&key, &mut out);
        out.push('=');
        escape(&value, &mut out);
    }
    out
}

fn pairs(raw: &str) -> impl Iterator<Item = (&str, &str)> {
    raw.split('&')
        // Since 1.17, Go refuses a pair with a raw semicolon.
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Like Go's `url.QueryEscape`.
fn escape(text: &[u8], out: &mut String) {
    for byte in text {
        match *byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(*byte));
            }
            b' ' => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Like Go's `url.QueryUnescape`: `+` is a space, and a malformed escape is an
/// error, here `None`. Bytes that are not UTF-8 become U+FFFD: no valid name
/// contains either.
pub(crate) fn unescape(text: &str) -> Option<String> {
    Some(go_text(&unescaped_octets(text)?))
}

/// Returns the text that Go's JSON has for a string: each octet that is not UTF-8
/// becomes U+FFFD.
pub fn go_text(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len());
    for chunk in octets.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn unescaped_octets(text: &str) -> Option<Vec<u8>> {
    if !has_whole_escapes(text.as_bytes()) {
        return None;
    }
    let spaced = text.replace('+', " ");
    Some(percent_decode_str(&spaced).collect())
}

/// Tells whether every `%` is followed by two hex digits.
pub fn has_whole_escapes(octets: &[u8]) -> bool {
    let mut afters = octets.split(|octet| *octet == b'%').skip(1);
    // The digits contain no `%`, so no escape begins inside another.
    afters.all(|after| {
        let digits = after.get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Like Go's `strconv.Quote`, with which Go prints a string for `%q`.
pub fn go_quote(text: &str) -> String {
    go_quote_octets(text.as_bytes())
}

/// The same for a string of any octets.
pub fn go_quote_octets(octets: &[u8]) -> String {
    let mut out = String::with_capacity(octets.len().saturating_add(2));
    out.push('"');
    for chunk in octets.utf8_chunks() {
        quote(chunk.valid(), &mut out);
        for octet in chunk.invalid() {
            out.push_str(&format!("\\x{octet:02x}"));
        }
    }
    out.push('"');
    out
}

fn quote(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                out.push_str(&format!("\\x{:02x}", c as u32));
            }
            c if c.is_ascii() || is_printable(c) => out.push(c),
            c if c as u32 <= 0xffff => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
}

/// Tells whether Go prints a character as it is. Rust does so, too, but escapes marks
/// unless they follow another character.
fn is_printable(c: char) -> bool {
    c.escape_debug().eq([c]) || String::from_iter(['a', c]).escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_does() {
        for (octets, quoted) in [
            ("aé\u{301}\u{1f600}".as_bytes(), "\"aé\u{301}\u{1f600}\""),
            ("\u{301}'".as_bytes(), "\"\u{301}'\""),
            (b"\"\\\n\x01\x7f", r#""\"\\\n\x01\x7f""#),
            (
                "\u{85}\u{200b}\u{e0001}".as_bytes(),
                r#""\u0085\u200b\U000e0001""#,
            ),
            (b"\xff\xe2\x82", r#""\xff\xe2\x82""#),
        ] {
            assert_eq!(go_quote_octets(octets), quoted);
        }
        assert_eq!(go_text(b"a\xe2\x82\xc3\xa9"), "a\u{fffd}\u{fffd}é");
    }

    #[test]
    fn pairs_decode_as_go_does() {
        let q = Query::parse("a=1&b=x+y&c&bad=%zz&a=2&d=%2C&e=1;2");
        assert_eq!(q.get("a"), Some("1"));
        assert_eq!(q.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(q.get("b"), Some("x y"));
        assert_eq!(q.get("c"), Some(""));
        assert_eq!(q.get("bad"), None);
        assert_eq!(q.get("d"), Some(","));
        assert_eq!(q.get("e"), None);
    }

    #[test]
    fn queries_are_written_anew_as_go_does() {
        for (raw, expected) in [
            ("", ""),
            ("b=2&a=x+y&b=1&c", "a=x+y&b=2&b=1&c="),
            ("bad=%zz&d=%2c&e=1;2&f=%25", "d=%2C&f=%25"),
            ("a=%ff%C3&%fe=1", "a=%FF%C3&%FE=1"),
        ] {
            assert_eq!(rewritten(raw), expected, "{raw}");
        }
    }

    #[test]
    fn booleans_are_true_unless_they_say_false() {
        for (raw, expected) in [
            ("watch", true),
            ("watch=", true),
            ("watch=1", true),
            ("watch=yes", true),
            ("watch=0", false),
            ("watch=False", false),
            ("", false),
        ] {
            assert_eq!(Query::parse(raw).truthy("watch"), expected, "{raw}");
        }
    }
}
