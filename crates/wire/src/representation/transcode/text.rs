//! Writes JSON strings as Go's `encoding/json` does: `<`, `>`, `&`, U+2028 and
//! U+2029 are escaped, and each byte that is not UTF-8 becomes `\ufffd`.

const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Checks eight bytes at once. Sets the highest bit of each byte that is not ASCII
/// or that a JSON string cannot contain unchanged. A subtraction sets the highest
/// bit of a byte that falls below zero, and borrows from the next byte, so only the
/// lowest set bit is reliable.
#[inline]
const fn special(word: u64) -> u64 {
    let control = word.wrapping_sub(all(0x20));
    // `"` and `&` differ in one bit, and so do `<` and `>`.
    let quote = ((word & !all(0x04)) ^ all(b'"')).wrapping_sub(all(1));
    let angle = ((word & !all(0x02)) ^ all(b'<')).wrapping_sub(all(1));
    let backslash = (word ^ all(b'\\')).wrapping_sub(all(1));
    (control | quote | angle | backslash | word) & all(0x80)
}

/// Returns the number of bytes at the start that need no treatment: ASCII
/// without control characters, quotes, backslashes, `<`, `>` and `&`.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    // `rest` is the end of `bytes`, and `at` is a position in it.
    let place = |rest: &[u8], at: usize| bytes.len().wrapping_sub(rest.len()).wrapping_add(at);
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        let found = special(u64::from_le_bytes(*chunk));
        if found != 0 {
            return place(rest, (found.trailing_zeros() / 8) as usize);
        }
        rest = tail;
    }
    let tail = rest
        .iter()
        .position(|byte| PLAIN.get(usize::from(*byte)) != Some(&true));
    place(rest, tail.unwrap_or(rest.len()))
}

const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let (mut byte, mut rest) = (0u8, plain.as_mut_slice());
    while let [first, others @ ..] = rest {
        *first = is_plain(byte);
        byte = byte.wrapping_add(1);
        rest = others;
    }
    plain
};

const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..0x80) && !matches!(byte, b'"' | b'&' | b'<' | b'>' | b'\\')
}

/// Appends a JSON string.
pub fn write(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    loop {
        let (run, tail) = rest.split_at(plain(rest));
        out.extend_from_slice(run);
        let Some(first) = tail.first() else { break };
        rest = if *first < 0x80 {
            escape(*first, out);
            tail.get(1..).unwrap_or_default()
        } else {
            let ascii = tail.iter().position(u8::is_ascii).unwrap_or(tail.len());
            let (foreign, after) = tail.split_at(ascii);
            write_foreign(foreign, out);
            after
        };
    }
    out.push(b'"');
}

/// Appends the escape of an ASCII character that a string cannot contain
/// unchanged.
fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends bytes of which none is ASCII.
fn write_foreign(mut bytes: &[u8], out: &mut Vec<u8>) {
    while !bytes.is_empty() {
        let valid = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(error) => error.valid_up_to(),
        };
        let (good, rest) = bytes.split_at(valid);
        write_separators_escaped(good, out);
        // Like Go, this writes a replacement for each byte instead of each
        // invalid sequence.
        bytes = match rest.split_first() {
            Some((_, rest)) => {
                out.extend_from_slice(b"\\ufffd");
                rest
            }
            None => rest,
        };
    }
}

/// Appends text with U+2028 and U+2029 escaped. Go escapes them because they end
/// lines in JavaScript.
fn write_separators_escaped(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = separator(bytes) {
        let (before, rest) = bytes.split_at(at);
        out.extend_from_slice(before);
        out.extend_from_slice(if rest.get(2) == Some(&0xa8) {
            b"\\u2028"
        } else {
            b"\\u2029"
        });
        bytes = rest.get(3..).unwrap_or_default();
    }
    out.extend_from_slice(bytes);
}

fn separator(bytes: &[u8]) -> Option<usize> {
    let is = |window: &[u8]| matches!(window, [0xe2, 0x80, 0xa8 | 0xa9]);
    bytes.windows(3).position(is)
}

/// Appends `<`, `>`, `&` or a line separator as Go escapes them in JSON that is
/// copied. Returns the number of bytes read, or 0 for any other character.
pub(crate) fn escape_html(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    match bytes {
        [byte @ (b'<' | b'>' | b'&'), ..] => {
            escape(*byte, out);
            1
        }
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => {
            write_separators_escaped(bytes.get(..3).unwrap_or_default(), out);
            3
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(text, &mut out);
        out
    }

    #[test]
    fn strings_are_as_go_writes_them() {
        for (text, expected) in [
            (&b""[..], &b"\"\""[..]),
            (b"plain text", b"\"plain text\""),
            (b"a<b>&c", br#""a\u003cb\u003e\u0026c""#),
            (b"\"\\/\x7f", b"\"\\\"\\\\/\x7f\""),
            (b"\x08\x0c\n\r\t\x00\x1f", br#""\b\f\n\r\t\u0000\u001f""#),
            (
                "é \u{2028}\u{2029}z".as_bytes(),
                "\"é \\u2028\\u2029z\"".as_bytes(),
            ),
            (b"a\xffb\xe2\x80", br#""a\ufffdb\ufffd\ufffd""#),
            ("日本\u{1f600}".as_bytes(), "\"日本\u{1f600}\"".as_bytes()),
        ] {
            assert_eq!(written(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn plain_stops_at_the_first_that_is_not(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let slow = bytes.iter().position(|b| !is_plain(*b));
            prop_assert_eq!(plain(&bytes), slow.unwrap_or(bytes.len()));
        }

        #[test]
        fn strings_are_read_back(text in any::<String>()) {
            let json = written(text.as_bytes());
            prop_assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
        }
    }
}
