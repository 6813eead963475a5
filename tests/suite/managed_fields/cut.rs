//! Cuts managedFields out of texts that Go wrote.

use bytes::Bytes;
use serde_json::Value;

const KEY: &str = "\"managedFields\":[";

/// Cuts the members out of compact JSON.
pub fn json(text: &[u8]) -> String {
    let mut rest = std::str::from_utf8(text).expect("UTF-8");
    let mut out = String::with_capacity(rest.len());
    while let Some(at) = rest.find(KEY) {
        let (before, from) = rest.split_at(at);
        let mut values = serde_json::Deserializer::from_str(&from[KEY.len() - 1..]).into_iter();
        let value: Value = values.next().expect("a value").expect("JSON");
        assert!(value.is_array(), "{value}");
        let after = &from[KEY.len() - 1 + values.byte_offset()..];
        // The comma after the member goes with it, or the one before the last member.
        match after.strip_prefix(',') {
            Some(after) => {
                out.push_str(before);
                rest = after;
            }
            None => {
                out.push_str(before.strip_suffix(',').expect("another member"));
                rest = after;
            }
        }
    }
    out + rest
}

/// Cuts the members out of YAML: their line, and the lines below it that are deeper or
/// belong to its list.
pub fn yaml(text: &[u8]) -> String {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let depth = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut cut = None;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let at = depth(line);
        if cut.is_some_and(|cut| at > cut || at == cut && line.trim_start().starts_with("- ")) {
            continue;
        }
        cut = line
            .trim_start()
            .starts_with("managedFields:")
            .then_some(at);
        if cut.is_none() {
            out.push_str(line);
        }
    }
    out
}

/// Returns the bytes as text, for a comparison.
pub fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
