//! The order of API versions: GA before beta before alpha, and larger numbers
//! first. Names of another form come last (k8s.io/apimachinery `version`,
//! `CompareKubeAwareVersionStrings`).

use std::cmp::Ordering;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Maturity {
    Alpha,
    Beta,
    Ga,
}

/// Compares two versions. `Less` means that `a` comes first.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Returns the stage, the number before its name, and the number after it.
fn parse(version: &str) -> Option<(Maturity, u64, u64)> {
    let number = |text: &str| {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let rest = version.strip_prefix('v')?;
    let staged = |name: &str| {
        let (major, minor) = rest.split_once(name)?;
        Some((number(major)?, number(minor)?))
    };
    if let Some(major) = number(rest) {
        return Some((Maturity::Ga, major, 0));
    }
    if let Some((major, minor)) = staged("beta") {
        return Some((Maturity::Beta, major, minor));
    }
    let (major, minor) = staged("alpha")?;
    Some((Maturity::Alpha, major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_documentation() {
        let mut versions = [
            "v3beta1",
            "foo10",
            "v10",
            "v1",
            "v12alpha1",
            "v2",
            "v11beta2",
            "foo1",
            "v11alpha2",
            "v10beta3",
            "v1alpha",
            "v+1",
        ];
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "foo1",
                "foo10",
                "v+1",
                "v1alpha",
            ]
        );
    }
}
