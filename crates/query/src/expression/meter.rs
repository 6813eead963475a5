//! Counts what evaluations cost, and stops those that cost too much.
//!
//! An expression calls [`spend`] before each turn of a loop, and [`make`] for each text
//! or list that is longer than its parts. The unit is about the time of one call.

use std::cell::Cell;
use std::thread;

use cel::ExecutionError;

/// The most that one evaluation may cost, as in Kubernetes (`PerCallLimit`).
pub(super) const MAX_OF_ONE: u64 = 1_000_000;

/// The most that all evaluations of a query may cost. They take some seconds.
pub(super) const MAX_OF_ALL: u64 = 50_000_000;

/// The longest text or list that an expression may make.
const MAX_MADE: u64 = 1 << 20;

/// A turn of a loop may copy its element. It costs one unit more for each of this number
/// of bytes of the object.
const BYTES_PER_UNIT: u64 = 256;

/// The number of units after which others may run. On a busy core, the kernel would let
/// this thread go on for milliseconds.
const UNITS_PER_SLICE: u64 = 4096;

#[derive(Clone, Copy, Default)]
pub(super) struct Meter {
    granted: u64,
    left: u64,
    factor: u64,
    is_exhausted: bool,
}

thread_local! {
    static METER: Cell<Meter> = const {
        Cell::new(Meter { granted: 0, left: 0, factor: 1, is_exhausted: false })
    };
}

/// The cost of an evaluation.
pub(super) struct Spent {
    pub(super) units: u64,
    pub(super) is_exhausted: bool,
    /// Whether it could have had no more, had the query had more left.
    pub(super) is_of_one: bool,
}

impl Meter {
    pub(super) fn start(left: u64, object_bytes: usize, cost: u64) -> Self {
        let bytes = u64::try_from(object_bytes).unwrap_or(u64::MAX);
        let granted = left.min(MAX_OF_ONE);
        Self {
            granted,
            left: granted.saturating_sub(cost),
            factor: (bytes / BYTES_PER_UNIT).saturating_add(1),
            is_exhausted: granted < cost,
        }
    }
}

/// Evaluates something, and returns what it has spent, too.
pub(super) fn while_metered<T>(meter: Meter, evaluate: impl FnOnce() -> T) -> (T, Spent) {
    METER.set(meter);
    let evaluated = evaluate();
    let meter = METER.get();
    let spent = Spent {
        units: meter.granted.saturating_sub(meter.left),
        is_exhausted: meter.is_exhausted,
        is_of_one: meter.granted == MAX_OF_ONE,
    };
    (evaluated, spent)
}

/// Spends the cost of a turn of a loop.
pub(super) fn spend(units: u64) -> Result<(), ExecutionError> {
    let meter = METER.get();
    take(meter, units.saturating_mul(meter.factor))
}

/// Spends the cost of a new text or list of this length.
pub(super) fn make(length: u64) -> Result<(), ExecutionError> {
    let meter = METER.get();
    if length > MAX_MADE {
        return exhaust(meter);
    }
    take(meter, length / 64)
}

fn take(mut meter: Meter, units: u64) -> Result<(), ExecutionError> {
    match meter.left.checked_sub(units) {
        Some(left) if !meter.is_exhausted => {
            if left / UNITS_PER_SLICE != meter.left / UNITS_PER_SLICE {
                thread::yield_now();
            }
            meter.left = left;
            METER.set(meter);
            Ok(())
        }
        _ => exhaust(meter),
    }
}

/// CEL may ignore this error beside another operand, so it is also kept in the meter.
fn exhaust(meter: Meter) -> Result<(), ExecutionError> {
    METER.set(Meter {
        is_exhausted: true,
        left: 0,
        ..meter
    });
    let error = "the evaluation costs too much";
    Err(ExecutionError::InternalError(error.to_owned()))
}
