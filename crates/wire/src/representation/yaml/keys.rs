//! The order of keys (go-yaml v2 `sorter.go`): letters by their code, numbers
//! inside keys by their value.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::NotExact;

/// The most members for which the order is checked, if a key has digits.
const MAX_CHECKED: usize = 256;

/// Sorts the members of an object by their keys.
///
/// Go's comparison is inconsistent for some keys: `10` is below `1b`, `1b` is below
/// `2`, and `2` is below `10`. Go's result then depends on the random order of a
/// map, and the result here is an error.
pub(super) fn sort<V>(members: &mut Vec<(Cow<'_, str>, V)>) -> Result<(), NotExact> {
    // Go classifies letters and digits in all of Unicode.
    if members.iter().any(|(key, _)| !key.is_ascii()) {
        return Err(NotExact);
    }
    let numbered = members
        .iter()
        .any(|(key, _)| key.bytes().any(|b| b.is_ascii_digit()));
    if !numbered {
        members.sort_by(|(a, _), (b, _)| compare(a, b));
        let distinct = members.windows(2).all(|pair| match pair {
            [(a, _), (b, _)] => a != b,
            _ => true,
        });
        return distinct.then_some(()).ok_or(NotExact);
    }
    if members.len() > MAX_CHECKED {
        return Err(NotExact);
    }
    // The standard library's sort may panic on an inconsistent order.
    let mut sorted: Vec<(Cow<'_, str>, V)> = Vec::with_capacity(members.len());
    for member in members.drain(..) {
        let at = sorted.partition_point(|(key, _)| compare(key, &member.0) == Ordering::Less);
        sorted.insert(at, member);
    }
    let ordered = sorted.iter().enumerate().all(|(n, (a, _))| {
        let mut later = sorted.iter().skip(n.saturating_add(1));
        later.all(|(b, _)| compare(a, b) == Ordering::Less)
    });
    *members = sorted;
    ordered.then_some(()).ok_or(NotExact)
}

fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (Some(x), Some(y)) = (a.get(same), b.get(same)) else {
        return a.len().cmp(&b.len());
    };
    match (x.is_ascii_alphabetic(), y.is_ascii_alphabetic()) {
        (true, true) => return x.cmp(y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero counts if nonzero digits come before it.
    let before = a.get(..same).unwrap_or_default().iter().rev();
    let mut before = before.take_while(|b| b.is_ascii_digit());
    let carried = (*x == b'0' || *y == b'0') && before.any(|b| *b != b'0');
    let number = |key: &[u8]| {
        let digits = key.get(same..).unwrap_or_default().iter();
        let digits = digits.map_while(|b| char::from(*b).to_digit(10));
        digits.fold((i64::from(carried), 0usize), |(value, length), digit| {
            let value = value.wrapping_mul(10).wrapping_add(digit.into());
            (value, length.saturating_add(1))
        })
    };
    number(a).cmp(&number(b)).then(x.cmp(y))
}
