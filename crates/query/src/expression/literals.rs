//! Texts that an expression has as literals, which can be checked before it runs.

use chrono::DateTime;

use super::libraries::check_pattern;

/// Checks the text that a function is always called with. The error says what is wrong
/// with it.
pub(super) fn check(function: &str, text: &str) -> Result<(), String> {
    match function {
        "matches" | "find" | "findAll" => check_pattern(text),
        "duration" if !is_duration(text) => Err(format!("is no duration: {text:?}")),
        "timestamp" => DateTime::parse_from_rfc3339(text)
            .map(drop)
            .map_err(|error| format!("is no time: {text:?}: {error}")),
        _ => Ok(()),
    }
}

/// Tells whether Go reads a text as a duration (`time.ParseDuration`).
pub(super) fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = text;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let fraction = after.strip_prefix('.').unwrap_or(after);
        let unit = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        // The number has a digit.
        if !rest.starts_with(|c: char| c.is_ascii_digit()) && unit.len() == fraction.len() {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|name| unit.strip_prefix(name)) else {
            return rest == text && rest == "0";
        };
        rest = after;
    }
    !text.is_empty()
}
