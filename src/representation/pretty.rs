//! Indented JSON, as Go's `json.Indent` makes it with two spaces: what curl and
//! browsers get by default. No newline at the end.

const INDENT: &[u8] = b"  ";

/// Indents compact JSON. The bytes must be valid JSON; strings pass untouched.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let json = json.trim_ascii();
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    // An opening bracket waits for what follows: empty pairs stay together.
    let mut opened = false;
    for &c in json {
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
            depth += 1;
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
    out
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
    }
}
