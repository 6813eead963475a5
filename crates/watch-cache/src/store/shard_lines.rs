//! The topics of shards (KEP-5866).
//!
//! Watchers that divide a resource among themselves by ranges of hashes must not all
//! look at each event. The ranges of all shards divide the hashes into segments, and
//! each segment knows its shards. So the hash of an event's object is looked up
//! once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use kubernetes_wire::api::{Shard, ShardHash, ShardKey};

use super::topic_line::Line;
use super::{Event, StoredObject};

/// The most shards with topics, and the most ranges of one shard. Their segments are
/// made anew within a millisecond. Watchers of further shards look at each event
/// themselves.
const MAX_SHARDS: usize = 128;
const MAX_RANGES_PER_SHARD: usize = 4;

/// The lines of shards, each with the number of its subscribers.
#[derive(Debug, Default)]
pub(super) struct ShardLines {
    lines: HashMap<Shard, (Arc<Line>, usize)>,
    uids: Segments,
    namespaces: Segments,
}

/// Lines by the lowest hash of their segment. A segment ends before the next.
#[derive(Debug, Default)]
struct Segments(BTreeMap<ShardHash, Vec<Arc<Line>>>);

impl ShardLines {
    /// Returns the line of a shard. `None` if there are too many shards or ranges.
    pub(super) fn join(&mut self, shard: &Shard, next: u64) -> Option<Arc<Line>> {
        if let Some((line, subscribers)) = self.lines.get_mut(shard) {
            *subscribers = subscribers.saturating_add(1);
            return Some(line.clone());
        }
        if self.lines.len() >= MAX_SHARDS || shard.ranges().len() > MAX_RANGES_PER_SHARD {
            return None;
        }
        let line = Arc::new(Line::since(next));
        self.lines.insert(shard.clone(), (line.clone(), 1));
        self.divide(shard.key());
        Some(line)
    }

    pub(super) fn leave(&mut self, shard: &Shard) {
        let Some((_, subscribers)) = self.lines.get_mut(shard) else {
            return;
        };
        *subscribers = subscribers.saturating_sub(1);
        if *subscribers == 0 {
            self.lines.remove(shard);
            self.divide(shard.key());
        }
    }

    /// Calls `each` once for each line that holds the event.
    pub(super) fn for_each_holding(&self, event: &Event, mut each: impl FnMut(&Arc<Line>)) {
        for (key, segments) in [
            (ShardKey::Uid, &self.uids),
            (ShardKey::Namespace, &self.namespaces),
        ] {
            if segments.0.is_empty() {
                continue;
            }
            let (now, before) = hashes(event, key);
            let now = segments.at(now);
            now.iter().for_each(&mut each);
            // An object that was created anew has another UID.
            let before = before.map(|before| segments.at(before)).unwrap_or_default();
            for line in before {
                if !now.iter().any(|n| Arc::ptr_eq(n, line)) {
                    each(line);
                }
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Line>> {
        self.lines.values().map(|(line, _)| line)
    }

    /// Makes the segments of a key anew.
    fn divide(&mut self, key: ShardKey) {
        let shards = self.lines.iter().filter(|(shard, _)| shard.key() == key);
        let mut starts = BTreeSet::new();
        for range in shards.clone().flat_map(|(shard, _)| shard.ranges()) {
            let (first, last) = range.hashes().into_inner();
            starts.insert(first);
            starts.extend(last.0.checked_add(1).map(ShardHash));
        }
        let lines = |start: ShardHash| {
            let shards = shards.clone().filter(|(shard, _)| shard.contains(start));
            shards.map(|(_, (line, _))| line.clone()).collect()
        };
        let segments = Segments(starts.into_iter().map(|s| (s, lines(s))).collect());
        match key {
            ShardKey::Uid => self.uids = segments,
            ShardKey::Namespace => self.namespaces = segments,
        }
    }
}

impl Segments {
    fn at(&self, hash: ShardHash) -> &[Arc<Line>] {
        let mut upto = self.0.range((Bound::Unbounded, Bound::Included(hash)));
        upto.next_back().map_or(&[], |(_, lines)| lines)
    }
}

/// Tells whether the object belonged to the shard before the event or belongs
/// to it after.
pub(super) fn holds(shard: &Shard, event: &Event) -> bool {
    let (now, before) = hashes(event, shard.key());
    shard.contains(now) || before.is_some_and(|before| shard.contains(before))
}

/// Returns the hash of the object after the event, and the hash before it if
/// that was another one.
fn hashes(event: &Event, key: ShardKey) -> (ShardHash, Option<ShardHash>) {
    let hash = |object: &StoredObject| object.shard_hash(key);
    let now = hash(&event.object);
    let before = match key {
        ShardKey::Uid => event.previous.as_deref().map(hash),
        // The namespace of an object never changes.
        ShardKey::Namespace => None,
    };
    (now, before.filter(|before| *before != now))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use kubernetes_wire::api::{GroupVersionResource, ShardSelector};

    use super::*;
    use crate::store::{Change, field_table};

    fn shard(field: &str, ranges: &[(u64, Option<u64>)]) -> Shard {
        let calls = ranges.iter().map(|(start, end)| {
            let end = end.map_or("0x10000000000000000".to_owned(), |e| format!("0x{e:016x}"));
            format!("shardRange(object.metadata.{field}, '0x{start:016x}', '{end}')")
        });
        let text = calls.collect::<Vec<_>>().join("||");
        ShardSelector::parse(&text).unwrap().shard().clone()
    }

    fn object(namespace: &str, uid: &str) -> Arc<StoredObject> {
        let item = format!(
            r#"{{"metadata":{{"name":"a","namespace":"{namespace}","uid":"{uid}","resourceVersion":"7"}}}}"#
        );
        let fields = field_table(&GroupVersionResource::new("", "v1", "configmaps"));
        Arc::new(StoredObject::parse(Bytes::from(item), &fields).unwrap())
    }

    fn event(now: (&str, &str), before: Option<(&str, &str)>) -> Event {
        let before = before.map(|(namespace, uid)| object(namespace, uid));
        let object = object(now.0, now.1);
        Event::new(Change::Modified, 7, object, before, Instant::now())
    }

    /// The lines that hold an event are those of the shards that hold it, for
    /// all shards and however they overlap.
    #[test]
    fn a_line_is_found_by_its_range() {
        let quarter = 1_u64 << 62;
        let shards = [
            shard("uid", &[(0, Some(quarter))]),
            shard("uid", &[(quarter, Some(2 * quarter))]),
            shard("uid", &[(2 * quarter, Some(3 * quarter))]),
            shard("uid", &[(3 * quarter, None)]),
            shard("uid", &[(0, None)]),
            shard(
                "uid",
                &[(5, Some(6)), (quarter, Some(3 * quarter)), (u64::MAX, None)],
            ),
            shard("namespace", &[(0, Some(2 * quarter))]),
            shard("namespace", &[(2 * quarter, None)]),
        ];
        let mut lines = ShardLines::default();
        let joined: Vec<_> = shards.iter().map(|s| lines.join(s, 0).unwrap()).collect();
        for n in 0..64_u32 {
            let (uid, other) = (format!("uid-{n}"), format!("other-{n}"));
            let namespace = format!("n{}", n % 7);
            for before in [None, Some(&uid), Some(&other)] {
                let before = before.map(|uid| (&*namespace, &**uid));
                let event = event((&namespace, &uid), before);
                let expected = shards.iter().map(|shard| usize::from(holds(shard, &event)));
                let mut found = vec![0; shards.len()];
                lines.for_each_holding(&event, |line| {
                    let at = joined.iter().position(|l| Arc::ptr_eq(l, line)).unwrap();
                    found[at] += 1;
                });
                assert_eq!(found, expected.collect::<Vec<_>>(), "{uid} {before:?}");
            }
        }
        shards.iter().for_each(|shard| lines.leave(shard));
        assert_eq!(lines.iter().count(), 0);
        assert!(lines.uids.0.is_empty() && lines.namespaces.0.is_empty());
    }

    #[test]
    fn a_shard_of_several_watchers_stays_until_the_last_leaves() {
        let (mut lines, all) = (ShardLines::default(), shard("uid", &[(0, None)]));
        let first = lines.join(&all, 0).unwrap();
        assert!(Arc::ptr_eq(&first, &lines.join(&all, 9).unwrap()));
        lines.leave(&all);
        assert_eq!(lines.iter().count(), 1);
        lines.leave(&all);
        assert_eq!(lines.iter().count(), 0);
    }

    #[test]
    fn shards_with_topics_are_bounded() {
        let mut lines = ShardLines::default();
        let many: Vec<_> = (0..5).map(|n| (n * 10, Some(n * 10 + 1))).collect();
        assert!(lines.join(&shard("uid", &many), 0).is_none());
        for n in 0..MAX_SHARDS as u64 {
            assert!(lines.join(&shard("uid", &[(n, Some(n + 1))]), 0).is_some());
        }
        assert!(lines.join(&shard("uid", &[(500, None)]), 0).is_none());
    }
}
