//! Reads the Accept header, and finds the first clause that can be satisfied, as
//! `goautoneg` and go-restful do: without case folding and quoting, and in an order
//! that differs from RFC 9110, because `goautoneg` compares clauses inconsistently.

use http::HeaderMap;
use http::header::ACCEPT;

use super::clause::{self, Clause};
use super::representation::{MediaType, OFFERED};

/// The most clauses that are read. Up to this length Go's `sort.Sort` is an
/// insertion sort. The comparison below is not a consistent order, so for
/// longer headers the outcome depends on the internals of Go's sort. Requests
/// with longer headers are left to the API server.
const MAX_CLAUSES: usize = 12;

/// Returns the first Accept line, since upstream ignores the rest. The result
/// is `None` if it is not text.
pub(super) fn first_accept(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(ACCEPT)
        .map_or(Some(""), |value| value.to_str().ok())
}

/// Returns the clauses in the order in which they are tried, or `None` if that
/// order cannot be determined.
pub fn parse(header: &str) -> Option<Vec<Clause<'_>>> {
    let mut clauses = Vec::new();
    for part in header.split(',') {
        if let Some(clause) = clause::parse(part)? {
            clauses.push(clause);
        }
    }
    if clauses.len() > MAX_CLAUSES {
        return None;
    }
    for i in 1..clauses.len() {
        let mut j = i;
        while let [before @ .., last] = clauses.get_mut(..=j)? {
            match before.last_mut() {
                Some(previous) if precedes(last, previous) => {
                    std::mem::swap(previous, last);
                    j = j.saturating_sub(1);
                }
                _ => break,
            }
        }
    }
    Some(clauses)
}

/// Tells whether the sort moves a clause before another.
fn precedes(clause: &Clause<'_>, other: &Clause<'_>) -> bool {
    clause.quality > other.quality
        || (clause.kind != "*" && other.kind == "*")
        || (clause.subtype != "*" && other.subtype == "*")
}

/// Returns the first clause that offers what is allowed, and that.
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

/// Applies go-restful's own filter, which runs before any handler of a built-in
/// resource. The header must name one of the types exactly, or `*/*`.
/// Parameters and weights are ignored.
pub(crate) fn route_matches(header: &str, produced: &[&str]) -> bool {
    header.is_empty()
        || header.split(',').any(|part| {
            let media = part.split(';').next().unwrap_or_default();
            let media = media.trim_matches(' ');
            media == "*/*" || produced.contains(&media)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(header: &str) -> String {
        parse(header)
            .unwrap()
            .iter()
            .map(|c| format!("{}/{}", c.kind, c.subtype))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn order_is_goautonegs() {
        for (header, expected) in [
            ("a/b;q=0.1,c/d", "c/d a/b"),
            ("a/b,c/d", "a/b c/d"),
            ("*/*,a/b;q=0.1", "a/b */*"),
            ("a/b;q=0.1,*/*", "*/* a/b"),
            ("a/*,a/b", "a/b a/*"),
            ("a,b/c/d,*,e/f/", "e/f */*"),
            ("a/b;q=x,c/d;q=0.001", "c/d a/b"),
            (",,a/b", "a/b"),
        ] {
            assert_eq!(order(header), expected, "{header}");
        }
        assert_eq!(parse(&"a/b,".repeat(13)), None);
        assert_eq!(parse("a/b;q=0x1p-2"), None);
    }
}
