//! Writes YAML with its indentation and line breaks (go-yaml v2 `emitterc.go`).

use super::analysis::{escape, is_break, is_printable};
use super::scalar::{Scalar, Style};

/// A line is folded at the first space after this column.
const WIDTH: usize = 80;
const INDENT: usize = 2;
/// The most bytes of a simple key. A longer key is on a line of its own, after
/// a question mark.
const MAX_SIMPLE_KEY: usize = 128;

pub(super) struct Emitter {
    out: Vec<u8>,
    column: usize,
    /// The indent of the enclosing mapping or sequence; the document has none.
    indent: Option<usize>,
    /// True if the last character written was a space.
    whitespace: bool,
    /// True if the line contains only spaces and `-`, `?` or `:` of enclosing
    /// values.
    indention: bool,
}

impl Emitter {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            out: Vec::with_capacity(capacity),
            column: 0,
            indent: None,
            whitespace: true,
            indention: true,
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.write_indent();
        self.out
    }

    /// Begins a mapping or a sequence. If `level` is true, it has the same
    /// indent as the enclosing value. Returns the argument for
    /// [`outdent`](Self::outdent).
    pub(super) fn indent(&mut self, level: bool) -> Option<usize> {
        let outer = self.indent;
        self.indent = match outer {
            None => Some(0),
            Some(indent) if level => Some(indent),
            Some(indent) => Some(indent.saturating_add(INDENT)),
        };
        outer
    }

    pub(super) fn outdent(&mut self, outer: Option<usize>) {
        self.indent = outer;
    }

    /// Tells whether the line contains a key.
    pub(super) fn is_after_key(&self) -> bool {
        !self.indention
    }

    pub(super) fn empty(&mut self, open: &str, close: &str) {
        self.indicator(open, true, false);
        self.whitespace = true;
        self.indicator(close, false, false);
    }

    pub(super) fn dash(&mut self) {
        self.write_indent();
        self.indicator("-", true, true);
    }

    pub(super) fn key(&mut self, key: &Scalar<'_>) {
        self.write_indent();
        if !key.multiline && key.text.len() <= MAX_SIMPLE_KEY {
            self.write_scalar(key, true);
            self.indicator(":", false, false);
        } else {
            self.indicator("?", true, true);
            self.write_scalar(key, false);
            self.write_indent();
            self.indicator(":", true, true);
        }
    }

    pub(super) fn scalar(&mut self, scalar: &Scalar<'_>) {
        self.write_scalar(scalar, false);
    }

    fn write_scalar(&mut self, scalar: &Scalar<'_>, key: bool) {
        let outer = self.indent;
        // The scalar's further lines are indented more.
        self.indent = Some(outer.map_or(INDENT, |indent| indent.saturating_add(INDENT)));
        match scalar.style(key) {
            Style::Plain => self.plain(scalar.text, !key),
            Style::SingleQuoted => self.single_quoted(scalar.text, !key),
            Style::DoubleQuoted => self.double_quoted(scalar.text, !key),
            Style::Literal => self.literal(scalar.text),
        }
        self.indent = outer;
    }

    fn plain(&mut self, text: &str, fold: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                let folds = fold && !spaces && self.column > WIDTH;
                if folds && chars.peek() != Some(&' ') {
                    self.write_indent();
                } else {
                    self.put(c);
                }
                spaces = true;
            } else {
                self.put(c);
                self.indention = false;
                spaces = false;
            }
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, fold: bool) {
        self.indicator("'", true, false);
        let (mut spaces, mut breaks, mut first) = (false, false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                let inside = !first && chars.peek().is_some_and(|next| *next != ' ');
                if fold && !spaces && self.column > WIDTH && inside {
                    self.write_indent();
                } else {
                    self.put(c);
                }
                spaces = true;
            } else if is_break(c) {
                if !breaks && c == '\n' {
                    self.put_break();
                }
                self.write_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if c == '\'' {
                    self.put(c);
                }
                self.put(c);
                self.indention = false;
                (spaces, breaks) = (false, false);
            }
            first = false;
        }
        self.indicator("'", false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn double_quoted(&mut self, text: &str, fold: bool) {
        // go-yaml looks for the byte order mark at the beginning of the text
        // instead of at the current position.
        let marked = text.starts_with('\u{feff}');
        self.indicator("\"", true, false);
        let (mut spaces, mut first) = (false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if marked || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.escaped(c);
                spaces = false;
            } else if c == ' ' {
                let inside = !first && chars.peek().is_some();
                if fold && !spaces && self.column > WIDTH && inside {
                    self.write_indent();
                    if chars.peek() == Some(&' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                spaces = true;
            } else {
                self.put(c);
                spaces = false;
            }
            first = false;
        }
        self.indicator("\"", false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn escaped(&mut self, c: char) {
        self.put('\\');
        escape(c).chars().for_each(|c| self.put(c));
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator("2", false, false);
        }
        let mut last = text.chars().rev();
        match last.next() {
            Some(c) if is_break(c) => {
                // There is more than one break at the end, or nothing else.
                if last.next().is_none_or(is_break) {
                    self.indicator("+", false, false);
                }
            }
            _ => self.indicator("-", false, false),
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                self.write_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.put(c);
                self.indention = false;
                breaks = false;
            }
        }
    }

    fn indicator(&mut self, indicator: &str, spaced: bool, indention: bool) {
        if spaced && !self.whitespace {
            self.put(' ');
        }
        indicator.chars().for_each(|c| self.put(c));
        self.whitespace = false;
        self.indention = self.indention && indention;
    }

    /// Begins a new line, unless the current line is still empty.
    fn write_indent(&mut self) {
        let indent = self.indent.unwrap_or_default();
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn put(&mut self, c: char) {
        let mut buffer = [0; 4];
        self.out
            .extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        self.column = self.column.saturating_add(1);
    }

    fn put_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }

    fn write_break(&mut self, c: char) {
        if c == '\n' {
            return self.put_break();
        }
        self.put(c);
        self.column = 0;
    }
}
