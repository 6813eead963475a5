//! Limits the watches of APIServices. Each of them has a store and a task of its
//! own, which take some hundred kilobytes.

use std::future::ready;
use std::sync::Arc;

use apifront_shares::{Exceeded, Limits, Share, Shares};
use apifront_upstream::review::SingleFlight;
use futures::FutureExt;
use futures::future::BoxFuture;
use kubernetes_wire::api::{Status, UserInfo};

use crate::aggregation::api_service_objects::Upstreams;

/// The most watches of all users together, and of one user. A cluster has few of
/// them: those of its controllers, and one for each program that shows the cluster
/// on pages.
const LIMITS: Limits = Limits::fixed(512, 64);

pub(in crate::server) type WatchShare = Share<Arc<str>>;

pub(in crate::server) type Listed = Result<Arc<Upstreams>, Box<Status>>;

pub(in crate::server) struct ApiServiceWatches {
    shares: Shares<Arc<str>>,
    lists: SingleFlight<(), Listed>,
}

impl Default for ApiServiceWatches {
    fn default() -> Self {
        Self {
            shares: Shares::new(LIMITS),
            lists: SingleFlight::default(),
        }
    }
}

impl ApiServiceWatches {
    /// Takes a share for a watch. An administrator has no limit, and gets a share
    /// even if all are taken.
    pub(in crate::server) fn take(&self, user: Option<&UserInfo>) -> Result<WatchShare, Exceeded> {
        let user = user.filter(|user| !user.is_master());
        match user {
            Some(user) => self.shares.take(Arc::from(user.sharer()), 1),
            None => Ok(self.shares.take_anyway(None, 1)),
        }
    }

    pub(in crate::server) fn list(
        &self,
        list: BoxFuture<'static, Listed>,
    ) -> BoxFuture<'static, Listed> {
        let at_once = ready(Ok(()));
        self.lists.ask((), at_once, |()| list).boxed()
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::user::MASTERS;

    use super::*;

    #[test]
    fn one_user_leaves_places_for_others() {
        let watches = ApiServiceWatches::default();
        let user = |name: &str, group: &str| UserInfo {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..UserInfo::default()
        };
        let all = |name: &str| {
            let user = user(name, "people");
            let shares = std::iter::repeat_with(|| watches.take(Some(&user)).ok());
            shares.map_while(|share| share).collect::<Vec<_>>()
        };
        let greedy: Vec<_> = (0..7).map(|n| all(&format!("greedy-{n}"))).collect();
        assert!(greedy.iter().all(|shares| shares.len() == 64));
        // All service accounts of a namespace share one part.
        let accounts = all("system:serviceaccount:ns:a");
        assert_eq!(accounts.len(), 64);
        let other = user("system:serviceaccount:ns:b", "people");
        assert_eq!(watches.take(Some(&other)).unwrap_err(), Exceeded::OfOne);
        let late = user("late", "people");
        assert_eq!(watches.take(Some(&late)).unwrap_err(), Exceeded::Total);
        assert!(watches.take(Some(&user("root", MASTERS))).is_ok());
        assert!(watches.take(None).is_ok());
        drop(greedy);
        assert!(watches.take(Some(&late)).is_ok());
    }
}
