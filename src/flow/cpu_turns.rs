//! Turns for work that keeps a core busy.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::Rejected;
use super::pool::{Pool, QueuePolicy, Seat};
use super::user_pools::UserPools;
use crate::metrics::FlowMetrics;

/// The longest wait for a turn, kube-apiserver's `--request-timeout`.
const WAIT: Duration = Duration::from_secs(60);
const POLICY: QueuePolicy = QueuePolicy {
    // No more work waits than requests are in flight.
    queue_length: usize::MAX,
    wait: WAIT,
};

/// One user has a turn less at a time than there are cores, so that one core is
/// left for small requests. All users together have twice as many turns as
/// there are cores. So the first work of a user begins while another user's
/// goes on, and the cores are shared between both.
pub struct CpuTurns {
    users: UserPools,
    all: Arc<Pool>,
}

/// A turn. Dropping it ends it.
#[derive(Debug)]
#[must_use]
pub struct CpuTurn {
    _own: Option<Seat>,
    _all: Seat,
}

impl CpuTurns {
    pub fn new(metrics: &FlowMetrics) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let users = UserPools::new(metrics.pool("processor"));
        users.set_limit(cores.saturating_sub(1).max(1));
        Self {
            users,
            all: Pool::new(cores.saturating_mul(2), metrics.pool("processor")),
        }
    }

    /// Waits for a turn. Turns go round among the users who want one.
    /// Cancel-safe.
    pub async fn turn(&self, user: &str) -> Result<CpuTurn, Rejected> {
        let own = match self.users.pool(user) {
            Some(pool) => Some(pool.seat(user, POLICY).await?),
            None => None,
        };
        let all = self.all.seat(user, POLICY).await?;
        Ok(CpuTurn {
            _own: own,
            _all: all,
        })
    }

    /// Forgets users without work; returns how many turns there are.
    pub fn sweep(&self) -> usize {
        self.users.sweep();
        self.all.executing().0
    }
}
