//! The limits of forwarded requests, for all users together and for each.
//!
//! A request that was handed to an API server holds no seats here: that server
//! queues and counts it. But it still costs memory, and a stream or a connection to
//! upstream. Many such requests come together if the server is slow or they stay
//! open for hours. So there are slots for requests that upstream has not answered,
//! and others for requests that stay open: watches and logs that the cache does not
//! answer, exec, attach, port-forward and proxies. There are only about 28,000 ports
//! to one server, and file descriptors are limited.

use std::sync::Arc;

use apifront_shares::{Exceeded, Limits, Share, Shares};
use kubernetes_wire::api::UserInfo;
use prometheus::IntGauge;

use super::settings::FlowSettings;
use crate::metrics::{ForwardSlotMetrics, ForwardedMetrics};

pub struct Forwarded {
    /// Requests that upstream has not answered yet.
    pub in_flight: ForwardSlots,
    /// Requests that stay open.
    pub long_running: ForwardSlots,
}

impl Forwarded {
    pub(super) fn new(metrics: ForwardedMetrics) -> Self {
        Self {
            in_flight: ForwardSlots::new(true, metrics.in_flight),
            long_running: ForwardSlots::new(false, metrics.long_running),
        }
    }

    /// Sets the limits. Requests keep their slots, even above new limits.
    pub(super) fn set_limits(&self, settings: &FlowSettings) {
        self.in_flight
            .set_limits(settings.forwarded_limit, settings.user_forwarded_limit);
        self.long_running.set_limits(
            settings.long_running_limit,
            settings.user_long_running_limit,
        );
    }
}

#[derive(Debug)]
pub struct ForwardSlots {
    /// Whether `system:masters` and apifront's own user get a slot even if all are
    /// taken, so that an administrator always gets in.
    spares_masters: bool,
    taken: Shares<Arc<str>>,
    metrics: ForwardSlotMetrics,
}

/// The slot of a forwarded request. It is free again when this is dropped.
#[derive(Debug)]
pub struct ForwardSlot {
    _share: Share<Arc<str>>,
    taken: IntGauge,
}

impl Drop for ForwardSlot {
    fn drop(&mut self) {
        self.taken.dec();
    }
}

impl ForwardSlots {
    fn new(spares_masters: bool, metrics: ForwardSlotMetrics) -> Self {
        Self {
            spares_masters,
            taken: Shares::new(Limits::fixed(0, 0)),
            metrics,
        }
    }

    /// Sets the limits for all users and for each. 0 means no limit.
    fn set_limits(&self, limit: usize, user_limit: usize) {
        self.taken.set_limits(Limits::fixed(limit, user_limit));
    }

    /// Takes a slot. The limit for each user does not apply to `system:masters` and
    /// to apifront's own user, which is `None`.
    pub fn take(&self, user: Option<&UserInfo>) -> Result<ForwardSlot, Exceeded> {
        let user = user.filter(|user| !user.is_master());
        let caller = user.map(|user| Arc::from(user.name.as_str()));
        let taken = match caller.is_none() && self.spares_masters {
            true => Ok(self.taken.take_anyway(caller, 1)),
            false => self.taken.take(caller, 1),
        };
        match taken {
            Ok(share) => {
                self.metrics.taken.inc();
                Ok(ForwardSlot {
                    _share: share,
                    taken: self.metrics.taken.clone(),
                })
            }
            Err(exceeded) => {
                self.metrics.rejected(exceeded);
                Err(exceeded)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kubernetes_wire::api::user::MASTERS;
    use prometheus::Registry;

    use super::*;
    use crate::flow::InFlightLimits;

    fn forwarded(limit: usize, user_limit: usize) -> Forwarded {
        let metrics = ForwardedMetrics::register(&Registry::new()).unwrap();
        let forwarded = Forwarded::new(metrics);
        forwarded.set_limits(&FlowSettings {
            enable_priority_and_fairness: true,
            in_flight: InFlightLimits {
                read_only: 0,
                mutating: 0,
            },
            queue_wait: Duration::ZERO,
            forwarded_limit: limit,
            user_forwarded_limit: user_limit,
            long_running_limit: limit,
            user_long_running_limit: user_limit,
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
        for (slots, spares_masters) in [
            (&forwarded.long_running, false),
            (&forwarded.in_flight, true),
        ] {
            let full = Some(Exceeded::Total).filter(|_| !spares_masters);
            let mut open = Vec::new();
            for (user, expected) in [
                (Some(&a), None),
                (Some(&a), None),
                (Some(&a), Some(Exceeded::OfOne)),
                (Some(&admin), None),
                (Some(&admin), None),
                (Some(&b), None),
                (Some(&b), Some(Exceeded::Total)),
                (Some(&admin), full),
                (None, full),
            ] {
                match slots.take(user) {
                    Ok(opened) => {
                        assert_eq!(expected, None);
                        open.push(opened);
                    }
                    Err(exceeded) => assert_eq!(Some(exceeded), expected),
                }
            }
            open.drain(3..);
            open.remove(0);
            assert!(slots.take(Some(&a)).is_ok());
            open.clear();
            assert_eq!(slots.metrics.taken.get(), 0);
            assert_eq!((slots.taken.held(), slots.taken.callers()), (0, 0));
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
