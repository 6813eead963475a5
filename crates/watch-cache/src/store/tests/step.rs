//! The steps of the model.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Put {
        name: usize,
        padding: usize,
    },
    Delete {
        name: usize,
    },
    /// Puts many objects in a row, so that leaves split.
    Grow {
        from: usize,
        count: usize,
    },
    Shrink {
        from: usize,
        count: usize,
    },
    Advance {
        by: u64,
    },
    /// Changes that only a new list shows. `looks` changes every object's
    /// bytes.
    Resync {
        changes: Vec<(usize, bool)>,
        looks: bool,
    },
    Restore {
        back: u64,
    },
    /// Lists the current or an old state, which joins its leaves.
    List {
        old: bool,
    },
    /// Holds on to the current state.
    Hold,
    Retain {
        back: u64,
    },
    Trim {
        bytes: usize,
    },
    Sleep {
        seconds: u64,
    },
    Range {
        scope: usize,
        start: usize,
    },
    At {
        back: u64,
    },
    Beside {
        changes: Vec<(usize, bool)>,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let name = 0..400usize;
    let changes = || proptest::collection::vec((0..400usize, any::<bool>()), 0..40);
    prop_oneof![
        8 => (name.clone(), 0..300usize).prop_map(|(name, padding)| Step::Put { name, padding }),
        5 => name.clone().prop_map(|name| Step::Delete { name }),
        2 => (name.clone(), 1..120usize).prop_map(|(from, count)| Step::Grow { from, count }),
        2 => (name.clone(), 1..120usize).prop_map(|(from, count)| Step::Shrink { from, count }),
        1 => (1..5u64).prop_map(|by| Step::Advance { by }),
        1 => (changes(), prop::bool::weighted(0.1))
            .prop_map(|(changes, looks)| Step::Resync { changes, looks }),
        1 => (1..50u64).prop_map(|back| Step::Restore { back }),
        4 => prop::bool::weighted(0.3).prop_map(|old| Step::List { old }),
        2 => Just(Step::Hold),
        2 => (0..300u64).prop_map(|back| Step::Retain { back }),
        2 => (0..60_000usize).prop_map(|bytes| Step::Trim { bytes }),
        1 => (0..200u64).prop_map(|seconds| Step::Sleep { seconds }),
        3 => (0..4usize, name).prop_map(|(scope, start)| Step::Range { scope, start }),
        6 => (0..400u64).prop_map(|back| Step::At { back }),
        1 => changes().prop_map(|changes| Step::Beside { changes }),
    ]
}
