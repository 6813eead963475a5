//! `?pretty=`: two spaces, as Go's `json.Indent` lays JSON out.

use http::{HeaderMap, header::USER_AGENT};

use kubernetes_wire::api::Query;

/// apiserver `responsewriters`: the query decides; without it, people's tools
/// get pretty answers.
pub fn wanted(query: &Query, headers: &HeaderMap) -> bool {
    match query.get("pretty") {
        Some(text) if !text.is_empty() => {
            matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
        }
        _ => headers
            .get(USER_AGENT)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|agent| {
                ["curl", "Wget", "Mozilla/5.0"]
                    .iter()
                    .any(|tool| agent.starts_with(tool))
            }),
    }
}

/// Indents compact JSON; the final newline goes.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let mut open = false;
    for &byte in json {
        // Some answers are laid out already.
        if !in_string && byte.is_ascii_whitespace() {
            continue;
        }
        if in_string {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if open && !matches!(byte, b'}' | b']') {
            newline(&mut out, depth);
        }
        match byte {
            b'{' | b'[' => {
                depth += 1;
                out.push(byte);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !open {
                    newline(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                newline(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            byte => {
                in_string = byte == b'"';
                out.push(byte);
            }
        }
        open = matches!(byte, b'{' | b'[');
    }
    out
}

fn newline(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_go_s() {
        let json = br#"{"a":[1,{"b":"x,{}:\""}],"c":{},"d": []}
"#;
        let expected = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{}:\\\"\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(String::from_utf8(indent(json)).unwrap(), expected);
    }
}
