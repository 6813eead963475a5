//! The bounds of forwarded requests, of all users and of each.
//!
//! A request that was handed to an API server holds no seats here: the server
//! queues and counts it. It still costs memory, and a stream or a connection
//! upstream. If the server is slow, or the request stays open for hours, many of
//! them come together. Therefore they have places: requests that upstream has
//! not answered, and those that stay open (watches and logs that the cache does
//! not answer, exec, attach, port-forward and proxies). There are about 28,000
//! ports to one server, and a limit on file descriptors.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes_wire::api::user::{MASTERS, UserInfo};
use parking_lot::Mutex;

use crate::config;
use crate::metrics::{ForwardedMetrics, PlaceMetrics};

/// The limit that a request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    User,
    Total,
}

impl Exceeded {
    fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Total => "total",
        }
    }
}

/// The forwarded requests of this process.
pub struct Forwarded {
    /// Requests that upstream has not answered yet.
    pub in_flight: Arc<Places>,
    /// Requests that stay open.
    pub long_running: Arc<Places>,
}

impl Forwarded {
    pub(super) fn new(metrics: ForwardedMetrics) -> Self {
        Self {
            in_flight: Places::new(true, metrics.in_flight),
            long_running: Places::new(false, metrics.long_running),
        }
    }

    /// Sets the limits. Requests keep their places, even above the new limits.
    pub(super) fn set_limits(&self, flow: &config::Flow) {
        self.in_flight
            .set_limits(flow.forwarded_limit, flow.user_forwarded_limit);
        self.long_running
            .set_limits(flow.long_running_limit, flow.user_long_running_limit);
    }
}

/// Places for requests, and their limits.
#[derive(Debug)]
pub struct Places {
    /// Whether `system:masters` and apifront's own user find a place even if
    /// all are taken, so that an administrator can always look.
    spares_masters: bool,
    state: Mutex<State>,
    metrics: PlaceMetrics,
}

#[derive(Debug, Default)]
struct State {
    /// The limit for all users; 0 means no limit, here and in `user_limit`.
    limit: usize,
    user_limit: usize,
    total: usize,
    /// The places of each user. Users without places are left out.
    users: HashMap<String, usize>,
}

/// The place of a forwarded request. It is taken until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    user: Option<String>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        state.total = state.total.saturating_sub(1);
        if let Some(user) = &self.user
            && let Some(open) = state.users.get_mut(user)
        {
            *open = open.saturating_sub(1);
            if *open == 0 {
                state.users.remove(user);
            }
        }
        drop(state);
        self.places.metrics.taken.dec();
    }
}

impl Places {
    fn new(spares_masters: bool, metrics: PlaceMetrics) -> Arc<Self> {
        Arc::new(Self {
            spares_masters,
            state: Mutex::default(),
            metrics,
        })
    }

    fn set_limits(&self, limit: usize, user_limit: usize) {
        let mut state = self.state.lock();
        state.limit = limit;
        state.user_limit = user_limit;
    }

    /// Takes a place. `system:masters` and apifront's own user, who is `None`,
    /// have no limit per user.
    pub fn take(self: &Arc<Self>, user: Option<&UserInfo>) -> Result<Place, Exceeded> {
        let user = user.filter(|user| !user.groups.iter().any(|g| g == MASTERS));
        let spared = user.is_none() && self.spares_masters;
        let taken = self.state.lock().take(user, spared);
        match taken {
            Ok(()) => {
                self.metrics.taken.inc();
                Ok(Place {
                    places: self.clone(),
                    user: user.map(|user| user.name.clone()),
                })
            }
            Err(exceeded) => {
                self.metrics.rejected(exceeded.as_str());
                Err(exceeded)
            }
        }
    }
}

impl State {
    fn take(&mut self, user: Option<&UserInfo>, spared: bool) -> Result<(), Exceeded> {
        let is_full = |limit: usize, taken: usize| limit > 0 && taken >= limit;
        let own = user.and_then(|user| self.users.get(&user.name)).copied();
        if user.is_some() && is_full(self.user_limit, own.unwrap_or_default()) {
            return Err(Exceeded::User);
        }
        if !spared && is_full(self.limit, self.total) {
            return Err(Exceeded::Total);
        }
        self.total = self.total.saturating_add(1);
        if let Some(user) = user {
            let own = own.unwrap_or_default().saturating_add(1);
            self.users.insert(user.name.clone(), own);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    fn forwarded(limit: usize, user_limit: usize) -> Forwarded {
        let metrics = ForwardedMetrics::register(&Registry::new()).unwrap();
        let forwarded = Forwarded::new(metrics);
        forwarded.set_limits(&config::Flow {
            forwarded_limit: limit,
            user_forwarded_limit: user_limit,
            long_running_limit: limit,
            user_long_running_limit: user_limit,
            ..config::Flow::default()
        });
        forwarded
    }

    fn user(name: &str, group: &str) -> UserInfo {
        UserInfo {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..UserInfo::default()
        }
    }

    #[test]
    fn one_user_leaves_enough_for_the_others() {
        let forwarded = forwarded(5, 2);
        let (a, b, admin) = (
            user("a", "people"),
            user("b", "people"),
            user("root", MASTERS),
        );
        for (places, spares_masters) in [
            (&forwarded.long_running, false),
            (&forwarded.in_flight, true),
        ] {
            let full = Some(Exceeded::Total).filter(|_| !spares_masters);
            let mut open = Vec::new();
            for (user, expected) in [
                (Some(&a), None),
                (Some(&a), None),
                (Some(&a), Some(Exceeded::User)),
                (Some(&admin), None),
                (Some(&admin), None),
                (Some(&b), None),
                // Five places are taken.
                (Some(&b), Some(Exceeded::Total)),
                (Some(&admin), full),
                (None, full),
            ] {
                match places.take(user) {
                    Ok(opened) => {
                        assert_eq!(expected, None);
                        open.push(opened);
                    }
                    Err(exceeded) => assert_eq!(Some(exceeded), expected),
                }
            }
            open.drain(3..);
            open.remove(0);
            assert!(places.take(Some(&a)).is_ok());
            open.clear();
            assert_eq!(places.metrics.taken.get(), 0);
            assert!(places.state.lock().users.is_empty());
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let forwarded = forwarded(0, 0);
        let a = user("a", "people");
        let all = (0..100).map(|_| forwarded.in_flight.take(Some(&a)));
        assert!(all.collect::<Vec<_>>().iter().all(Result::is_ok));
    }
}
