//! Reads JSON text value by value.

use std::borrow::Cow;

use super::super::scan::skip_space;
use super::NotTranscodable::{Malformed, Unsupported, WrongType};
use super::{Result, compact};

pub(crate) struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }

    /// Returns the first byte of the next token, or 0 at the end. No token begins
    /// with 0.
    #[inline]
    pub(crate) fn peek(&mut self) -> u8 {
        match self.json.get(self.at) {
            Some(byte) if *byte > b' ' => *byte,
            _ => {
                self.at = skip_space(self.json, self.at);
                self.json.get(self.at).copied().unwrap_or_default()
            }
        }
    }

    /// Takes a punctuation mark if it comes next.
    // This does not add `usize::from(found)`: rustc 1.95 generates wrong code for a
    // comparison that is used both as a number and as a condition (rust-lang/rust
    // issue 158206). A condition in a caller counts, too.
    #[inline]
    pub(crate) fn take(&mut self, mark: u8) -> bool {
        if self.peek() != mark {
            return false;
        }
        self.at = self.at.saturating_add(1);
        true
    }

    pub(crate) fn take_null(&mut self) -> Result<bool> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.word(b"null").map(|()| true)
    }

    pub(crate) fn boolean(&mut self) -> Result<bool> {
        match self.peek() {
            b't' => self.word(b"true").map(|()| true),
            b'f' => self.word(b"false").map(|()| false),
            _ => Err(WrongType),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result {
        self.at = compact::word(self.json, self.at, word)?;
        Ok(())
    }

    /// Reads the byte after an element. Returns true if another element
    /// follows, and false at the closing bracket.
    #[inline]
    pub(crate) fn more(&mut self, closing: u8) -> Result<bool> {
        let next = self.peek();
        self.at = self.at.saturating_add(1);
        match next {
            b',' => Ok(true),
            next if next == closing => Ok(false),
            _ => Err(Malformed),
        }
    }

    /// Reads a key and its colon.
    pub(crate) fn key(&mut self) -> Result<Cow<'a, [u8]>> {
        if self.peek() != b'"' {
            return Err(Malformed);
        }
        let key = self.string()?;
        if !self.take(b':') {
            return Err(Malformed);
        }
        Ok(key)
    }

    /// Reads the text of a string. Bytes that are not UTF-8 and halves of surrogate
    /// pairs are refused. Go replaces them.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, [u8]>> {
        if self.peek() != b'"' {
            return Err(WrongType);
        }
        let start = self.at.saturating_add(1);
        let mut at = start;
        let mut foreign = false;
        loop {
            at = compact::past_plain(self.json, at);
            match self.json.get(at).ok_or(Malformed)? {
                b'"' => break,
                b'\\' => return self.escaped(),
                0..0x20 => return Err(Malformed),
                byte => {
                    foreign |= !byte.is_ascii();
                    at = at.saturating_add(1);
                }
            }
        }
        let text = self.json.get(start..at).ok_or(Malformed)?;
        if foreign && std::str::from_utf8(text).is_err() {
            return Err(Unsupported);
        }
        self.at = at.saturating_add(1);
        Ok(Cow::Borrowed(text))
    }

    /// Reads a string with escapes, which few strings have.
    #[cold]
    fn escaped(&mut self) -> Result<Cow<'a, [u8]>> {
        let literal = self.literal()?;
        let text: String = serde_json::from_slice(literal).map_err(|_| Unsupported)?;
        Ok(Cow::Owned(text.into_bytes()))
    }

    /// Checks the next value and returns its bytes.
    pub(crate) fn literal(&mut self) -> Result<&'a [u8]> {
        self.peek();
        let end = compact::value_end(self.json, self.at)?;
        let literal = self.json.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(literal)
    }

    /// Returns a number in its written form.
    pub(crate) fn number(&mut self) -> Result<&'a str> {
        if !matches!(self.peek(), b'-' | b'0'..=b'9') {
            return Err(WrongType);
        }
        let end = compact::number(self.json, self.at)?;
        let written = self.json.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        std::str::from_utf8(written).map_err(|_| Malformed)
    }

    /// Reads an integer. As in Go, it must not have a point or an exponent.
    #[inline]
    pub(crate) fn integer(&mut self) -> Result<i64> {
        let written = self.number()?;
        written.parse().map_err(|_| WrongType)
    }

    /// Checks that only white space follows.
    pub(crate) fn end(&mut self) -> Result {
        self.peek();
        if self.at == self.json.len() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read() {
        let string = |json: &'static str| Cursor::new(json.as_bytes()).string();
        for (json, text) in [
            (r#""""#, ""),
            (r#" "abc" "#, "abc"),
            (r#""a<b>\u003c\n\"\/""#, "a<b><\n\"/"),
            ("\"é日\u{1f600}\"", "é日\u{1f600}"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
        ] {
            assert_eq!(string(json).unwrap(), text.as_bytes(), "{json}");
        }
        for json in [
            "",
            "\"",
            "\"a",
            "\"\n\"",
            r#""\x""#,
            r#""\ud83d""#,
            "1",
            r#""\u12""#,
        ] {
            assert!(string(json).is_err(), "{json}");
        }
        assert!(Cursor::new(b"\"\xff\"").string().is_err());
    }

    #[test]
    fn numbers_are_read() {
        let integer = |json: &'static str| Cursor::new(json.as_bytes()).integer();
        assert_eq!(integer(" -12"), Ok(-12));
        assert_eq!(integer("-0"), Ok(0));
        for json in ["1.0", "1e3", "01x", "-", "9223372036854775808", "\"1\"", ""] {
            // A leading zero ends the number. The rest is refused later.
            assert!(integer(json).is_err() || json == "01x", "{json}");
        }
    }
}
