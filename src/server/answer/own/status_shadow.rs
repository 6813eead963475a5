//! The results of shadow mode on the status page: the sums of `/debug/shadow`.

use std::cmp::Reverse;

use kubernetes_wire::api::GroupVersionResource;

use super::nameless::{Named, NamesResources, named, nameless};
use crate::server::state::generation::Generation;
use crate::shadow::OfResource;

const MAX_RESOURCES: usize = 250;

nameless! {
    pub(super) struct ShadowSummary<N> {
        sampling_rate_per_million: u32,
        /// Resources with differences come first, then those with the most reads.
        resources: Vec<Named<N, Comparisons>>,
        resources_omitted: usize,
    }

    struct Comparisons {
        mode: &'static str,
        would_answer: u64,
        would_forward: u64,
        matches: u64,
        differences: u64,
        not_comparable: u64,
    }
}

/// Returns the results, if there are any or may be some later.
pub(super) fn summary<N: NamesResources>(generation: &Generation) -> Option<ShadowSummary<N>> {
    let modes = &generation.settings.cache.modes;
    let found = generation.shadow.report();
    if found.resources.is_empty() && !modes.have_shadow() {
        return None;
    }
    let resources = found.resources.into_iter();
    let mut resources: Vec<_> = resources
        .map(|(gvr, found)| {
            let comparisons = Comparisons::from_found(modes.for_resource(&gvr).as_str(), &found);
            (gvr, comparisons)
        })
        .collect();
    resources.sort_by(|(a_name, a), (b_name, b)| {
        let order = |r: &Comparisons| Reverse((r.differences, r.would_answer, r.would_forward));
        let name = |gvr: &GroupVersionResource| {
            (gvr.group.clone(), gvr.resource.clone(), gvr.version.clone())
        };
        order(a)
            .cmp(&order(b))
            .then_with(|| name(a_name).cmp(&name(b_name)))
    });
    let (resources, resources_omitted) = named(resources, &generation.metrics.known, MAX_RESOURCES);
    Some(ShadowSummary {
        sampling_rate_per_million: modes.shadow.sampling_rate_per_million,
        resources,
        resources_omitted,
    })
}

impl Comparisons {
    fn from_found(mode: &'static str, found: &OfResource) -> Self {
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let tallies = || found.tallies.values();
        Self {
            mode,
            would_answer: found.hits,
            would_forward: sum(&mut found.bypasses.values().copied()),
            matches: sum(&mut tallies().map(|tally| tally.matches)),
            differences: sum(&mut tallies().map(|tally| tally.differences)),
            not_comparable: sum(
                &mut tallies().flat_map(|tally| tally.not_comparable.values().copied())
            ),
        }
    }
}
