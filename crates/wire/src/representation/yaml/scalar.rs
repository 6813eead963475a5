//! Chooses the style of a text.

use super::analysis::{Analysis, is_printable};
use super::resolve;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// `|`, followed by the lines unchanged.
    Literal,
}

pub(super) struct Scalar<'a> {
    pub(super) text: &'a str,
    wanted: Style,
    /// The text contains line breaks.
    pub(super) multiline: bool,
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl<'a> Scalar<'a> {
    /// Makes a scalar that is not a string, such as a number.
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
        let found = Analysis::new(text, is_printable);
        let foul = found.special || found.tabs || found.space_break;
        Self {
            text,
            wanted,
            multiline: found.multiline,
            plain: found.allows_plain(),
            single_quoted: found.allows_single_quoted(),
            literal: !text.is_empty() && !text.ends_with(' ') && !foul,
        }
    }

    /// Returns the style to write. A key (`key`) must stay on one line.
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
