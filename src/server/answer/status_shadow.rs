//! The results of shadow mode on the status page: the sums of `/debug/shadow`.

use std::cmp::Reverse;

use kubernetes_wire::api::GroupVersionResource;
use serde::Serialize;

use crate::server::state::generation::Generation;
use crate::shadow::OfResource;

/// The most resources of a report.
const MAX_RESOURCES: usize = 250;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShadowSummary {
    sampling_rate_per_million: u32,
    /// Those with differences come first, then the most read ones.
    resources: Vec<Resource>,
    resources_omitted: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    group: String,
    version: String,
    resource: String,
    mode: &'static str,
    would_answer: u64,
    would_forward: u64,
    matches: u64,
    differences: u64,
    not_comparable: u64,
}

/// Returns the results, if there are any or any may come.
pub(super) fn summary(generation: &Generation) -> Option<ShadowSummary> {
    let modes = &generation.config.cache.modes;
    let found = generation.shadow.report();
    if found.resources.is_empty() && !modes.have_shadow() {
        return None;
    }
    let resources = found.resources.iter();
    let mut resources: Vec<_> = resources
        .map(|(gvr, found)| Resource::of(gvr, modes.of(gvr).as_str(), found))
        .collect();
    resources.sort_by(|a, b| {
        let order = |r: &Resource| Reverse((r.differences, r.would_answer, r.would_forward));
        let name = |r: &Resource| (r.group.clone(), r.resource.clone(), r.version.clone());
        order(a).cmp(&order(b)).then_with(|| name(a).cmp(&name(b)))
    });
    let resources_omitted = resources.len().saturating_sub(MAX_RESOURCES);
    resources.truncate(MAX_RESOURCES);
    Some(ShadowSummary {
        sampling_rate_per_million: modes.shadow.sampling_rate_per_million,
        resources,
        resources_omitted,
    })
}

impl Resource {
    fn of(gvr: &GroupVersionResource, mode: &'static str, found: &OfResource) -> Self {
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let tallies = || found.tallies.values();
        Self {
            group: gvr.group.to_string(),
            version: gvr.version.to_string(),
            resource: gvr.resource.to_string(),
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
