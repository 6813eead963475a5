//! Counts what evaluations cost, and stops those that cost too much.
//!
//! An expression calls [`spend`] before each turn of a loop, [`make`] for each text or
//! list that is longer than its parts, and [`hold`] for what it puts into lists and maps.
//! The unit is about the time of one call.

use std::cell::Cell;
use std::thread;

use cel::ExecutionError;

/// The most that one evaluation may cost, as in Kubernetes (`PerCallLimit`).
pub(super) const MAX_OF_ONE: u64 = 1_000_000;

/// The most that all evaluations of a query may cost. They take some seconds.
pub(super) const MAX_OF_ALL: u64 = 50_000_000;

/// The longest text or list that an expression may make.
const MAX_MADE: u64 = 1 << 20;

/// The most memory that the values may take that one evaluation makes or copies.
pub(super) const MAX_HELD: u64 = 16 << 20;

/// A turn of a loop may copy its element. It costs one unit more for each of this number
/// of bytes of the object.
const BYTES_PER_UNIT: u64 = 256;

/// The same for a step outside of loops, which may read a part of the object.
const BYTES_PER_UNIT_OF_STEP: u64 = 1024;

/// The number of units after which others may run. On a busy core, the kernel would let
/// this thread go on for milliseconds.
const UNITS_PER_SLICE: u64 = 4096;

#[derive(Clone, Copy, Default)]
pub(super) struct Meter {
    granted: u64,
    left: u64,
    factor: u64,
    held: u64,
    is_exhausted: bool,
    is_full: bool,
}

thread_local! {
    static METER: Cell<Meter> = const {
        Cell::new(Meter {
            granted: 0,
            left: 0,
            factor: 1,
            held: 0,
            is_exhausted: false,
            is_full: false,
        })
    };
}

/// The cost of an evaluation.
pub(super) struct Spent {
    pub(super) units: u64,
    pub(super) is_exhausted: bool,
    /// Whether it would have taken too much memory.
    pub(super) is_full: bool,
    /// Whether its limit was that of one evaluation, and not the rest of the query.
    pub(super) is_of_one: bool,
}

impl Meter {
    pub(super) fn start(left: u64, object_bytes: usize, cost: u64) -> Self {
        let bytes = u64::try_from(object_bytes).unwrap_or(u64::MAX);
        let granted = left.min(MAX_OF_ONE);
        let of_step = (bytes / BYTES_PER_UNIT_OF_STEP).saturating_add(1);
        let cost = cost.saturating_mul(of_step);
        Self {
            granted,
            left: granted.saturating_sub(cost),
            factor: (bytes / BYTES_PER_UNIT).saturating_add(1),
            is_exhausted: granted < cost,
            ..Self::default()
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
        is_full: meter.is_full,
        is_of_one: meter.granted == MAX_OF_ONE,
    };
    (evaluated, spent)
}

/// Spends the cost of a turn of a loop.
pub(super) fn spend(units: u64) -> Result<(), ExecutionError> {
    let meter = METER.get();
    take(meter, units.saturating_mul(meter.factor))
}

/// Spends a cost that does not depend on the object.
pub(super) fn spend_units(units: u64) -> Result<(), ExecutionError> {
    take(METER.get(), units)
}

/// Spends the cost of reading a text of this length.
pub(super) fn read(bytes: usize) -> Result<(), ExecutionError> {
    spend_units(u64::try_from(bytes).unwrap_or(u64::MAX) / 64)
}

/// Spends the cost of a new text or list of this length.
pub(super) fn make(length: u64) -> Result<(), ExecutionError> {
    let meter = METER.get();
    if length > MAX_MADE {
        return exhaust(meter);
    }
    take(meter, length / 64)
}

/// Returns the memory that may still be held.
pub(super) fn holdable() -> u64 {
    MAX_HELD.saturating_sub(METER.get().held)
}

/// Notes that values of this size are made or copied.
pub(super) fn hold(bytes: u64) -> Result<(), ExecutionError> {
    let meter = METER.get();
    let held = meter.held.saturating_add(bytes);
    let is_full = held > MAX_HELD;
    let meter = Meter {
        held,
        is_full,
        ..meter
    };
    match is_full {
        true => exhaust(meter),
        false => take(meter, bytes / 64),
    }
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
