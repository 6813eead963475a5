//! Reads JSON strings as a YAML reader does.

use std::borrow::Cow;

use super::NotExact;

/// Returns the value of a JSON string, without its quotes and escapes.
pub(super) fn unquoted(json: &[u8]) -> Result<Cow<'_, str>, NotExact> {
    let inside = json
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    unescaped(inside.ok_or(NotExact)?)
}

/// Replaces the escapes in the text between the quotes. Go's encoder writes few
/// kinds of escapes. The others mean something else or nothing in YAML.
pub(super) fn unescaped(inside: &[u8]) -> Result<Cow<'_, str>, NotExact> {
    let text = std::str::from_utf8(inside).map_err(|_| NotExact)?;
    if !text.chars().all(is_readable) {
        return Err(NotExact);
    }
    if !text.contains('\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.push_str(before);
        let mut chars = escape.chars();
        let character = match chars.next().ok_or(NotExact)? {
            '"' => '"',
            '\\' => '\\',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let digits = chars.as_str().get(..4).ok_or(NotExact)?;
                chars = chars.as_str().get(4..).unwrap_or_default().chars();
                let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
                // A surrogate is not a YAML character.
                code.and_then(char::from_u32).ok_or(NotExact)?
            }
            _ => return Err(NotExact),
        };
        out.push(character);
        rest = chars.as_str();
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// Tells whether go-yaml reads the character unchanged. It folds lines at
/// U+0085, U+2028 and U+2029, and refuses the other excluded characters.
fn is_readable(c: char) -> bool {
    match c {
        '\u{2028}' | '\u{2029}' => false,
        ' '..='~' | '\u{a0}'..='\u{fffd}' => true,
        c => c >= '\u{10000}',
    }
}
