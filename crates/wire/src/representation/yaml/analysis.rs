//! The properties of a text that allow or forbid the styles of writing it (go-yaml
//! `yaml_emitter_analyze_scalar`).

/// The properties of one text. go-yaml v2 and v3 analyse texts alike, but v3
/// regards more characters as printable.
#[derive(Clone, Copy, Debug)]
pub struct Analysis {
    /// The text contains line breaks.
    pub multiline: bool,
    /// The text contains tabs.
    pub(crate) tabs: bool,
    /// The text contains characters, besides tabs, that must be escaped.
    pub special: bool,
    /// A space follows a line break.
    pub(crate) break_space: bool,
    /// A line break follows a space.
    pub space_break: bool,
    /// The text begins or ends with a space or a line break.
    pub(crate) edges: bool,
    /// Without quotes, the text could be read as syntax.
    pub(crate) indicators: bool,
}

impl Analysis {
    /// Analyses a text. `is_printable` tells which characters are written unescaped.
    pub fn new(text: &str, is_printable: fn(char) -> bool) -> Self {
        let edge = |c: char| c == ' ' || is_break(c);
        let mut found = Self {
            multiline: false,
            tabs: false,
            special: false,
            break_space: false,
            space_break: false,
            edges: text.starts_with(edge) || text.ends_with(edge),
            indicators: text.starts_with("---") || text.starts_with("..."),
        };
        let mut previous = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            found.indicators |= match (previous, c) {
                (
                    None,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"'
                    | '%' | '@' | '`',
                ) => true,
                (None, '?' | '-') | (_, ':') => next.is_none_or(is_blank),
                (Some(previous), '#') => is_blank(previous),
                _ => false,
            };
            found.tabs |= c == '\t';
            found.special |= c != '\t' && !is_printable(c);
            found.break_space |= c == ' ' && previous.is_some_and(is_break);
            found.space_break |= is_break(c) && previous == Some(' ');
            found.multiline |= is_break(c);
            previous = Some(c);
        }
        found
    }

    /// Tells whether the text may be written without quotes.
    pub fn allows_plain(&self) -> bool {
        !(self.edges || self.multiline || self.indicators) && self.allows_single_quoted()
    }

    /// Tells whether the text may be written in single quotes.
    pub fn allows_single_quoted(&self) -> bool {
        !(self.break_space || self.space_break || self.tabs || self.special)
    }
}

/// Tells whether a character is a line break of YAML 1.1.
pub fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_break(c)
}

/// Tells whether go-yaml v2 writes a character unescaped. It escapes everything
/// beyond 16 bits.
pub(super) fn is_printable(c: char) -> bool {
    c == '\n'
        || matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
            && c != '\u{feff}'
}

/// Tells whether go-yaml v3 writes a character unescaped.
pub fn is_printable_v3(c: char) -> bool {
    is_printable(c) || c >= '\u{10000}'
}

/// Returns the escape of a character in double quotes, without its backslash.
pub fn escape(c: char) -> String {
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
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        c => {
            return match u32::from(c) {
                code @ 0..=0xff => format!("x{code:02X}"),
                code @ 0..=0xffff => format!("u{code:04X}"),
                code => format!("U{code:08X}"),
            };
        }
    };
    short.into()
}
