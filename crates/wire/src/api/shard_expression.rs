//! The text of a `shardSelector`, which is a CEL expression: `shardRange()`
//! calls, joined by `||` (k8s.io/apiserver `pkg/sharding`).
//!
//! kube-apiserver parses all of CEL, and then refuses everything but these calls.
//! This module reads only the part of CEL whose meaning, or whose refusal, is known
//! to the letter.

use super::query::go_quote;

/// The most calls of one selector. A longer text does not fit into a URL that
/// servers accept.
const MOST_RANGES: usize = 1_000;

/// The deepest nesting of parentheses. kube-apiserver reads deeper ones, but
/// nobody writes them.
const MAX_DEPTH: usize = 16;

/// The number of digits of a bound. Leading zeros are written, too.
const HEX_DIGITS: usize = 16;

/// The end of the last range, 2^64.
pub(super) const END_OF_HASHES: &str = "0x10000000000000000";

/// Words that CEL does not take as names of variables and functions.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Words that CEL does not take as names of fields.
const NO_FIELDS: [&str; 4] = ["false", "in", "null", "true"];

/// The field of an object whose hash decides which shard has the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardKey {
    /// `object.metadata.uid`
    Uid,
    /// `object.metadata.namespace`
    Namespace,
}

impl ShardKey {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

/// A range of hashes, which is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardRange {
    pub(super) start: u64,
    /// The last hash in the range.
    pub(super) last: u64,
}

impl ShardRange {
    /// Makes the range from `start` to before `end`, which may be 2^64.
    fn between(start: u128, end: u128) -> Option<Self> {
        let range = Self {
            start: u64::try_from(start).ok()?,
            last: u64::try_from(end.checked_sub(1)?).ok()?,
        };
        (range.start <= range.last).then_some(range)
    }
}

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidShard {
    /// kube-apiserver refuses the text with this message.
    #[error("invalid shard selector: {0}")]
    Refused(String),
    /// CEL that is not read here. kube-apiserver may accept it.
    #[error("invalid shard selector: only shardRange() calls joined by || are read")]
    Unreadable,
}

impl InvalidShard {
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }
}

#[derive(Debug)]
enum Expression<'a> {
    /// A variable, and the fields that follow it.
    Path(Vec<&'a str>),
    Text(&'a str),
    Number,
    Call(&'a str, Vec<Self>),
    Or(Vec<Self>),
}

/// Returns the ranges of a selector in their order, and the key that all of them
/// share.
pub(super) fn parse(text: &str) -> Result<(ShardKey, Vec<ShardRange>), InvalidShard> {
    let text = text.trim();
    if text.is_empty() {
        let message =
            "empty shard selector is not allowed; omit the parameter for unfiltered lists";
        return Err(InvalidShard::refused(message));
    }
    let mut reader = Reader {
        rest: text,
        calls: 0,
    };
    let expression = reader.either(0).filter(|_| reader.token().is_empty());
    let mut ranges = Vec::new();
    collect(&expression.ok_or(InvalidShard::Unreadable)?, &mut ranges)?;
    let mut keys = ranges.iter().map(|(key, _)| *key);
    let first = keys.next().ok_or(InvalidShard::Unreadable)?;
    match keys.find(|key| *key != first) {
        Some(other) => Err(InvalidShard::refused(format!(
            "all shard ranges must use the same field, got {} and {}",
            go_quote(first.path()),
            go_quote(other.path())
        ))),
        None => Ok((first, ranges.into_iter().map(|(_, range)| range).collect())),
    }
}

struct Reader<'a> {
    rest: &'a str,
    calls: usize,
}

/// Each method returns `None` for text that is not read here.
impl<'a> Reader<'a> {
    /// Skips white space, and returns the rest.
    fn token(&mut self) -> &'a str {
        let space = ['\t', ' ', '\r', '\n', '\u{c}'];
        self.rest = self.rest.trim_start_matches(space);
        self.rest
    }

    fn skips(&mut self, sign: &str) -> bool {
        let rest = self.token().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn either(&mut self, depth: usize) -> Option<Expression<'a>> {
        let first = self.primary(depth)?;
        if !self.token().starts_with("||") {
            return Some(first);
        }
        let mut all = vec![first];
        while self.skips("||") {
            all.push(self.primary(depth)?);
        }
        Some(Expression::Or(all))
    }

    fn primary(&mut self, depth: usize) -> Option<Expression<'a>> {
        let deeper = depth.checked_add(1).filter(|depth| *depth <= MAX_DEPTH)?;
        if self.skips("(") {
            let inner = self.either(deeper)?;
            return self.skips(")").then_some(inner);
        }
        let next = self.token().chars().next()?;
        match next {
            '\'' | '"' => self.text(next).map(Expression::Text),
            '0'..='9' => self.number(),
            _ => {
                let name = self.name(&RESERVED)?;
                if self.skips("(") {
                    return Some(Expression::Call(name, self.arguments(deeper)?));
                }
                let mut path = vec![name];
                while self.skips(".") {
                    path.push(self.name(&NO_FIELDS)?);
                }
                Some(Expression::Path(path))
            }
        }
    }

    fn arguments(&mut self, depth: usize) -> Option<Vec<Expression<'a>>> {
        self.calls = self.calls.checked_add(1).filter(|n| *n <= MOST_RANGES)?;
        let mut arguments = Vec::new();
        if self.skips(")") {
            return Some(arguments);
        }
        loop {
            arguments.push(self.either(depth)?);
            if self.skips(")") {
                return Some(arguments);
            }
            if !self.skips(",") {
                return None;
            }
        }
    }

    fn name(&mut self, refused: &[&str]) -> Option<&'a str> {
        let rest = self.token();
        let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !named(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end)?;
        let begins = !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty();
        // A quote right after a name would make the name the prefix of a raw text
        // or of bytes.
        if !begins || refused.contains(&name) || after.starts_with(['\'', '"']) {
            return None;
        }
        self.rest = after;
        Some(name)
    }

    /// Reads a text without escapes, on one line.
    fn text(&mut self, quote: char) -> Option<&'a str> {
        let rest = self.rest.strip_prefix(quote)?;
        let (text, after) = rest.split_once(quote)?;
        let plain = !text.chars().any(|c| c == '\\' || c.is_control());
        // Three quotes begin a text of several lines.
        if !plain || text.is_empty() && after.starts_with(quote) {
            return None;
        }
        self.rest = after;
        Some(text)
    }

    fn number(&mut self) -> Option<Expression<'a>> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit());
        let (digits, after) = self.rest.split_at_checked(end.unwrap_or(self.rest.len()))?;
        digits.parse::<i64>().ok()?;
        if after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_') {
            return None;
        }
        self.rest = after;
        Some(Expression::Number)
    }
}

impl Expression<'_> {
    /// Returns the number that stands for the kind in kube-apiserver's errors
    /// (cel-go `common/ast`).
    fn kind(&self) -> u8 {
        match self {
            Self::Call(..) | Self::Or(_) => 1,
            Self::Path(names) if names.len() == 1 => 3,
            Self::Text(_) | Self::Number => 5,
            Self::Path(_) => 7,
        }
    }
}

fn collect(
    expression: &Expression<'_>,
    ranges: &mut Vec<(ShardKey, ShardRange)>,
) -> Result<(), InvalidShard> {
    match expression {
        Expression::Or(all) => all.iter().try_for_each(|one| collect(one, ranges)),
        Expression::Call("shardRange", arguments) => {
            ranges.push(range(arguments)?);
            Ok(())
        }
        Expression::Call(name, _) => Err(InvalidShard::refused(format!(
            "unsupported function {}; only shardRange() and || are allowed",
            go_quote(name)
        ))),
        other => Err(InvalidShard::refused(format!(
            "unexpected expression kind {}; expected shardRange() call or || operator",
            other.kind()
        ))),
    }
}

fn range(arguments: &[Expression<'_>]) -> Result<(ShardKey, ShardRange), InvalidShard> {
    let [field, start, end] = arguments else {
        return Err(InvalidShard::refused(format!(
            "shardRange() requires exactly 3 arguments, got {}",
            arguments.len()
        )));
    };
    let Expression::Path(names) = field else {
        return Err(InvalidShard::refused(format!(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got \
             expression kind {}",
            field.kind()
        )));
    };
    let path = names.join(".");
    let keys = [ShardKey::Uid, ShardKey::Namespace];
    let key = keys.into_iter().find(|key| key.path() == path);
    let key = key.ok_or_else(|| {
        InvalidShard::refused(format!(
            "unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace",
            go_quote(&path)
        ))
    })?;
    let (start, end) = (bound(start, "hexStart")?, bound(end, "hexEnd")?);
    match ShardRange::between(start.1, end.1) {
        Some(range) => Ok((key, range)),
        None => Err(InvalidShard::refused(format!(
            "shard range start {} must be less than end {}",
            start.0, end.0
        ))),
    }
}

/// Returns a bound as it is written, and its value. The value is 2^64 for
/// [`END_OF_HASHES`].
fn bound<'a>(expression: &Expression<'a>, name: &str) -> Result<(&'a str, u128), InvalidShard> {
    let refuse = |message: String| Err(InvalidShard::refused(format!("{name}{message}")));
    let text = match expression {
        Expression::Text(text) => *text,
        Expression::Number => return refuse(" must be a string literal, got int64".to_owned()),
        other => {
            return refuse(format!(
                " must be a string literal (e.g. '0xff'), got expression kind {}",
                other.kind()
            ));
        }
    };
    let quoted = go_quote(text);
    let Some(digits) = text.strip_prefix("0x") else {
        return refuse(format!(" must have '0x' prefix, got {quoted}"));
    };
    let length = digits.len();
    if digits.is_empty() {
        return refuse(": hex value is required after '0x'".to_owned());
    }
    if length > END_OF_HASHES.len().saturating_sub(2) {
        let digits = go_quote(digits);
        return refuse(format!(
            ": hex value too long ({length} chars, max 17): {digits}"
        ));
    }
    let wrong = |c: &char| !matches!(c, '0'..='9' | 'a'..='f');
    if let Some(wrong) = digits.chars().find(wrong) {
        let wrong = go_quote(&wrong.to_string());
        return refuse(format!(": invalid hex character {wrong} in {quoted}"));
    }
    if length > HEX_DIGITS && text != END_OF_HASHES {
        return refuse(format!(
            ": 17-digit hex value must be '{END_OF_HASHES}' (2^64), got {quoted}"
        ));
    }
    if length < HEX_DIGITS {
        return refuse(format!(
            " must be a 0x-prefixed 16-digit hex value, got {quoted} (did you mean \
             \"0x{digits:0>16}\"?)"
        ));
    }
    let value = u128::from_str_radix(digits, 16).map_err(|_| InvalidShard::Unreadable)?;
    Ok((text, value))
}
