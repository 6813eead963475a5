//! Indented JSON, as Go's `json.Indent` makes it with two spaces: what curl and
//! browsers get by default. No newline at the end.

const INDENT: &[u8] = b"  ";

/// Indents compact JSON. The bytes must be valid JSON; strings pass untouched.
pub fn indent(json: &[u8]) -> Vec<u8> {
    indent_within(json, usize::MAX).unwrap_or_default()
}

/// The same, `None` if that has more bytes than `most`: what is nested deeply
/// grows with the square of its length.
pub fn indent_within(json: &[u8], most: usize) -> Option<Vec<u8>> {
    let json = json.trim_ascii();
    let mut out = Vec::with_capacity(json.len().saturating_mul(2).min(most));
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    // An opening bracket waits for what follows: empty pairs stay together.
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

    /// Nothing of it is recursive, and what it makes has a bound.
    #[test]
    fn depth_costs_no_stack_and_no_more_than_is_wanted() {
        let deep = ["[".repeat(1_000_000), "]".repeat(1_000_000)].concat();
        assert_eq!(indent_within(deep.as_bytes(), 1 << 20), None);
        let deep = ["[".repeat(1_000), "1".to_owned(), "]".repeat(1_000)].concat();
        assert_eq!(indent(deep.as_bytes()).len(), 2_000 * 1_000 + 4_001);
    }
}
