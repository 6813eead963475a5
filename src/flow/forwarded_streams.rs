//! Forwarded requests that stay open: watches and logs that the cache does not
//! answer, exec, attach, port-forward and proxies.
//!
//! They hold no seats, as in kube-apiserver, where they cost little. Here each
//! costs a stream or a connection upstream, of which there are not endlessly
//! many: about 28,000 ports to one server, and file descriptors. So there is a
//! limit for each user, that one leaves enough for the others, and one for all.

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

/// How many there are, and may be.
pub struct ForwardedStreams {
    state: Mutex<State>,
    metrics: ForwardedMetrics,
}

#[derive(Default)]
struct State {
    /// 0 for no limit, as for each user.
    limit: usize,
    user_limit: usize,
    total: usize,
    /// Only users who have some.
    users: HashMap<String, usize>,
}

/// One of them, as long as it is open.
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

    /// Those that are open stay, whatever the limits.
    pub(super) fn set_limits(&self, flow: &config::Flow) {
        let mut state = self.state.lock();
        state.limit = flow.long_running_limit;
        state.user_limit = flow.user_long_running_limit;
    }

    /// Counts another. `system:masters` has no limit of its own, and neither has
    /// apifront's own user, who is `None`; the limit for all is for them, too.
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
            // Five are open.
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
