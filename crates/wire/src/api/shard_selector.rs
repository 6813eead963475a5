//! `shardSelector`: selects a part of the objects of a list or watch by ranges
//! of a hash (KEP-5866; k8s.io/apiserver `pkg/sharding`, apimachinery
//! `pkg/sharding`).
//!
//! kube-apiserver reads the selector as a CEL expression. Here only its plain
//! form is read, which clients and kube-apiserver itself write.

use std::fmt;

/// The digits of a bound. All of them are always written.
const DIGITS: usize = 16;

/// The end of the last range, 2^64.
const END: &str = "0x10000000000000000";

/// The most ranges of one selector. Each range is checked for each object.
const MOST_RANGES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardKey {
    Uid,
    Namespace,
}

impl ShardKey {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

/// Selects objects by the FNV-1a hash (64 bits) of a field of their metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    key: ShardKey,
    ranges: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    /// The last hash in the range.
    last: u64,
}

impl ShardSelector {
    /// Parses the plain form. Any other text gives `None`, valid or not.
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = None;
        let mut ranges = Vec::new();
        for call in text.trim_matches(' ').split("||") {
            let (of, range) = Range::parse(call.trim_matches(' '))?;
            if *key.get_or_insert(of) != of || ranges.len() == MOST_RANGES {
                return None;
            }
            ranges.push(range);
        }
        Some(Self { key: key?, ranges })
    }

    pub fn key(&self) -> ShardKey {
        self.key
    }

    /// Tells whether an object is selected. `value` is its value of the
    /// selector's key.
    pub fn matches(&self, value: &str) -> bool {
        let hash = fnv1a(value.as_bytes());
        let mut ranges = self.ranges.iter();
        ranges.any(|range| (range.start..=range.last).contains(&hash))
    }
}

impl Range {
    fn parse(call: &str) -> Option<(ShardKey, Self)> {
        let arguments = call.strip_prefix("shardRange(")?.strip_suffix(')')?;
        let mut arguments = arguments.split(',').map(|a| a.trim_matches(' '));
        let [key, start, end] = [arguments.next()?, arguments.next()?, arguments.next()?];
        let keys = [ShardKey::Uid, ShardKey::Namespace];
        let key = keys.into_iter().find(|k| k.path() == key)?;
        let start = bound(start)?;
        let last = match quoted(end)? {
            END => u64::MAX,
            _ => bound(end)?.checked_sub(1)?,
        };
        let wrong = arguments.next().is_some() || start > last;
        (!wrong).then_some((key, Self { start, last }))
    }
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.strip_suffix('\'')
}

fn bound(text: &str) -> Option<u64> {
    let digits = quoted(text)?.strip_prefix("0x")?;
    let plain =
        digits.len() == DIGITS && !digits.bytes().any(|b| b.is_ascii_uppercase() || b == b'+');
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The selector as kube-apiserver writes it in `shardInfo`.
impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.ranges.iter().enumerate() {
            let or = if n > 0 { " || " } else { "" };
            let (path, start) = (self.key.path(), range.start);
            write!(f, "{or}shardRange({path}, '0x{start:016x}', ")?;
            match range.last.checked_add(1) {
                Some(end) => write!(f, "'0x{end:016x}')")?,
                None => write!(f, "'{END}')")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: &str =
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";

    #[test]
    fn the_plain_form_is_read_and_written() {
        let rest = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";
        let both = format!("{HALF} || {rest}");
        for text in [HALF, rest, &both] {
            assert_eq!(ShardSelector::parse(text).unwrap().to_string(), text);
        }
        let tight = both.replace(' ', "");
        assert_eq!(ShardSelector::parse(&tight).unwrap().to_string(), both);
        let all = ShardSelector::parse(&both).unwrap();
        let half = ShardSelector::parse(HALF).unwrap();
        // The FNV-1a hash of the empty text begins with 0xcb, those of "a" and
        // "b" with 0xaf, that of "foobar" with 0x85, and that of "uid" with
        // 0x4c.
        for value in ["", "a", "foobar", "b", "uid"] {
            assert!(all.matches(value));
            let in_half = fnv1a(value.as_bytes()) < 1 << 63;
            assert_eq!(half.matches(value), in_half, "{value}");
        }
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn everything_else_is_not() {
        let namespaced = HALF.replace("uid", "namespace");
        for text in [
            "",
            "junk",
            "shardRange(object.metadata.uid)",
            &HALF.replace("uid", "name"),
            &HALF.replace("'0x8", "'0xG"),
            &HALF.replace("0x8000000000000000", "0x8"),
            &HALF.replace("0x8000000000000000", "0x0000000000000000"),
            &HALF.replace("0x8000000000000000", "0xA000000000000000"),
            &HALF.replace("0x8000000000000000", "0x20000000000000000"),
            &HALF.replace('\'', "\""),
            &format!("({HALF})"),
            &format!("{HALF} ||"),
            &format!("{HALF} || {namespaced}"),
            &format!("{HALF} && {HALF}"),
            &[HALF; MOST_RANGES + 1].join("||"),
        ] {
            assert_eq!(ShardSelector::parse(text), None, "{text}");
        }
    }
}
