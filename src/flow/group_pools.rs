//! The pools of groups: each limits the requests of all members together.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes_wire::api::user::UserInfo;
use parking_lot::RwLock;

use super::Rejected;
use super::pool::{Pool, QueuePolicy, Seat};
use crate::metrics::FlowMetrics;

#[derive(Clone)]
struct Group {
    name: String,
    pool: Arc<Pool>,
}

/// The groups that have a limit.
pub(super) struct GroupPools {
    /// The groups, by name.
    groups: RwLock<Arc<[Group]>>,
    metrics: FlowMetrics,
}

impl GroupPools {
    pub(super) fn new(metrics: FlowMetrics) -> Self {
        Self {
            groups: RwLock::new(Arc::from([])),
            metrics,
        }
    }

    /// Sets the limits. A group that has none any more is forgotten.
    pub(super) fn set_limits(&self, limits: &BTreeMap<String, usize>) {
        let mut groups = self.groups.write();
        let known = |name: &str| groups.iter().find(|g| g.name == *name).cloned();
        let fresh = |name: &str| Group {
            name: name.to_owned(),
            pool: Pool::new(0, self.metrics.pool(name)),
        };
        let wanted: Vec<Group> = limits
            .keys()
            .map(|name| known(name).unwrap_or_else(|| fresh(name)))
            .collect();
        for group in groups.iter() {
            if !limits.contains_key(&group.name) {
                group.pool.set_limit(0);
                self.metrics.forget(&group.name);
            }
        }
        for group in &wanted {
            let limit = limits.get(&group.name).copied().unwrap_or_default();
            group.pool.set_limit(limit);
        }
        *groups = wanted.into();
    }

    /// Takes a seat in the pool of each group of the user, in the order of the
    /// groups' names. Cancel-safe.
    pub(super) async fn seats(
        &self,
        user: &UserInfo,
        policy: QueuePolicy,
    ) -> Result<Vec<Seat>, Rejected> {
        let limited = self.groups.read().clone();
        let mut seats = Vec::new();
        for group in limited.iter() {
            if user.groups.contains(&group.name) {
                seats.push(group.pool.seat(&user.name, policy).await?);
            }
        }
        Ok(seats)
    }

    /// Returns the number of requests that execute, for each group.
    pub(super) fn executing(&self) -> Vec<(String, usize)> {
        let groups = self.groups.read();
        let executing = |group: &Group| (group.name.clone(), group.pool.executing().0);
        groups.iter().map(executing).collect()
    }
}
