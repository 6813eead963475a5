//! The views that are kept. Users share the places in this table, which decides whose
//! view is given up for another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apifront_shares::{Ledger, Limits};
use kubernetes_wire::api::UserInfo;
use tokio::time::Instant;

use super::View;

/// A digest of a user (with groups and extra), a resource and a verb.
pub(super) type Key = [u8; 32];

/// The most views of one user: lists and watches of some thirty resources. A user
/// with more loses the views that were unused for longest.
const OF_ONE_USER: usize = 64;

/// An entry: a view, or a stand-in in tests.
pub(super) trait ViewEntry {
    fn user(&self) -> &UserInfo;
    /// Returns the time of the last request, if nobody watches.
    fn idle_since(&self) -> Option<Instant>;
}

impl ViewEntry for View {
    fn user(&self) -> &UserInfo {
        &self.user
    }

    fn idle_since(&self) -> Option<Instant> {
        Self::idle_since(self)
    }
}

pub(super) struct ViewTable<V> {
    views: HashMap<Key, Arc<V>>,
    /// The numbers of views of each user.
    of_users: Ledger<String>,
    /// The numbers for users with a common share: see [`UserInfo::sharer`].
    of_sharers: Ledger<String>,
}

/// The room for one more view.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    There,
    InPlaceOf(Key),
    None,
}

impl<V> Default for ViewTable<V> {
    fn default() -> Self {
        Self {
            views: HashMap::new(),
            of_users: Ledger::new(Limits::fixed(0, OF_ONE_USER)),
            of_sharers: Ledger::new(Limits::fixed(0, 0)),
        }
    }
}

impl<V: ViewEntry> ViewTable<V> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.views.get(key).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.views.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &V> {
        self.views.values().map(Arc::as_ref)
    }

    pub(super) fn insert(&mut self, key: Key, view: Arc<V>) {
        drop(self.remove(&key));
        let user = view.user();
        self.of_users.add(Some(&user.name), 1);
        self.of_sharers.add(Some(&user.sharer().to_owned()), 1);
        self.views.insert(key, view);
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<V>> {
        let view = self.views.remove(key)?;
        let user = view.user();
        self.of_users.take_off(Some(&user.name), 1);
        let sharer = user.sharer().to_owned();
        self.of_sharers.take_off(Some(&sharer), 1);
        Some(view)
    }

    pub(super) fn take_if(&mut self, is_taken: impl Fn(&V) -> bool) -> Vec<Arc<V>> {
        let taken = self.views.iter().filter(|(_, view)| is_taken(view));
        let taken: Vec<Key> = taken.map(|(key, _)| *key).collect();
        taken.iter().filter_map(|key| self.remove(key)).collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Arc<V>> {
        self.take_if(|_| true)
    }

    /// Finds room for one more view of the user. If there is none, a user with more
    /// views gives up an unwatched one. If there is no unwatched one, the user with
    /// the most views gives up a watched one, provided that they still have as many
    /// as this user. Else this user gives up an unwatched one.
    pub(super) fn room(&self, user: &UserInfo, max: usize) -> Room {
        if self.of_users.allows(Some(&user.name), 1).is_err() {
            let own = self.filter(|view| view.user().name == user.name);
            return longest_idle(own).map_or(Room::None, |(_, key)| Room::InPlaceOf(key));
        }
        if self.len() < max {
            return Room::There;
        }
        let own = self.of_sharers.amount_of(user.sharer());
        // Unwatched views of users who have more views than this one.
        let mut idle: BTreeMap<Reverse<usize>, (Instant, Key)> = BTreeMap::new();
        for (key, view) in &self.views {
            let Some(since) = view.idle_since() else {
                continue;
            };
            let count = self.of_sharers.amount_of(view.user().sharer());
            if count > own {
                let found = idle.entry(Reverse(count)).or_insert((since, *key));
                *found = (*found).min((since, *key));
            }
        }
        if let Some((_, (_, key))) = idle.first_key_value() {
            return Room::InPlaceOf(*key);
        }
        if let Some((most, count)) = self.of_sharers.most()
            && count > own.saturating_add(1)
            && let Some((key, _)) = self.filter(|view| view.user().sharer() == most).next()
        {
            return Room::InPlaceOf(*key);
        }
        let own = self.filter(|view| view.user().sharer() == user.sharer());
        longest_idle(own).map_or(Room::None, |(_, key)| Room::InPlaceOf(key))
    }

    fn filter(&self, is_theirs: impl Fn(&V) -> bool) -> impl Iterator<Item = (&Key, &V)> {
        let all = self.views.iter().map(|(key, view)| (key, view.as_ref()));
        all.filter(move |(_, view)| is_theirs(view))
    }
}

/// Returns the unwatched view that was unused for longest, and since when.
fn longest_idle<'a, V: ViewEntry + 'a>(
    views: impl Iterator<Item = (&'a Key, &'a V)>,
) -> Option<(Instant, Key)> {
    let idle = views.filter_map(|(key, view)| Some((view.idle_since()?, *key)));
    idle.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Held {
        user: UserInfo,
        idle_since: Option<Instant>,
    }

    impl ViewEntry for Held {
        fn user(&self) -> &UserInfo {
            &self.user
        }

        fn idle_since(&self) -> Option<Instant> {
            self.idle_since
        }
    }

    /// `s.x` is a service account in the namespace `s`.
    fn user(name: &str) -> UserInfo {
        UserInfo {
            name: match name.split_once('.') {
                Some((namespace, name)) => format!("system:serviceaccount:{namespace}:{name}"),
                None => name.to_owned(),
            },
            ..UserInfo::default()
        }
    }

    /// Makes views by user: `a` is watched, and `a3` is unused since the third
    /// second.
    fn table(views: &str) -> ViewTable<Held> {
        let began = Instant::now();
        let mut table = ViewTable::default();
        for (n, view) in views.split_whitespace().enumerate() {
            let end = view.find(|c: char| c.is_ascii_digit());
            let (name, idle) = view.split_at(end.unwrap_or(view.len()));
            let seconds: Option<u64> = idle.parse().ok();
            let view = Held {
                user: user(name),
                idle_since: seconds.map(|seconds| began + std::time::Duration::from_secs(seconds)),
            };
            table.insert([u8::try_from(n).unwrap(); 32], Arc::new(view));
        }
        table
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_the_most_views_gives_one_up() {
        let of = |n: &[u8]| n.iter().map(|n| Room::InPlaceOf([*n; 32])).collect();
        let only = |room| vec![room];
        for (views, name, expected) in [
            ("a a a", "b", only(Room::There)),
            // The watches of one user leave a part to others.
            ("a a a a", "b", of(&[0, 1, 2, 3])),
            ("a a a b", "b", of(&[0, 1, 2])),
            // Two each is a fair part.
            ("a a b b", "b", only(Room::None)),
            ("a a b b", "a", only(Room::None)),
            ("a b c d", "e", only(Room::None)),
            // First goes the longest unused of the unwatched views, of the user with
            // the most.
            ("a a9 a3 b1", "c", of(&[2])),
            ("a a b2 b1", "a", only(Room::None)),
            ("a a a b1", "b", of(&[0, 1, 2])),
            ("a a b2 b1", "c", of(&[3])),
            ("a1 b2 c3 d4", "e", of(&[0])),
            ("a1 b2 c3 d4", "d", of(&[3])),
            // Service accounts of one namespace have one part.
            ("s.x s.y s.z b", "b", of(&[0, 1, 2])),
            ("b b s.x s.y", "s.z", only(Room::None)),
        ] {
            let expected: Vec<Room> = expected;
            let room = table(views).room(&user(name), 4);
            assert!(expected.contains(&room), "{views} and {name}: {room:?}");
        }
        assert_eq!(table("").room(&user("a"), 0), Room::None);
        let many = "a5 ".repeat(OF_ONE_USER - 1) + "a2";
        let oldest = u8::try_from(OF_ONE_USER - 1).unwrap();
        assert_eq!(
            table(&many).room(&user("a"), 1_000),
            Room::InPlaceOf([oldest; 32])
        );
        let watched = table(&"a ".repeat(OF_ONE_USER));
        assert_eq!(watched.room(&user("a"), 1_000), Room::None);
    }

    #[tokio::test(start_paused = true)]
    async fn places_that_are_given_back_count_no_more() {
        let mut table = table("a1 a b s.x");
        assert_eq!(table.take_if(|view| view.idle_since.is_some()).len(), 1);
        assert!(table.remove(&[2; 32]).is_some() && table.remove(&[2; 32]).is_none());
        assert_eq!((table.of_users.total(), table.of_users.callers()), (2, 2));
        assert_eq!(table.take_all().len(), 2);
        for ledger in [&table.of_users, &table.of_sharers] {
            assert_eq!((ledger.total(), ledger.callers()), (0, 0));
        }
    }
}
