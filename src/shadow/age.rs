//! Ages in Tables, which grow between two answers.

use std::time::Duration;

/// An age as kubectl prints it. It is cut to whole units: `10m` is printed for a
/// whole minute.
#[derive(Debug, PartialEq, Eq)]
struct Age {
    at_least: Duration,
    unit: Duration,
}

const UNITS: [(char, u64); 5] = [
    ('s', 1),
    ('m', 60),
    ('h', 3_600),
    ('d', 86_400),
    ('y', 365 * 86_400),
];

impl Age {
    /// Reads `116s`, `2m3s`, `5h` or `3y40d`.
    fn parse(text: &str) -> Option<Self> {
        let mut age = Self {
            at_least: Duration::ZERO,
            unit: Duration::ZERO,
        };
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, tail) = rest.split_at(digits);
            let unit = tail.chars().next()?;
            let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
            age.unit = Duration::from_secs(*seconds);
            let times: u32 = number.parse().ok()?;
            age.at_least = age.at_least.checked_add(age.unit.checked_mul(times)?)?;
            rest = tail.get(1..)?;
        }
        (age.unit > Duration::ZERO).then_some(age)
    }
}

/// Tells whether two texts differ only in ages, and these by no more than the time
/// between the answers. Events have ages inside a text: `9s (x3 over 2m)`.
pub(super) fn ticked(one: &str, other: &str, between: Duration) -> bool {
    let word = |(one, other): (&str, &str)| {
        one == other || {
            let bare = |word: &'static [char]| (one.trim_matches(word), other.trim_matches(word));
            let (one, other) = bare(&['(', ')']);
            match (Age::parse(one), Age::parse(other)) {
                (Some(one), Some(other)) => {
                    let apart = one.at_least.abs_diff(other.at_least);
                    apart <= between.saturating_add(one.unit.max(other.unit))
                }
                _ => false,
            }
        }
    };
    one.split(' ').count() == other.split(' ').count()
        && one.split(' ').zip(other.split(' ')).all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_may_tick_and_nothing_else() {
        for (one, other, same) in [
            ("9s", "10s", true),
            ("116s", "119s", false),
            ("119s", "2m", true),
            ("9m59s", "10m", true),
            ("3y40d", "3y41d", true),
            ("9s (x2 over 59s)", "9s (x2 over 60s)", true),
            ("9s (x2 over 59s)", "9s (x3 over 59s)", false),
            ("1", "2", false),
            ("5", "5s", false),
            ("", "1s", false),
            ("s", "m", false),
            ("99999999999999999999s", "1s", false),
        ] {
            let ticked = ticked(one, other, Duration::from_secs(1));
            assert_eq!(ticked, same, "{one:?} {other:?}");
        }
    }
}
