//! Finds the type that an unquoted text would be read as (go-yaml v2
//! `resolve.go`). A string that would be read as another type is quoted.

use super::timestamp;

/// Tells whether a YAML reader would take the text for a boolean, a number, a
/// time or null. This includes numbers in base 60, which go-yaml does not read
/// but other readers do.
pub(super) fn is_something_else(text: &str) -> bool {
    let Some(first) = text.bytes().next() else {
        return true;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => is_word(text),
        b'.' => is_special_float(text) || is_go_float(text),
        b'+' | b'-' | b'0'..=b'9' => {
            is_special_float(text)
                || timestamp::is_timestamp(text)
                || is_number(&text.replace('_', ""))
                || is_base60(text)
        }
        _ => false,
    }
}

/// Tells whether go-yaml v3 would read the text as a number or a time.
pub fn is_number_or_time(text: &str) -> bool {
    match text.bytes().next() {
        Some(b'.') => is_special_float(text) || is_go_float(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            is_special_float(text)
                || timestamp::is_timestamp(text)
                || is_number(&text.replace('_', ""))
        }
        _ => false,
    }
}

/// Tells whether the text is a boolean or null, in the letter cases of YAML
/// 1.1.
fn is_word(text: &str) -> bool {
    const WORDS: [&str; 10] = [
        "y", "yes", "true", "on", "n", "no", "false", "off", "~", "null",
    ];
    let capitalised = |word: &str| {
        let mut letters = text.chars();
        letters.next().is_some_and(|c| c.is_ascii_uppercase())
            && (letters.as_str() == word.get(1..).unwrap_or_default())
    };
    WORDS.iter().any(|word| {
        text == *word
            || text.eq_ignore_ascii_case(word)
                && (capitalised(word) || text.bytes().all(|b| b.is_ascii_uppercase()))
    })
}

fn is_special_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn is_number(plain: &str) -> bool {
    if is_integer(plain) || is_float(plain) {
        return true;
    }
    // go-yaml accepts a second sign in binary numbers, too.
    plain
        .strip_prefix("0b")
        .is_some_and(|rest| i64::from_str_radix(rest, 2).is_ok())
}

/// Tells whether `strconv.ParseInt` or `ParseUint` with base 0 accepts the
/// text.
fn is_integer(plain: &str) -> bool {
    let (negative, signed, digits) = match plain.as_bytes() {
        [b'-', ..] => (true, true, plain.get(1..)),
        [b'+', ..] => (false, true, plain.get(1..)),
        _ => (false, false, Some(plain)),
    };
    let digits = digits.unwrap_or_default();
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)),
        [b'0', _, ..] => (8, digits.get(1..)),
        _ => (10, Some(digits)),
    };
    let digits = digits.unwrap_or_default();
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return false;
    }
    let Ok(value) = u64::from_str_radix(digits, radix) else {
        return false;
    };
    match (negative, signed) {
        (true, _) => value <= 1 << 63,
        // Only ParseInt accepts a plus.
        (false, true) => value < 1 << 63,
        (false, false) => true,
    }
}

/// Tells whether the text matches
/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, and is not too large.
fn is_float(plain: &str) -> bool {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa && exponent && plain.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Tells whether `strconv.ParseFloat` accepts a text that begins with a dot.
/// Underscores may separate digits.
fn is_go_float(text: &str) -> bool {
    let mut parts = text.split('_').peekable();
    let digit = |c: char| c.is_ascii_digit();
    while let Some(part) = parts.next() {
        if let Some(next) = parts.peek()
            && !(part.ends_with(digit) && next.starts_with(digit))
        {
            return false;
        }
    }
    is_float(&text.replace('_', ""))
}

/// Tells whether the text matches
/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    digits(fraction)
        && digits(first)
        && first.starts_with(|c: char| c.is_ascii_digit())
        && !rest.is_empty()
        && rest.iter().all(|part| match part.as_bytes() {
            [one] => one.is_ascii_digit(),
            [tens, one] => matches!(tens, b'0'..=b'5') && one.is_ascii_digit(),
            _ => false,
        })
}
