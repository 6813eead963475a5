//! How a text may be written (go-yaml v2 `yaml_emitter_analyze_scalar`).

use super::resolve;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// `|` and the lines as they are.
    Literal,
}

/// A text, and what allows or forbids each style.
pub(super) struct Scalar<'a> {
    pub(super) text: &'a str,
    wanted: Style,
    /// It has line breaks.
    pub(super) multiline: bool,
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl<'a> Scalar<'a> {
    /// Numbers and the like.
    pub(super) fn plain(text: &'a str) -> Self {
        Self::new(text, Style::Plain)
    }

    pub(super) fn string(text: &'a str) -> Self {
        let wanted = if text.contains('\n') {
            Style::Literal
        } else if resolve::is_something_else(text) {
            Style::DoubleQuoted
        } else {
            Style::Plain
        };
        Self::new(text, wanted)
    }

    fn new(text: &'a str, wanted: Style) -> Self {
        let spaced = |c: Option<char>| c.is_none_or(|c| matches!(c, ' ' | '\t'));
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let mut special = false;
        let mut multiline = false;
        let (mut break_space, mut space_break) = (false, false);
        let mut previous = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            indicators |= match (previous, c) {
                (
                    None,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"'
                    | '%' | '@' | '`',
                ) => true,
                (None, '?' | '-') | (_, ':') => spaced(next),
                (Some(previous), '#') => is_blank(previous),
                _ => false,
            };
            special |= !is_printable(c);
            match previous {
                Some(previous) if is_break(previous) => break_space |= c == ' ',
                Some(' ') => space_break |= is_break(c),
                _ => {}
            }
            multiline |= is_break(c);
            previous = Some(c);
        }
        let edge = |c: char| c == ' ' || is_break(c);
        let edges = text.starts_with(edge) || text.ends_with(edge);
        let foul = special || space_break;
        Self {
            text,
            wanted,
            multiline,
            plain: !(edges || break_space || foul || multiline || indicators),
            single_quoted: !(break_space || foul),
            literal: !text.is_empty() && !text.ends_with(' ') && !foul,
        }
    }

    /// `key`: it must stay on its line.
    pub(super) fn style(&self, key: bool) -> Style {
        let quoted = if self.single_quoted {
            Style::SingleQuoted
        } else {
            Style::DoubleQuoted
        };
        match self.wanted {
            _ if key && self.multiline => Style::DoubleQuoted,
            Style::Plain if self.plain => Style::Plain,
            Style::Plain => quoted,
            Style::Literal if self.literal && !key => Style::Literal,
            _ => Style::DoubleQuoted,
        }
    }
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Blank, a break, or NUL.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\0') || is_break(c)
}

/// May stand unescaped: nothing beyond 16 bits.
pub(super) fn is_printable(c: char) -> bool {
    c == '\n'
        || matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
            && c != '\u{feff}'
}
