//! Indented JSON, as Go's `json.Indent` writes it with two spaces. curl and
//! browsers get it by default. There is no newline at the end.

const INDENT: &[u8] = b"  ";

/// Indents compact JSON. The bytes must be valid JSON; strings stay unchanged.
pub fn indent(json: &[u8]) -> Vec<u8> {
    indent_within(json, usize::MAX).unwrap_or_default()
}

/// Like [`indent`], but returns `None` if the result has more than `most` bytes:
/// for deeply nested input, the result can grow with the square of the input's
/// length.
pub fn indent_within(json: &[u8], most: usize) -> Option<Vec<u8>> {
    let json = json.trim_ascii();
    let mut out = Vec::with_capacity(json.len().saturating_mul(2).min(most));
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    // True after an opening bracket. The line break waits for the next byte,
    // since empty pairs stay together.
    let mut opened = false;
    for &c in json {
        if out.len() > most {
            return None;
        }
        if in_string {
            out.push(c);
            match c {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if matches!(c, b' ' | b'\t' | b'\r' | b'\n') {
            continue;
        }
        if opened && !matches!(c, b'}' | b']') {
            depth = depth.saturating_add(1);
            newline(&mut out, depth);
        }
        match c {
            b'{' | b'[' => out.push(c),
            b'}' | b']' => {
                if !opened {
                    depth = depth.saturating_sub(1);
                    newline(&mut out, depth);
                }
                out.push(c);
            }
            b',' => {
                out.push(c);
                newline(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_string = true;
                out.push(c);
            }
            _ => out.push(c),
        }
        opened = matches!(c, b'{' | b'[');
    }
    (out.len() <= most).then_some(out)
}

fn newline(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    for _ in 0..depth {
        out.extend_from_slice(INDENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_as_go_does() {
        let json = br#"{"a":{},"b":[],"c":[1,"x:,{\"}"],"d":{"e":null}}
"#;
        let expected = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    \"x:,{\\\"}\"\n  ],\n  \"d\": {\n    \"e\": null\n  }\n}";
        assert_eq!(String::from_utf8(indent(json)).unwrap(), expected);
        let length = expected.len();
        assert_eq!(indent_within(json, length).unwrap(), expected.as_bytes());
        assert_eq!(indent_within(json, length - 1), None);
    }

    /// Indenting does not recurse, and the size of its result is limited.
    #[test]
    fn depth_costs_no_stack_and_no_more_than_is_wanted() {
        let deep = ["[".repeat(1_000_000), "]".repeat(1_000_000)].concat();
        assert_eq!(indent_within(deep.as_bytes(), 1 << 20), None);
        let deep = ["[".repeat(1_000), "1".to_owned(), "]".repeat(1_000)].concat();
        assert_eq!(indent(deep.as_bytes()).len(), 2_000 * 1_000 + 4_001);
    }
}
