//! Gives levels new limits every ten seconds, so that they can use seats that
//! others do not need (`updateBorrowingLocked` of k8s.io/apiserver
//! `util/flowcontrol/apf_controller.go`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::allocation::{Wish, allocate};
use crate::controller::LevelState;
use crate::queue_set::config::Dispatching;

pub(crate) const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);

/// How the seats are divided among the levels that are not exempt.
enum Division {
    /// Each level has its lower limit: exempt requests have taken all the rest.
    Lower,
    /// Each level has this fraction of the way from its lower limit to its own
    /// floor.
    Between(f64),
    /// Seats by demand, in the order of the levels.
    Fair(Vec<f64>),
    /// Each level keeps its limit.
    Unchanged,
}

/// Gives each level a new limit. `nominal_sum` is the sum of the nominal limits.
/// Returns the fraction of its target that a level gets unless its bounds prevent
/// it.
pub(crate) fn adjust(
    levels: &mut BTreeMap<String, LevelState>,
    nominal_sum: usize,
    total_seats: usize,
) -> f64 {
    let mut wishes = Vec::new();
    let (mut lower_sum, mut floor_sum, mut exempt_sum) = (0_usize, 0_usize, 0_usize);
    for state in levels.values_mut() {
        let seen = state.level.change(|set, now| {
            set.advance(now);
            set.take_demand(now)
        });
        state.demand.update(seen);
        let floor = state.floor();
        if state.level.is_exempt() {
            exempt_sum = exempt_sum.saturating_add(floor);
            continue;
        }
        let wish = Wish {
            target: state.demand.smoothed.max(floor as f64),
            lower: floor as f64,
            upper: state.limits.upper as f64,
        };
        state.target = Some(wish.target);
        wishes.push(wish);
        lower_sum = lower_sum.saturating_add(state.limits.lower);
        floor_sum = floor_sum.saturating_add(floor);
    }
    let remaining = nominal_sum.saturating_sub(exempt_sum);
    let (division, fair_fraction) = if remaining <= lower_sum {
        (Division::Lower, 0.0)
    } else if remaining <= floor_sum {
        let part = remaining.saturating_sub(lower_sum) as f64;
        let whole = floor_sum.saturating_sub(lower_sum) as f64;
        (Division::Between(part / whole), 0.0)
    } else {
        // Like kube-apiserver, this divides the nominal seats, not the remaining
        // ones.
        match allocate(nominal_sum, &wishes) {
            Ok(found) => (Division::Fair(found.seats), found.fair_fraction),
            Err(error) => {
                tracing::error!("no new concurrency limits: {error}");
                (Division::Unchanged, 0.0)
            }
        }
    };
    let mut index = 0_usize;
    for state in levels.values_mut() {
        state.current = if state.level.is_exempt() {
            state.floor()
        } else {
            let seats = state.share(&division, index);
            index = index.saturating_add(1);
            seats
        };
        state.put_in_force(total_seats);
    }
    fair_fraction
}

impl LevelState {
    /// Returns the fewest seats that the level gets: the most that it used in the
    /// last period, but at least its lower limit. An exempt level may have used
    /// more than its nominal limit; for other levels no more than that limit
    /// counts.
    fn floor(&self) -> usize {
        let had = self.demand.high_watermark;
        let had = match self.level.is_exempt() {
            true => had,
            false => had.min(self.limits.nominal),
        };
        had.max(self.limits.lower)
    }

    fn share(&self, division: &Division, index: usize) -> usize {
        let lower = self.limits.lower;
        match division {
            Division::Lower => lower,
            Division::Between(part) => {
                let way = self.floor().saturating_sub(lower) as f64;
                lower.saturating_add((way * part).round() as usize)
            }
            Division::Fair(seats) => seats
                .get(index)
                .map_or(self.current, |seats| seats.round() as usize),
            Division::Unchanged => self.current,
        }
    }

    fn put_in_force(&self, total_seats: usize) {
        let denominator = match self.current {
            0 => ((total_seats as f64 / 10.0).round() as usize).max(1),
            current => current,
        };
        let dispatching = Dispatching {
            limit: self.current,
            denominator,
        };
        let queuing = self.queuing;
        self.level
            .change(|set, now| set.configure(now, queuing, dispatching));
    }
}
