//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to `wanted` files, or to what the system allows if that is less, and
/// returns the limit. 0 means as many as the system allows, `None` no limit.
///
/// systemd and container runtimes start programs with 1,024, because old programs break
/// with more, and let each raise its limit to some hundred thousand.
pub(super) fn raise_limit(wanted: usize) -> Option<usize> {
    let limit = getrlimit(Resource::Nofile);
    let target = target(limit, wanted);
    let raised = Rlimit {
        current: target,
        ..limit
    };
    let reached = match target == limit.current || setrlimit(Resource::Nofile, raised).is_ok() {
        true => target,
        false => limit.current,
    };
    reached.map(|files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// Returns the limit to ask for. It is never less than the one that there is.
fn target(limit: Rlimit, wanted: usize) -> Option<u64> {
    let current = limit.current?;
    let wanted = match (wanted, limit.maximum) {
        (0, maximum) => maximum?,
        (wanted, None) => wanted as u64,
        (wanted, Some(maximum)) => maximum.min(wanted as u64),
    };
    Some(current.max(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_to_what_is_wanted_and_allowed() {
        for (current, maximum, wanted, expected) in [
            (Some(1_024), Some(524_288), 40_000, Some(40_000)),
            (Some(1_024), Some(4_096), 40_000, Some(4_096)),
            (Some(1_024), None, 40_000, Some(40_000)),
            (Some(65_536), Some(524_288), 40_000, Some(65_536)),
            (Some(1_024), Some(524_288), 0, Some(524_288)),
            (Some(1_024), None, 0, None),
            (None, None, 40_000, None),
        ] {
            let limit = Rlimit { current, maximum };
            assert_eq!(target(limit, wanted), expected, "{limit:?} {wanted}");
        }
    }

    #[test]
    fn the_limit_of_this_process_is_told() {
        let limit = raise_limit(1).expect("a limit of open files");
        let maximum = getrlimit(Resource::Nofile).maximum;
        assert_eq!(getrlimit(Resource::Nofile).current, Some(limit as u64));
        assert!(maximum.is_none_or(|maximum| limit as u64 <= maximum));
    }
}
