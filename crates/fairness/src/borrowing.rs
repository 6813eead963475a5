//! Lets levels use seats that others do not need, by new limits every ten
//! seconds (`updateBorrowingLocked` of k8s.io/apiserver
//! `util/flowcontrol/apf_controller.go`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::allocation::{Wish, allocate};
use crate::controller::LevelState;
use crate::queue_set::config::Dispatching;

pub(crate) const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);

/// The seats that levels without an exemption share, and how they do.
enum Division {
    /// Each has its lower limit: exempt requests have taken all the rest.
    Lower,
    /// Each has its lower limit and this part of the way to its own floor.
    Between(f64),
    /// By demand, in the order of the levels.
    Fair(Vec<f64>),
    /// As before.
    Unchanged,
}

/// Gives each level a new limit. `nominal_sum` is the sum of the nominal limits.
/// Returns the fraction of its target that a level gets if its bounds allow.
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
        // kube-apiserver divides the nominal seats here, too, not the remaining
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
    /// Returns what the level had at most, and not more than its nominal limit,
    /// unless it is exempt. It does not get less than that, nor than its lower
    /// limit.
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
