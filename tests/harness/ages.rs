//! Compares ages as kubectl prints them. Ages tick while two servers are asked: on a
//! busy machine, in the middle of a command that takes several requests.

use std::time::Duration;

/// Tells whether two outputs differ only in ages, and in these by no more than
/// `elapsed`, the time between the two. The padding of columns depends on the ages
/// and may differ too.
pub fn equal_but_for_ages(one: &str, other: &str, elapsed: Duration) -> bool {
    let mut lines = one.lines().zip(other.lines());
    one.lines().count() == other.lines().count()
        && lines.all(|(one, other)| one == other || words_equal(one, other, elapsed))
}

fn words_equal(one: &str, other: &str, elapsed: Duration) -> bool {
    let mut words = one.split_whitespace().zip(other.split_whitespace());
    one.split_whitespace().count() == other.split_whitespace().count()
        && words.all(|(one, other)| one == other || ticked(one, other, elapsed))
}

fn ticked(one: &str, other: &str, elapsed: Duration) -> bool {
    match (Age::parse(one), Age::parse(other)) {
        (Some(one), Some(other)) => {
            let between = one.at_least.abs_diff(other.at_least);
            between <= elapsed + one.unit.max(other.unit)
        }
        _ => false,
    }
}

/// An age as kubectl prints it, cut to whole units: `10m` is printed for a
/// whole minute.
struct Age {
    at_least: Duration,
    unit: Duration,
}

impl Age {
    /// Parses `116s`, `2m3s`, `5h` or `3y40d`. The age may stand in brackets,
    /// as in events.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(['(', ')']);
        let mut age = Self {
            at_least: Duration::ZERO,
            unit: Duration::ZERO,
        };
        let mut number = String::new();
        for c in text.chars() {
            if c.is_ascii_digit() {
                number.push(c);
                continue;
            }
            age.unit = Duration::from_secs(match c {
                's' => 1,
                'm' => 60,
                'h' => 3600,
                'd' => 86_400,
                'y' => 365 * 86_400,
                _ => return None,
            });
            let times: u32 = number.parse().ok()?;
            age.at_least += age.unit.checked_mul(times)?;
            number.clear();
        }
        (number.is_empty() && age.unit > Duration::ZERO).then_some(age)
    }
}

#[test]
fn ages_may_tick_and_nothing_else() {
    let second = Duration::from_secs(1);
    for (one, other, equal) in [
        ("a   9s", "a   10s", true),
        ("a 116s b", "a 117s b", true),
        ("a 116s b", "a 119s b", false),
        ("a 119s", "a 2m", true),
        ("a 9m59s", "a 10m", true),
        ("x2 (x3 over 59s)", "x2 (x3 over 60s)", true),
        ("x2 (x3 over 59s)", "x2 (x4 over 59s)", false),
        ("a 1", "a 2", false),
        ("a 5s\nb", "a 5s\nc", false),
        ("a 5s", "a 5s\n", true),
        ("a 5s", "a 5s\nb", false),
        ("a 5s", "a 5s b", false),
    ] {
        assert_eq!(
            equal_but_for_ages(one, other, second),
            equal,
            "{one:?} {other:?}"
        );
    }
}
