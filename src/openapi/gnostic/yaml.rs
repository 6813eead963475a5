//! YAML as gnostic keeps values of any type in: blocks of go-yaml v3 (indented
//! by 4, lines of any length), which is not what kube-apiserver answers YAML in.

use kubernetes_wire::representation::yaml::is_number_or_time;

use super::node::Node;

const INDENT: usize = 4;

pub(super) fn write(node: &Node) -> String {
    let mut out = String::new();
    write_node(&mut out, node, None, Place::Root);
    out.push('\n');
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// After a dash.
    Item,
    /// After a key.
    Value,
}

/// The indent of a collection, or of the lines of a text, at that place.
fn deeper(indent: Option<usize>, place: Place, collection: bool) -> usize {
    match indent {
        None if collection => 0,
        None => INDENT,
        Some(indent) if place == Place::Item => indent.saturating_add(2),
        Some(indent) => indent.saturating_add(1).next_multiple_of(INDENT),
    }
}

fn write_node(out: &mut String, node: &Node, indent: Option<usize>, place: Place) {
    match node {
        Node::Map(members) if !members.is_empty() => {
            let inner = deeper(indent, place, true);
            for (n, (key, value)) in members.iter().enumerate() {
                begin(out, inner, place, n);
                write_text(out, key, inner, true);
                out.push(':');
                write_node(out, value, Some(inner), Place::Value);
            }
        }
        Node::List(items) if !items.is_empty() => {
            let inner = deeper(indent, place, true);
            for (n, item) in items.iter().enumerate() {
                begin(out, inner, place, n);
                out.push('-');
                write_node(out, item, Some(inner), Place::Item);
            }
        }
        scalar => {
            if place != Place::Root {
                out.push(' ');
            }
            match scalar {
                Node::Null => out.push_str("null"),
                Node::Bool(true) => out.push_str("true"),
                Node::Bool(false) => out.push_str("false"),
                Node::Number(number) => out.push_str(&number.to_string()),
                Node::Text(text) => write_text(out, text, deeper(indent, place, false), false),
                Node::List(_) => out.push_str("[]"),
                Node::Map(_) => out.push_str("{}"),
            }
        }
    }
}

/// The first of a collection after a dash stays on its line.
fn begin(out: &mut String, indent: usize, place: Place, n: usize) {
    match place {
        Place::Item if n == 0 => out.push(' '),
        Place::Root if n == 0 => {}
        _ => {
            out.push('\n');
            spaces(out, indent);
        }
    }
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// `indent` is that of further lines.
fn write_text(out: &mut String, text: &str, indent: usize, key: bool) {
    match style(text, key) {
        Style::Plain => out.push_str(text),
        Style::SingleQuoted => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        Style::DoubleQuoted => double_quoted(out, text),
        Style::Literal => literal(out, text, indent),
    }
}

enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

fn is_word(text: &str) -> bool {
    matches!(
        text,
        "" | "~"
            | "null"
            | "Null"
            | "NULL"
            | "true"
            | "True"
            | "TRUE"
            | "false"
            | "False"
            | "FALSE"
            | ".nan"
            | ".NaN"
            | ".NAN"
    )
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    c == '\n'
        || c != '\u{feff}'
            && matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        || c >= '\u{10000}'
}

/// go-yaml's `yaml_emitter_analyze_scalar` and `select_scalar_style`.
fn style(text: &str, key: bool) -> Style {
    let spaced = |c: Option<char>| c.is_none_or(|c| matches!(c, ' ' | '\t') || is_break(c));
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let (mut special, mut tabs, mut lines) = (false, false, false);
    let (mut break_space, mut space_break) = (false, false);
    let mut previous = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        indicators |= match (previous, c) {
            (
                None,
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                | '@' | '`',
            ) => true,
            (None, '?' | '-') | (_, ':') => spaced(next),
            (Some(_), '#') => spaced(previous),
            _ => false,
        };
        tabs |= c == '\t';
        special |= c != '\t' && !is_printable(c);
        break_space |= c == ' ' && previous.is_some_and(is_break);
        space_break |= is_break(c) && previous == Some(' ');
        lines |= is_break(c);
        previous = Some(c);
    }
    let edge = |c: char| c == ' ' || is_break(c);
    let plain = !(text.starts_with(edge) || text.ends_with(edge))
        && !(break_space || space_break || tabs || special || lines || indicators);
    let single_quoted = !(break_space || space_break || tabs || special);
    let literal = !(text.is_empty() || text.ends_with(' ') || space_break || special);
    if text.contains('\n') {
        return if literal && !key {
            Style::Literal
        } else {
            Style::DoubleQuoted
        };
    }
    if is_word(text) || is_number_or_time(text) {
        Style::DoubleQuoted
    } else if plain {
        Style::Plain
    } else if single_quoted && !lines {
        Style::SingleQuoted
    } else {
        Style::DoubleQuoted
    }
}

fn double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => c,
            '\u{85}' => 'N',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            c if is_printable(c) => {
                out.push(c);
                continue;
            }
            c => {
                out.push_str(&match u32::from(c) {
                    code @ 0..=0xff => format!("\\x{code:02X}"),
                    code @ 0..=0xffff => format!("\\u{code:04X}"),
                    code => format!("\\U{code:08X}"),
                });
                continue;
            }
        };
        out.push('\\');
        out.push(short);
    }
    out.push('"');
}

fn literal(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with(|c| c == ' ' || is_break(c)) {
        out.push_str(&INDENT.to_string());
    }
    let mut last = text.chars().rev();
    if !last.next().is_some_and(is_break) {
        out.push('-');
    } else if last.next().is_none_or(is_break) {
        out.push('+');
    }
    // The document's own line break is the last one.
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            spaces(out, indent);
            out.push_str(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_go_yaml_v3_does() {
        for (json, expected) in [
            ("true", "true\n"),
            ("\"\"", "\"\"\n"),
            ("{}", "{}\n"),
            ("[]", "[]\n"),
            ("\"yes\"", "yes\n"),
            ("\"true\"", "\"true\"\n"),
            ("\"1\"", "\"1\"\n"),
            ("\"a: b\"", "'a: b'\n"),
            ("\"'x'\"", "'''x'''\n"),
            ("\"a\\nb\"", "|-\n    a\n    b\n"),
            ("\"a\\n\"", "|\n    a\n"),
            ("\"\\ta\"", "\"\\ta\"\n"),
            ("[\"a\",\"b\"]", "- a\n- b\n"),
            (
                r#"[{"group":"","kind":"K","version":"v1"},{"a":{}}]"#,
                "- group: \"\"\n  kind: K\n  version: v1\n- a: {}\n",
            ),
            (
                r#"{"a":[{"b":"c","d":[1]}],"e":{"f":null}}"#,
                "a:\n    - b: c\n      d:\n        - 1\ne:\n    f: null\n",
            ),
        ] {
            let node: Node = serde_json::from_str(json).unwrap();
            assert_eq!(write(&node), expected, "{json}");
        }
    }
}
