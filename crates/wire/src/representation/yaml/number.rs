//! Numbers in JSON, as go-yaml reads and rewrites them.

use std::borrow::Cow;

use super::NotExact;
use crate::api::go_float::Printed;

pub(super) fn normal(json: &[u8]) -> Result<Cow<'_, str>, NotExact> {
    let text = std::str::from_utf8(json).map_err(|_| NotExact)?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if is_integer && digits.starts_with('0') {
        // go-yaml reads "-0" as an integer; "01" is not JSON.
        return (digits == "0").then_some("0".into()).ok_or(NotExact);
    }
    if is_integer && (text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()) {
        return Ok(Cow::Borrowed(text));
    }
    let number = digits.bytes().next().is_some_and(|b| b.is_ascii_digit());
    let value: f64 = text.parse().map_err(|_| NotExact)?;
    if !number || !value.is_finite() {
        return Err(NotExact);
    }
    Ok(Cow::Owned(Printed(value).to_string()))
}
