//! Writes the YAML in which gnostic keeps values of any type: blocks as in go-yaml
//! v3, indented by 4, with lines of any length. kube-apiserver's own YAML answers
//! look different.

use kubernetes_wire::representation::yaml::analysis::{
    Analysis, escape, is_break, is_printable_v3,
};
use kubernetes_wire::representation::yaml::is_number_or_time;

use super::node::Node;

const INDENT: usize = 4;

pub(super) fn write(node: &Node) -> String {
    let mut out = String::new();
    write_node(&mut out, node, None, Position::Root);
    out.push('\n');
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// The position after a dash.
    Item,
    /// The position after a key.
    Value,
}

/// Returns the indent of a collection, or of a text's lines, at this position.
fn deeper(indent: Option<usize>, position: Position, collection: bool) -> usize {
    match indent {
        None if collection => 0,
        None => INDENT,
        Some(indent) if position == Position::Item => indent.saturating_add(2),
        Some(indent) => indent.saturating_add(1).next_multiple_of(INDENT),
    }
}

fn write_node(out: &mut String, node: &Node, indent: Option<usize>, position: Position) {
    match node {
        Node::Map(members) if !members.is_empty() => {
            let inner = deeper(indent, position, true);
            for (n, (key, value)) in members.iter().enumerate() {
                begin(out, inner, position, n);
                write_text(out, key, inner, true);
                out.push(':');
                write_node(out, value, Some(inner), Position::Value);
            }
        }
        Node::List(items) if !items.is_empty() => {
            let inner = deeper(indent, position, true);
            for (n, item) in items.iter().enumerate() {
                begin(out, inner, position, n);
                out.push('-');
                write_node(out, item, Some(inner), Position::Item);
            }
        }
        scalar => {
            if position != Position::Root {
                out.push(' ');
            }
            match scalar {
                Node::Null => out.push_str("null"),
                Node::Bool(true) => out.push_str("true"),
                Node::Bool(false) => out.push_str("false"),
                Node::Number(number) => out.push_str(&number.to_string()),
                Node::Text(text) => write_text(out, text, deeper(indent, position, false), false),
                Node::List(_) => out.push_str("[]"),
                Node::Map(_) => out.push_str("{}"),
            }
        }
    }
}

/// Begins an entry of a collection. The first entry after a dash stays on the dash's
/// line.
fn begin(out: &mut String, indent: usize, position: Position, n: usize) {
    match position {
        Position::Item if n == 0 => out.push(' '),
        Position::Root if n == 0 => {}
        _ => {
            out.push('\n');
            spaces(out, indent);
        }
    }
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// Writes a text. `indent` is the indent of its lines after the first.
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

/// Chooses the style of a text like go-yaml's `select_scalar_style`.
fn style(text: &str, key: bool) -> Style {
    let found = Analysis::new(text, is_printable_v3);
    if text.contains('\n') {
        let foul = text.ends_with(' ') || found.space_break || found.special;
        return if foul || key {
            Style::DoubleQuoted
        } else {
            Style::Literal
        };
    }
    if is_word(text) || is_number_or_time(text) {
        Style::DoubleQuoted
    } else if found.allows_plain() {
        Style::Plain
    } else if found.allows_single_quoted() && !found.multiline {
        Style::SingleQuoted
    } else {
        Style::DoubleQuoted
    }
}

fn double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if is_printable_v3(c) && !matches!(c, '\n' | '"' | '\\' | '\u{2028}' | '\u{2029}') {
            out.push(c);
        } else {
            out.push('\\');
            out.push_str(&escape(c));
        }
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
    // The last line break comes before the next node, or at the document's end.
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
