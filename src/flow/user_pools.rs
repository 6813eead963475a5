//! A pool of seats for each user who has requests or answers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::pool::Pool;
use crate::metrics::PoolMetrics;

pub struct UserPools {
    state: Mutex<State>,
    metrics: PoolMetrics,
}

#[derive(Default)]
struct State {
    /// The seats of each user. 0 means no limit, and then no pools are kept.
    limit: usize,
    pools: HashMap<String, Arc<Pool>>,
}

impl UserPools {
    pub fn new(metrics: PoolMetrics) -> Self {
        Self {
            state: Mutex::default(),
            metrics,
        }
    }

    pub fn set_limit(&self, limit: usize) {
        let mut state = self.state.lock();
        state.limit = limit;
        for pool in state.pools.values() {
            pool.set_limit(limit);
        }
        if limit == 0 {
            state.pools.clear();
        }
    }

    /// Returns the user's pool, or `None` when there is no limit.
    pub fn pool(&self, name: &str) -> Option<Arc<Pool>> {
        let mut state = self.state.lock();
        if state.limit == 0 {
            return None;
        }
        if let Some(pool) = state.pools.get(name) {
            return Some(pool.clone());
        }
        let pool = Pool::new(state.limit, self.metrics.clone());
        state.pools.insert(name.to_owned(), pool.clone());
        Some(pool)
    }

    /// Forgets users without requests; returns the number of executing
    /// requests.
    pub fn sweep(&self) -> usize {
        let mut state = self.state.lock();
        let mut executing: usize = 0;
        state.pools.retain(|_, pool| {
            executing = executing.saturating_add(pool.executing().0);
            // A caller that holds the pool may be about to take a seat.
            Arc::strong_count(pool) > 1 || !pool.is_idle()
        });
        executing
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;
    use crate::metrics::FlowMetrics;

    #[test]
    fn users_without_requests_are_forgotten() {
        let metrics = FlowMetrics::register(&Registry::new()).unwrap();
        let users = UserPools::new(metrics.pool("user"));
        assert!(users.pool("a").is_none());
        users.set_limit(1);
        let seat = users.pool("a").unwrap().try_seats(1).unwrap();
        assert!(users.pool("a").unwrap().try_seats(1).is_none());
        assert!(users.pool("b").unwrap().try_seats(1).is_some());
        assert_eq!(users.sweep(), 1);
        assert_eq!(users.state.lock().pools.len(), 1);
        users.set_limit(2);
        assert!(users.pool("a").unwrap().try_seats(1).is_some());
        drop(seat);
        assert_eq!(users.sweep(), 0);
        assert!(users.state.lock().pools.is_empty());
    }
}
