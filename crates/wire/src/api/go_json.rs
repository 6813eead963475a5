//! JSON as Go's `encoding/json` writes it: compact, with `<`, `>`, `&`,
//! U+2028 and U+2029 escaped, because clients and signatures compare bytes.

use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

/// Encodes a value as Go does. JSON must be able to hold the value: its maps have
/// strings as keys. Otherwise the result is cut off, and a debug build panics.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, GoFormatter);
    if value.serialize(&mut serializer).is_err() {
        // Only a map with non-string keys fails, and no type of this project
        // has one.
        debug_assert!(false, "not serializable as JSON");
    }
    out
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}', '\u{7f}']) {
            let (plain, tail) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = tail.chars();
            match chars.next() {
                Some('<') => writer.write_all(b"\\u003c")?,
                Some('>') => writer.write_all(b"\\u003e")?,
                Some('&') => writer.write_all(b"\\u0026")?,
                Some('\u{2028}') => writer.write_all(b"\\u2028")?,
                Some('\u{2029}') => writer.write_all(b"\\u2029")?,
                Some(other) => write!(writer, "{other}")?,
                None => {}
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn html_characters_are_escaped() {
        assert_eq!(
            super::to_vec("a<b>&\u{2028}\"\n\u{1}é"),
            br#""a\u003cb\u003e\u0026\u2028\"\n\u0001"#
                .iter()
                .copied()
                .chain("é\"".bytes())
                .collect::<Vec<_>>()
        );
    }
}
