//! Functions of patterns (RE2): `matches`, and Kubernetes' `find` and `findAll`.

use std::cell::RefCell;

use cel::ExecutionError;
use cel::common::types::{INT_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use kubernetes_wire::api::go_regexp;
use regex::{Regex, RegexBuilder};

use super::super::meter;
use super::values::{self, Arguments};
use super::{Called, Declarations};

/// The most memory of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// The number of patterns that a thread remembers. Most patterns are literals, and are
/// the same for all objects.
const REMEMBERED_PATTERNS: usize = 8;

pub(super) fn declare(declarations: &mut Declarations) {
    let text = &STRING_TYPE;
    declarations.function("matches", &[text, text], matches);
    declarations.method(text, "matches", &[text], matches);
    declarations.method(text, "find", &[text], find);
    declarations.method(text, "findAll", &[text], find_all);
    declarations.method(text, "findAll", &[text, &INT_TYPE], find_all);
}

/// Checks a pattern before it is used.
pub(in super::super) fn check_pattern(text: &str) -> Result<(), String> {
    compiled(text).map(drop)
}

fn compiled(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(&go_regexp::translated(text))
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| format!("is no pattern: {error}"))
}

/// Returns the pattern of the second argument, and spends the cost of looking for it in
/// the first.
fn pattern(args: &Arguments<'_, '_, '_>) -> Result<Regex, ExecutionError> {
    thread_local! {
        static PATTERNS: RefCell<Vec<(String, Regex)>> = const { RefCell::new(Vec::new()) };
    }
    let (text, pattern) = (args.text(0)?, args.text(1)?);
    // A match takes up to the product of both.
    meter::read(text.len().saturating_mul(pattern.len()))?;
    PATTERNS.with_borrow_mut(|patterns| {
        if let Some((_, known)) = patterns.iter().find(|(known, _)| known == pattern) {
            return Ok(known.clone());
        }
        let length = u64::try_from(pattern.len()).unwrap_or(u64::MAX);
        meter::spend(length.saturating_mul(64))?;
        let regex = compiled(pattern).map_err(|error| args.failed(error))?;
        if patterns.len() >= REMEMBERED_PATTERNS {
            patterns.remove(0);
        }
        patterns.push((pattern.to_owned(), regex.clone()));
        Ok(regex)
    })
}

/// Matches a text with a pattern, anywhere in the text.
fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("matches", &args);
    let pattern = pattern(&args)?;
    values::bool(pattern.is_match(args.text(0)?))
}

fn find<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("find", &args);
    let pattern = pattern(&args)?;
    let found = pattern.find(args.text(0)?);
    values::text(found.map_or("", |found| found.as_str()))
}

fn find_all<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("findAll", &args);
    let pattern = pattern(&args)?;
    let most = args.most(2)?;
    let text = args.text(0)?;
    let mut texts = Vec::new();
    for found in pattern.find_iter(text).take(most) {
        texts.push(found.as_str());
        // Each search may read all of the rest.
        meter::read(text.len().saturating_sub(found.end()) / 2)?;
    }
    values::texts(&texts)
}
