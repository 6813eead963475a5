//! Divides seats among levels in proportion to what they want, within each
//! level's bounds (k8s.io/apiserver `util/flowcontrol/conc_alloc.go`).

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wish {
    pub target: f64,
    pub lower: f64,
    pub upper: f64,
}

/// The seats of each wish, and the fraction of its target that a wish gets unless a
/// bound prevents it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allocation {
    pub seats: Vec<f64>,
    pub fair_fraction: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Impossible {
    #[error("the bounds of a level contradict each other")]
    Bounds,
    #[error("the lower bounds exceed the seats")]
    TooFewSeats,
    #[error("the upper bounds are below the seats")]
    TooManySeats,
}

/// A smaller target counts as this one, so that nothing is divided by zero.
const LEAST_TARGET: f64 = 0.001;
const EPSILON: f64 = 0.000_000_1;

/// Divides all of `total` among the levels. Each level gets the same fraction of
/// its target, or its bound if the fraction lies beyond it.
pub(crate) fn allocate(total: usize, wishes: &[Wish]) -> Result<Allocation, Impossible> {
    let total = total as f64;
    for wish in wishes {
        if wish.lower < 0.0 || wish.target < wish.lower || wish.upper < wish.lower {
            return Err(Impossible::Bounds);
        }
    }
    let wishes: Vec<Wish> = wishes
        .iter()
        .map(|wish| Wish {
            target: wish.target.max(LEAST_TARGET),
            ..*wish
        })
        .collect();
    let sum = |of: fn(&Wish) -> f64| wishes.iter().map(of).sum::<f64>();
    let (lower, upper) = (sum(|w| w.lower), sum(|w| w.upper));
    // The fractions of the targets at which a bound begins or ends to hold.
    let least = fold(&wishes, lower_fraction, f64::min);
    if lower - total > EPSILON {
        return Err(Impossible::TooFewSeats);
    }
    if total - upper > EPSILON {
        return Err(Impossible::TooManySeats);
    }
    let (seats, fair_fraction) = if total == 0.0 {
        (wishes.iter().map(|_| 0.0).collect(), 0.0)
    } else if lower - total > -EPSILON {
        (wishes.iter().map(|w| w.lower).collect(), least)
    } else if total - upper > -EPSILON {
        let most = fold(&wishes, upper_fraction, f64::max);
        (wishes.iter().map(|w| w.upper).collect(), most)
    } else {
        let fraction = fair_fraction(total, lower, least, &wishes);
        let seats = |w: &Wish| (fraction * w.target).min(w.upper).max(w.lower);
        (wishes.iter().map(seats).collect(), fraction)
    };
    Ok(Allocation {
        seats,
        fair_fraction,
    })
}

fn lower_fraction(wish: &Wish) -> f64 {
    wish.lower / wish.target
}

fn upper_fraction(wish: &Wish) -> f64 {
    wish.upper / wish.target
}

fn fold(wishes: &[Wish], of: fn(&Wish) -> f64, choose: fn(f64, f64) -> f64) -> f64 {
    wishes.iter().map(of).reduce(choose).unwrap_or(0.0)
}

/// Finds the fraction at which the levels together have the total. `least` is
/// the lowest fraction at which a level leaves its lower bound.
fn fair_fraction(total: f64, lower: f64, least: f64, wishes: &[Wish]) -> f64 {
    let unbounded = total / wishes.iter().map(|w| w.target).sum::<f64>();
    let leaves_all = fold(wishes, lower_fraction, f64::max) <= unbounded;
    if leaves_all && unbounded <= fold(wishes, upper_fraction, f64::min) {
        return unbounded;
    }
    // Each bound, with the change that it makes to the sum of the growing targets:
    // a level's seats grow with the fraction between its lower and its upper bound.
    let mut bounds: Vec<(f64, f64)> = wishes
        .iter()
        .flat_map(|w| {
            [
                (lower_fraction(w), w.target),
                (upper_fraction(w), -w.target),
            ]
        })
        .collect();
    bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut fraction, mut sum, mut growing) = (least, lower, 0.0);
    let mut grow_now = 0_usize;
    for (bound, adds) in bounds {
        let step = bound - fraction;
        if step > 0.0 && grow_now > 0 {
            let reached = fraction + (total - sum) / growing;
            if reached <= bound {
                return reached;
            }
            sum += step * growing;
        }
        fraction = fraction.max(bound);
        growing += adds;
        grow_now = match adds > 0.0 {
            true => grow_now.saturating_add(1),
            false => grow_now.saturating_sub(1),
        };
    }
    fraction
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_gets_its_fraction_or_a_bound(
            levels in prop::collection::vec((0.0..500.0_f64, 0.0..1.0_f64, 0.0..500.0_f64), 1..9),
            share in 0.0..1.0_f64,
        ) {
            let wishes: Vec<Wish> = levels
                .iter()
                .map(|(target, low, more)| {
                    let lower = (target * low).floor();
                    Wish { target: *target, lower, upper: lower + more.ceil() }
                })
                .collect();
            let lower: f64 = wishes.iter().map(|w| w.lower).sum();
            let upper: f64 = wishes.iter().map(|w| w.upper).sum();
            let total = (lower + (upper - lower) * share).round();
            let found = allocate(total as usize, &wishes).unwrap();
            let sum: f64 = found.seats.iter().sum();
            prop_assert!((sum - total).abs() < 1e-3, "{sum} of {total}");
            for (wish, seats) in wishes.iter().zip(&found.seats) {
                prop_assert!(*seats >= wish.lower && *seats <= wish.upper);
                let fair = found.fair_fraction * wish.target.max(LEAST_TARGET);
                let bounded = *seats == wish.lower && fair <= wish.lower + 1e-3
                    || *seats == wish.upper && fair >= wish.upper - 1e-3;
                prop_assert!(bounded || (seats - fair).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn what_is_impossible() {
        let wish = |lower, upper| Wish {
            target: lower,
            lower,
            upper,
        };
        assert_eq!(allocate(5, &[wish(6.0, 8.0)]), Err(Impossible::TooFewSeats));
        assert_eq!(
            allocate(9, &[wish(6.0, 8.0)]),
            Err(Impossible::TooManySeats)
        );
        assert_eq!(allocate(9, &[wish(9.0, 8.0)]), Err(Impossible::Bounds));
    }
}
