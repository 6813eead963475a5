//! All views of the process.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kubernetes_wire::api::{Attributes, GroupVersionResource, Reason, Status, UserInfo};
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior};

use super::budget::Budgets;
use super::follow::{self, Shared};
use super::metrics::{Refusal, ViewsMetrics};
use super::{KnownRights, Reviewer, Versions, View, ViewsSettings};
use crate::authz::{self, Authorizer};

/// The most views of one user: some thirty resources, listed and watched. A
/// user with more loses those that were not used for longest.
const OF_ONE_USER: usize = 64;

/// A view that nobody watches is forgotten when no request used it for this
/// time. The next request asks again about each place.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// The time between two looks for views that nobody uses.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The digest of a user with groups and extra, a resource and a verb.
type Key = [u8; 32];

/// A request for a view.
pub struct Asked<'a> {
    pub user: &'a UserInfo,
    pub gvr: &'a GroupVersionResource,
    /// list or watch.
    pub verb: &'static str,
    pub namespaced: bool,
    pub reviewer: Arc<Authorizer>,
    pub versions: Arc<dyn Versions>,
}

pub struct Views {
    views: Mutex<HashMap<Key, Arc<View>>>,
    rights: KnownRights,
    shared: Arc<Shared>,
}

impl Views {
    pub fn new(rights: KnownRights, metrics: ViewsMetrics) -> Self {
        let none = ViewsSettings {
            review_ttl: Duration::ZERO,
            outage: Duration::ZERO,
            max_views: 0,
            max_grants: 0,
            max_names: 0,
        };
        Self {
            views: Mutex::default(),
            rights,
            shared: Arc::new(Shared {
                settings: ArcSwap::from_pointee(none),
                metrics,
                budgets: Budgets::default(),
            }),
        }
    }

    pub fn metrics(&self) -> &ViewsMetrics {
        &self.shared.metrics
    }

    /// Puts settings in force. If they are others, or if there are to be no
    /// views any more, all views end.
    pub fn reload(&self, settings: Option<ViewsSettings>) {
        let before = **self.shared.settings.load();
        let fresh = settings.unwrap_or(ViewsSettings {
            max_views: 0,
            ..before
        });
        if before != fresh {
            self.shared.settings.store(Arc::new(fresh));
            self.forget();
        }
    }

    /// Ends all views: the configuration or upstream is another now.
    pub fn forget(&self) {
        for view in std::mem::take(&mut *self.views.lock()).into_values() {
            view.end();
        }
    }

    /// Tells whether RBAC in memory lets the user read anything of a resource
    /// that is not allowed in the whole cluster. It is a hint, for which no
    /// resource need be in memory.
    pub fn may_hold(&self, user: &UserInfo, verb: &str, gvr: &GroupVersionResource) -> bool {
        let rights = self.rights.borrow().clone();
        rights.is_some_and(|rights| rights.has_places(user, verb, gvr))
    }

    /// Waits until RBAC in memory is known, for at most this time.
    pub async fn known_within(&self, within: Duration) -> bool {
        let mut rights = self.rights.clone();
        let known = rights.wait_for(Option::is_some);
        matches!(tokio::time::timeout(within, known).await, Ok(Ok(_)))
    }

    /// Returns the view of a user, which is perhaps not known yet.
    pub fn view(&self, asked: &Asked<'_>) -> Result<Arc<View>, (Status, Refusal)> {
        let key = key(asked);
        let mut views = self.views.lock();
        if let Some(view) = views.get(&key) {
            return Ok(view.clone());
        }
        self.make_room(&mut views, asked.user)?;
        let what = (asked.gvr.clone(), asked.verb, asked.namespaced);
        let (reviewer, versions) = (asked.reviewer.clone(), asked.versions.clone());
        let view = View::new(
            asked.user.clone(),
            what,
            reviewer as Arc<dyn Reviewer>,
            versions,
            Instant::now(),
        );
        let view = Arc::new(view);
        views.insert(key, view.clone());
        let follow = follow::follow(view.clone(), self.rights.clone(), self.shared.clone());
        tokio::spawn(follow);
        Ok(view)
    }

    /// Makes room for one more view of a user, and ends another if there is none.
    fn make_room(
        &self,
        views: &mut HashMap<Key, Arc<View>>,
        user: &UserInfo,
    ) -> Result<(), (Status, Refusal)> {
        let max = self.shared.settings.load().max_views;
        let held = views.iter().map(|(key, view)| Held {
            key: *key,
            user: &view.user.name,
            sharer: view.user.sharer(),
            idle_since: view.idle_since(),
        });
        match room(held.collect(), user, max) {
            Room::There => return Ok(()),
            Room::InPlaceOf(key) => {
                if let Some(view) = views.remove(&key) {
                    view.end();
                }
                return Ok(());
            }
            Room::None => {}
        }
        let why = "too many views are watched, please try again later";
        let status = Status::failure(429, Reason::TooManyRequests, why.to_owned());
        Err((status.with_retry_after(1), Refusal::TooManyViews))
    }

    /// Forgets views that nobody uses, and counts the others, forever.
    pub async fn run(&self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            let mut views = self.views.lock();
            views.retain(|_, view| {
                let idle = view.idle_since();
                let is_used = idle.is_none_or(|since| now.saturating_duration_since(since) < IDLE);
                if !is_used {
                    view.end();
                }
                is_used
            });
            self.shared.budgets.forget_unused(now);
            let watched = views.values().filter(|view| view.is_watched()).count();
            self.shared.metrics.counted(views.len(), watched);
        }
    }
}

/// A view that takes a place.
struct Held<'a> {
    key: Key,
    user: &'a str,
    sharer: &'a str,
    /// The last use by a request, if nobody watches.
    idle_since: Option<Instant>,
}

/// Where one more view has a place.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    There,
    InPlaceOf(Key),
    None,
}

/// Finds a place for one more view of the user. When there is none, the one with the most
/// views gives one up: a view that nobody watches if that one has more than this user,
/// and one that is watched if that one would still have as many. Else the user gives up
/// one that nobody watches.
fn room(held: Vec<Held<'_>>, user: &UserInfo, max: usize) -> Room {
    let own: Vec<_> = held.iter().filter(|one| one.user == user.name).collect();
    if own.len() >= OF_ONE_USER {
        return longest_idle(&own).map_or(Room::None, |(_, key)| Room::InPlaceOf(key));
    }
    if held.len() < max {
        return Room::There;
    }
    let mut of_each: HashMap<&str, Vec<&Held<'_>>> = HashMap::new();
    for one in &held {
        of_each.entry(one.sharer).or_default().push(one);
    }
    let own = of_each.remove(user.sharer()).unwrap_or_default();
    let more = of_each.values().filter(|of_one| of_one.len() > own.len());
    let idle = more.clone().filter_map(|of_one| {
        let (since, key) = longest_idle(of_one)?;
        Some((Reverse(of_one.len()), since, key))
    });
    if let Some((_, _, key)) = idle.min() {
        return Room::InPlaceOf(key);
    }
    let would_have = own.len().saturating_add(1);
    let most = more.max_by_key(|of_one| of_one.len());
    let most = most.filter(|of_one| of_one.len() > would_have);
    if let Some(one) = most.and_then(|of_one| of_one.first()) {
        return Room::InPlaceOf(one.key);
    }
    longest_idle(&own).map_or(Room::None, |(_, key)| Room::InPlaceOf(key))
}

/// Returns the view that nobody watches and that was not used for longest, and since when.
fn longest_idle(held: &[&Held<'_>]) -> Option<(Instant, Key)> {
    let idle = held
        .iter()
        .filter_map(|one| Some((one.idle_since?, one.key)));
    idle.min()
}

fn key(asked: &Asked<'_>) -> Key {
    let attributes = Attributes::Resource {
        verb: asked.verb.to_owned(),
        gvr: asked.gvr.clone(),
        namespace: String::new(),
        name: String::new(),
        subresource: String::new(),
        field_selector: String::new(),
        label_selector: String::new(),
    };
    authz::key(asked.user, &attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Views by user: `a` is watched, and `a3` idle since the third second.
    fn place(views: &str, user: &str, max: usize) -> Room {
        let began = Instant::now();
        let parsed: Vec<(&str, Option<u64>)> = views
            .split_whitespace()
            .map(|view| {
                let end = view.find(|c: char| c.is_ascii_digit());
                let (user, idle) = view.split_at(end.unwrap_or(view.len()));
                (user, idle.parse().ok())
            })
            .collect();
        let user = UserInfo {
            name: user.to_owned(),
            ..UserInfo::default()
        };
        let held = parsed.iter().enumerate().map(|(n, (name, idle))| Held {
            key: [u8::try_from(n).unwrap(); 32],
            user: name,
            sharer: name.split('.').next().unwrap(),
            idle_since: idle.map(|seconds| began + std::time::Duration::from_secs(seconds)),
        });
        room(held.collect(), &user, max)
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_the_most_views_gives_one_up() {
        let of = |n: u8| Room::InPlaceOf([n; 32]);
        for (views, user, expected) in [
            ("a a a", "b", Room::There),
            // The watches of one user leave others a part.
            ("a a a a", "b", of(0)),
            ("a a a b", "b", of(0)),
            // Two each is a fair part.
            ("a a b b", "b", Room::None),
            ("a a b b", "a", Room::None),
            ("a b c d", "e", Room::None),
            // What nobody watches goes first, the longest unused, of who has most.
            ("a a9 a3 b1", "c", of(2)),
            ("a a b2 b1", "a", Room::None),
            ("a a a b1", "b", of(0)),
            ("a a b2 b1", "c", of(3)),
            ("a1 b2 c3 d4", "e", of(0)),
            ("a1 b2 c3 d4", "d", of(3)),
            // Accounts that share have one part.
            ("s.x s.y s.z b", "b", of(0)),
            ("b b s.x s.y", "s.z", Room::None),
        ] {
            let user = match user {
                "s.z" => "s",
                user => user,
            };
            assert_eq!(place(views, user, 4), expected, "{views} and one of {user}");
        }
        let many = "a5 ".repeat(OF_ONE_USER - 1) + "a2";
        let oldest = u8::try_from(OF_ONE_USER - 1).unwrap();
        assert_eq!(place(&many, "a", 1_000), of(oldest));
        assert_eq!(place(&"a ".repeat(OF_ONE_USER), "a", 1_000), Room::None);
    }
}
