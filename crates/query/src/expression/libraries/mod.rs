//! The libraries that Kubernetes adds to CEL.
//!
//! A function that takes or makes more than a few bytes tells the meter so, before it
//! does.

mod addresses;
mod cidrs;
mod declarations;
mod formats;
mod formatting;
mod lists;
mod opaque;
mod patterns;
mod quantities;
mod semvers;
mod sets;
mod texts;
mod urls;
mod values;

pub(super) use declarations::Declarations;
use declarations::Function;
pub(super) use formatting::FORMAT;
pub(super) use lists::{DISTINCT_OF, RANGE_OF};
pub(super) use texts::{INDEX_OF, JOIN, LAST_INDEX_OF, REPLACE, SPLIT};
pub(super) use values::{Called, argument, hold, no_overload, result};

pub(super) use patterns::check_pattern;

pub(super) fn declare(declarations: &mut Declarations) {
    addresses::declare(declarations);
    cidrs::declare(declarations);
    formats::declare(declarations);
    formatting::declare(declarations);
    lists::declare(declarations);
    patterns::declare(declarations);
    quantities::declare(declarations);
    semvers::declare(declarations);
    sets::declare(declarations);
    texts::declare(declarations);
    urls::declare(declarations);
}
