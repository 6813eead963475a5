//! Reads the clauses of an Accept header, and finds the first that can be satisfied.

use http::HeaderMap;
use http::header::ACCEPT;

use super::accept_header::Clause;
use super::representation::{MediaType, OFFERED};

/// Returns the first Accept line, since upstream ignores the rest. The result
/// is `None` if it is not text.
pub(super) fn first_accept(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(ACCEPT)
        .map_or(Some(""), |value| value.to_str().ok())
}

pub(super) fn first_match<'c, 'a>(
    clauses: &'c [Clause<'a>],
    allowed: impl Fn(&Clause<'a>, MediaType) -> bool,
) -> Option<(&'c Clause<'a>, MediaType)> {
    clauses.iter().find_map(|clause| {
        OFFERED
            .into_iter()
            .find(|m| clause.matches("application", m.subtype()) && allowed(clause, *m))
            .map(|m| (clause, m))
    })
}

pub(super) fn asks_for_pretty(clause: &Clause<'_>) -> bool {
    clause.param("pretty") == Some("1")
}

pub(super) fn stream_allowed(clause: &Clause<'_>, media_type: MediaType) -> bool {
    match clause.param("stream") {
        None | Some("") => true,
        Some(stream) => stream == "watch" && media_type != MediaType::Yaml,
    }
}

/// Returns kind, group and version if at least one of them is given.
pub(super) fn transform_of<'a>(clause: &Clause<'a>) -> Option<(&'a str, &'a str, &'a str)> {
    let [kind, group, version] = ["as", "g", "v"].map(|name| clause.param(name));
    (kind.is_some() || group.is_some() || version.is_some()).then(|| {
        (
            kind.unwrap_or_default(),
            group.unwrap_or_default(),
            version.unwrap_or_default(),
        )
    })
}

/// Tells whether a newer server may choose differently: the chosen clause, or one
/// that is tried before it, has a parameter that is unknown here. Every server
/// skips clauses of other media types. `knows_drop` tells whether `drop` is known.
pub(super) fn is_read_otherwise(
    clauses: &[Clause<'_>],
    chosen: Option<&Clause<'_>>,
    knows_drop: bool,
) -> bool {
    let is_offered = |clause: &&Clause<'_>| {
        OFFERED
            .iter()
            .any(|m| clause.matches("application", m.subtype()))
    };
    let is_chosen = |clause: &Clause<'_>| chosen.is_some_and(|chosen| std::ptr::eq(clause, chosen));
    for clause in clauses.iter().filter(is_offered) {
        if clause.has_unknown_parameter(knows_drop) {
            return true;
        }
        if is_chosen(clause) {
            return false;
        }
    }
    false
}
