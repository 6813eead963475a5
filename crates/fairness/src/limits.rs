//! The limits that the configuration gives a level. The limit in force lies between
//! them and depends on demand (`borrowing.rs`).

use crate::objects::PriorityLevelSpec;

/// The largest part of a level's nominal limit that an estimator may give to one
/// request.
const MOST_OF_LEVEL: f64 = 0.15;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub nominal: usize,
    /// The seats that remain if the level lends all that it may.
    pub lower: usize,
    /// The seats that the level has if it borrows all that it may.
    pub upper: usize,
}

impl Limits {
    /// Returns the limits of a level of a server with `total_seats`, whose levels
    /// have `all_shares` together. Nominal limits are rounded up, so their sum may
    /// exceed the seats.
    pub(crate) fn for_level(spec: &PriorityLevelSpec, total_seats: usize, all_shares: f64) -> Self {
        let shares = f64::from(spec.shares());
        let nominal = match all_shares > 0.0 {
            true => (total_seats as f64 * shares / all_shares).ceil() as usize,
            false => 0,
        };
        let part = |percent: i32| (nominal as f64 * f64::from(percent) / 100.0).round() as usize;
        let may_borrow = spec.borrowing_limit_percent().map_or(total_seats, part);
        Self {
            nominal,
            lower: nominal.saturating_sub(part(spec.lendable_percent())),
            upper: nominal.saturating_add(may_borrow),
        }
    }

    /// Returns the most seats of one request, for a level whose flows have
    /// `hand_size` queues each.
    pub(crate) fn max_seats(self, hand_size: usize) -> u64 {
        let part = (self.nominal as f64 * MOST_OF_LEVEL).ceil() as usize;
        let of_a_queue = self.nominal.checked_div(hand_size).unwrap_or(0);
        part.min(of_a_queue).max(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Objects;

    /// A kube-apiserver with 600 seats publishes these limits for its own objects.
    #[test]
    fn limits_of_the_default_objects() {
        let objects = Objects::defaults();
        let levels = &objects.priority_levels;
        let all: f64 = levels.iter().map(|l| f64::from(l.spec.shares())).sum();
        let found: Vec<(&str, Limits)> = levels
            .iter()
            .map(|l| {
                (
                    l.metadata.name.as_str(),
                    Limits::for_level(&l.spec, 600, all),
                )
            })
            .collect();
        let expected = [
            ("system", 74, 50, 674),
            ("node-high", 98, 73, 698),
            ("leader-election", 25, 25, 625),
            ("workload-high", 98, 49, 698),
            ("workload-low", 245, 24, 845),
            ("global-default", 49, 24, 649),
            ("exempt", 0, 0, 600),
            ("catch-all", 13, 13, 613),
        ]
        .map(|(name, nominal, lower, upper)| {
            let limits = Limits {
                nominal,
                lower,
                upper,
            };
            (name, limits)
        });
        assert_eq!(found, expected);
    }
}
