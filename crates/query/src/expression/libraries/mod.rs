//! The libraries that Kubernetes adds to CEL.
//!
//! A function that takes or makes more than a few bytes tells the meter so, before it
//! does.

mod declarations;
mod formatting;
mod lists;
mod opaque;
mod patterns;
mod quantities;
mod semvers;
mod sets;
mod texts;
mod values;

pub(super) use declarations::Declarations;
pub(super) use formatting::FORMAT;
pub(super) use lists::{DISTINCT_OF, RANGE_OF};
pub(super) use texts::{INDEX_OF, JOIN, LAST_INDEX_OF, REPLACE, SPLIT};
pub(super) use values::{Called, argument, held_bytes, no_overload, result};

pub(super) use patterns::check_pattern;

pub(super) fn declare(declarations: &mut Declarations) {
    formatting::declare(declarations);
    lists::declare(declarations);
    patterns::declare(declarations);
    quantities::declare(declarations);
    semvers::declare(declarations);
    sets::declare(declarations);
    texts::declare(declarations);
}
