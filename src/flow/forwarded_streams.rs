//! Forwarded requests that stay open: watches and logs that the cache does not
//! answer, exec, attach, port-forward and proxies.
//!
//! These requests hold no seats, as in kube-apiserver, where they cost little.
//! Here each costs a stream or a connection upstream, and both are scarce:
//! there are about 28,000 ports to one server, and a limit on file descriptors.
//! Therefore each user has a limit, which leaves enough for other users, and
//! all users together have one.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes_wire::api::user::{MASTERS, UserInfo};
use parking_lot::Mutex;

use crate::config;
use crate::metrics::ForwardedMetrics;

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

/// The number of open forwarded requests, and its limits.
pub struct ForwardedStreams {
    state: Mutex<State>,
    metrics: ForwardedMetrics,
}

#[derive(Default)]
struct State {
    /// The limit for all users; 0 means no limit, here and in `user_limit`.
    limit: usize,
    user_limit: usize,
    total: usize,
    /// The open requests of each user. Users without open requests are left
    /// out.
    users: HashMap<String, usize>,
}

/// An open forwarded request. The request is counted until this is dropped.
pub struct OpenForwarded {
    forwarded: Arc<ForwardedStreams>,
    user: Option<String>,
}

impl Drop for OpenForwarded {
    fn drop(&mut self) {
        let mut state = self.forwarded.state.lock();
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
        self.forwarded.metrics.open.dec();
    }
}

impl ForwardedStreams {
    pub(super) fn new(metrics: ForwardedMetrics) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            metrics,
        })
    }

    /// Sets the limits. Open requests stay, even above the new limits.
    pub(super) fn set_limits(&self, flow: &config::Flow) {
        let mut state = self.state.lock();
        state.limit = flow.long_running_limit;
        state.user_limit = flow.user_long_running_limit;
    }

    /// Counts another request. `system:masters` and apifront's own user, who is
    /// `None`, have no limit per user; the limit for all users applies to them,
    /// too.
    pub fn open(self: &Arc<Self>, user: Option<&UserInfo>) -> Result<OpenForwarded, Exceeded> {
        let user = user.filter(|user| !user.groups.iter().any(|g| g == MASTERS));
        let opened = self.state.lock().open(user);
        match opened {
            Ok(()) => {
                self.metrics.open.inc();
                Ok(OpenForwarded {
                    forwarded: self.clone(),
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
    fn open(&mut self, user: Option<&UserInfo>) -> Result<(), Exceeded> {
        let is_full = |limit: usize, open: usize| limit > 0 && open >= limit;
        let own = user.and_then(|user| self.users.get(&user.name)).copied();
        if user.is_some() && is_full(self.user_limit, own.unwrap_or_default()) {
            return Err(Exceeded::User);
        }
        if is_full(self.limit, self.total) {
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

    fn forwarded(limit: usize, user_limit: usize) -> Arc<ForwardedStreams> {
        let metrics = ForwardedMetrics::register(&Registry::new()).unwrap();
        let forwarded = ForwardedStreams::new(metrics);
        forwarded.set_limits(&config::Flow {
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
        let mut open = Vec::new();
        for (user, expected) in [
            (Some(&a), None),
            (Some(&a), None),
            (Some(&a), Some(Exceeded::User)),
            (Some(&admin), None),
            (Some(&admin), None),
            (Some(&b), None),
            // Five requests are open.
            (Some(&b), Some(Exceeded::Total)),
            (Some(&admin), Some(Exceeded::Total)),
            (None, Some(Exceeded::Total)),
        ] {
            match forwarded.open(user) {
                Ok(opened) => {
                    assert_eq!(expected, None);
                    open.push(opened);
                }
                Err(exceeded) => assert_eq!(Some(exceeded), expected),
            }
        }
        open.remove(0);
        assert!(forwarded.open(Some(&a)).is_ok());
        open.clear();
        let state = forwarded.state.lock();
        assert_eq!((state.total, state.users.len()), (0, 0));
    }

    #[test]
    fn zero_is_no_limit() {
        let forwarded = forwarded(0, 0);
        let a = user("a", "people");
        let open: Vec<_> = (0..100).map(|_| forwarded.open(Some(&a))).collect();
        assert!(open.iter().all(Result::is_ok));
    }
}
