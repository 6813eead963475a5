//! `shardSelector`: selects a part of the objects of a list or watch by ranges
//! of a hash (KEP-5866; k8s.io/apiserver `pkg/sharding`, apimachinery
//! `pkg/sharding`).

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::shard_expression::{self, END_OF_HASHES};
pub use super::shard_expression::{InvalidShard, ShardKey, ShardRange};

/// The hash of an object's value of a [`ShardKey`]: FNV-1a with 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShardHash(pub u64);

impl ShardHash {
    /// Returns the hash of a value.
    pub fn of_value(value: &str) -> Self {
        Self(value.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        }))
    }
}

/// A share of all objects: those whose hash is in one of several ranges. Texts that
/// select the same objects give equal shards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    key: ShardKey,
    /// Ascending ranges with gaps between them.
    ranges: Arc<[ShardRange]>,
}

/// The selector of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    /// The ranges as they are written.
    ranges: Vec<ShardRange>,
    shard: Shard,
}

impl ShardRange {
    /// Returns the first and the last hash of the range. Both are in it.
    pub fn hashes(self) -> RangeInclusive<ShardHash> {
        ShardHash(self.start)..=ShardHash(self.last)
    }
}

impl ShardSelector {
    /// Parses the parameter `shardSelector`.
    pub fn parse(text: &str) -> Result<Self, InvalidShard> {
        let (key, ranges) = shard_expression::parse(text)?;
        let shard = Shard {
            key,
            ranges: merge(ranges.clone()).into(),
        };
        Ok(Self { ranges, shard })
    }

    /// Returns the shard that the selector selects.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }
}

impl Shard {
    /// Returns the field whose hash is compared.
    pub fn key(&self) -> ShardKey {
        self.key
    }

    /// Returns the hashes, in ascending ranges with gaps between them.
    pub fn ranges(&self) -> &[ShardRange] {
        &self.ranges
    }

    /// Tells whether an object with this hash is in the shard.
    pub fn contains(&self, ShardHash(hash): ShardHash) -> bool {
        let at = self.ranges.partition_point(|range| range.last < hash);
        self.ranges.get(at).is_some_and(|range| range.start <= hash)
    }
}

fn merge(mut ranges: Vec<ShardRange>) -> Vec<ShardRange> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<ShardRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The selector in the form that kube-apiserver writes in `shardInfo`.
impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.ranges.iter().enumerate() {
            let or = if n > 0 { " || " } else { "" };
            let (path, start) = (self.shard.key.path(), range.start);
            write!(f, "{or}shardRange({path}, '0x{start:016x}', ")?;
            match range.last.checked_add(1) {
                Some(end) => write!(f, "'0x{end:016x}')")?,
                None => write!(f, "'{END_OF_HASHES}')")?,
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
    const REST: &str =
        "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

    fn written(text: &str) -> String {
        ShardSelector::parse(text).unwrap().to_string()
    }

    #[test]
    fn a_selector_is_written_as_kube_apiserver_writes_it() {
        let both = format!("{HALF} || {REST}");
        for text in [HALF, REST, &both] {
            assert_eq!(written(text), text);
        }
        for other in [
            both.replace(' ', ""),
            both.replace('\'', "\""),
            both.replace(' ', "\n\t "),
            format!("(({HALF}) || {REST})"),
            format!(" {HALF} || (({REST}))\n"),
            both.replace("object.metadata.uid", "object . metadata.uid"),
        ] {
            assert_eq!(written(&other), both, "{other}");
        }
        let namespace = HALF.replace("uid", "namespace");
        assert_eq!(written(&namespace), namespace);
    }

    #[test]
    fn objects_are_selected_by_their_hash() {
        let shard = |text: &str| ShardSelector::parse(text).unwrap().shard().clone();
        let both = shard(&format!("{REST} || {HALF} || {HALF}"));
        let half = shard(HALF);
        assert_eq!(both.ranges().len(), 1);
        // The FNV-1a hash of the empty text begins with 0xcb, those of "a" and
        // "b" with 0xaf, that of "foobar" with 0x85, and that of "uid" with
        // 0x4c.
        for value in ["", "a", "foobar", "b", "uid"] {
            let hash = ShardHash::of_value(value);
            assert!(both.contains(hash));
            assert_eq!(half.contains(hash), hash.0 < 1 << 63, "{value}");
        }
        assert_eq!(ShardHash::of_value("foobar").0, 0x8594_4171_f739_67e8);
        let two = "shardRange(object.metadata.uid,'0x0000000000000004','0x0000000000000006')||\
                   shardRange(object.metadata.uid,'0x0000000000000001','0x0000000000000002')";
        let two = shard(two);
        let selected = (0..8).filter(|hash| two.contains(ShardHash(*hash)));
        assert_eq!(selected.collect::<Vec<_>>(), [1, 4, 5]);
        assert!(!two.contains(ShardHash(u64::MAX)));
    }

    #[test]
    fn other_texts_are_refused_in_kube_apiservers_words() {
        let uid =
            |start: &str, end: &str| format!("shardRange(object.metadata.uid, {start}, {end})");
        let zero = "'0x0000000000000000'";
        for (text, message) in [
            (
                String::new(),
                "empty shard selector is not allowed; omit the parameter for unfiltered lists",
            ),
            (
                "junk".to_owned(),
                "unexpected expression kind 3; expected shardRange() call or || operator",
            ),
            (
                "'text'".to_owned(),
                "unexpected expression kind 5; expected shardRange() call or || operator",
            ),
            (
                "a.b".to_owned(),
                "unexpected expression kind 7; expected shardRange() call or || operator",
            ),
            (
                format!("{HALF} || junk"),
                "unexpected expression kind 3; expected shardRange() call or || operator",
            ),
            (
                "has(a)".to_owned(),
                "unsupported function \"has\"; only shardRange() and || are allowed",
            ),
            (
                "shardRange()".to_owned(),
                "shardRange() requires exactly 3 arguments, got 0",
            ),
            (
                "shardRange(object.metadata.uid)".to_owned(),
                "shardRange() requires exactly 3 arguments, got 1",
            ),
            (
                "shardRange('uid', '0', '1')".to_owned(),
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
            ),
            (
                HALF.replace("uid", "name"),
                "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, object.metadata.namespace",
            ),
            (
                uid("0", zero),
                "hexStart must be a string literal, got int64",
            ),
            (
                uid("start", zero),
                "hexStart must be a string literal (e.g. '0xff'), got expression kind 3",
            ),
            (
                uid(zero, "'8000'"),
                "hexEnd must have '0x' prefix, got \"8000\"",
            ),
            (
                uid(zero, "'0x'"),
                "hexEnd: hex value is required after '0x'",
            ),
            (
                uid(zero, "'0x100000000000000000'"),
                "hexEnd: hex value too long (18 chars, max 17): \"100000000000000000\"",
            ),
            (
                uid(zero, "'0xA000000000000000'"),
                "hexEnd: invalid hex character \"A\" in \"0xA000000000000000\"",
            ),
            (
                uid(zero, "'0x20000000000000000'"),
                "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"",
            ),
            (
                uid(zero, "'0x8'"),
                "hexEnd must be a 0x-prefixed 16-digit hex value, got \"0x8\" (did you mean \"0x0000000000000008\"?)",
            ),
            (
                uid(zero, zero),
                "shard range start 0x0000000000000000 must be less than end 0x0000000000000000",
            ),
            (
                format!("{HALF} || {}", HALF.replace("uid", "namespace")),
                "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
            ),
        ] {
            assert_eq!(
                ShardSelector::parse(&text),
                Err(InvalidShard::refused(message)),
                "{text}"
            );
        }
    }

    #[test]
    fn the_rest_of_cel_is_not_read() {
        for text in [
            format!("{HALF} ||"),
            format!("{HALF} && {HALF}"),
            format!("{HALF} {HALF}"),
            format!("!{HALF}"),
            format!("{HALF} // comment"),
            HALF.replace("'0x0", "r'0x0"),
            HALF.replace("'0x0", "'\\x30x0"),
            HALF.replace("'0x0", "'''0x0"),
            HALF.replace("uid", "uid()"),
            HALF.replace("object", "in"),
            "true".to_owned(),
            "1.5".to_owned(),
            "-1".to_owned(),
            "[1]".to_owned(),
            "ä".to_owned(),
            format!("{}{HALF}{}", "(".repeat(40), ")".repeat(40)),
            format!("{}{HALF}", "(".repeat(100_000)),
            vec![HALF; 1_001].join("||"),
        ] {
            let read = ShardSelector::parse(&text);
            assert_eq!(read, Err(InvalidShard::Unreadable), "{text:.200}");
        }
    }
}
