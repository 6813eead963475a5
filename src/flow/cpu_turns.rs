//! Turns for work that keeps a core busy.

use std::thread::available_parallelism;
use std::time::Duration;

use super::Rejected;
use super::turns::{Turn, Turns};
use crate::metrics::FlowMetrics;

/// The longest wait for a turn, kube-apiserver's `--request-timeout`.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

/// The turns for that work. At a time, one user has one turn fewer than there are
/// cores, so that a core is left for small requests. All users together have twice
/// as many turns as there are cores. So the first work of a user begins while
/// another user's goes on, and both share the cores.
pub(super) struct CpuTurns(Turns);

/// A turn, which ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct CpuTurn {
    _turn: Turn,
}

impl CpuTurns {
    pub(super) fn new(metrics: &FlowMetrics) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let of_one = cores.saturating_sub(1).max(1);
        // A user needs no limit here: no more work waits than there are requests in
        // flight.
        let waiting_of_one = 0;
        let metrics = metrics.pool("processor");
        Self(Turns::new(
            cores.saturating_mul(2),
            of_one,
            waiting_of_one,
            metrics,
        ))
    }

    /// Waits for a turn. Users who want one take turns. Cancel-safe.
    pub(super) async fn turn(&self, user: &str) -> Result<CpuTurn, Rejected> {
        let turn = self.0.turn(user, 1, TURN_TIMEOUT).await?;
        Ok(CpuTurn { _turn: turn })
    }

    pub(super) fn taken(&self) -> usize {
        self.0.taken()
    }
}
