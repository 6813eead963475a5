//! The resources of the status page: what the cache holds of them, and whether it
//! answered their reads. Which names they have depends on the audience
//! ([`NamesResources`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use apifront_watch_cache::read::{BypassReason, HitCost};
use kubernetes_wire::api::GroupVersionResource;

use super::debug_cache::{self, ResourceState};
use super::nameless::{Named, NamesResources, VersionNumber, named, nameless};
use super::status_shadow::{self, ShadowSummary};
use crate::metrics::Reads;
use crate::server::state::generation::Generation;

/// The most resources of a report. People do not read more, and programs have
/// `/debug/cache`.
const MAX_RESOURCES: usize = 250;

/// The most pairs of a resource and a reason.
const MAX_BYPASSES: usize = 250;

nameless! {
    /// Everything that the report tells about resources.
    pub(super) struct ByResource<N> {
        resources: Vec<Named<N, Figures>>,
        resources_omitted: usize,
        bypasses: Vec<Named<N, Bypass>>,
        bypasses_omitted: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        shadow: Option<ShadowSummary<N>>,
    }

    struct Figures {
        /// As in `/debug/cache`, or `notCached`.
        state: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        resource_version: Option<VersionNumber>,
        objects: usize,
        bytes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        staleness_seconds: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lag_seconds: Option<f64>,
        watchers: i64,
        hits: u64,
        /// Hits for which upstream was asked something.
        asked: u64,
        bypasses: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        hit_rate: Option<f64>,
    }

    struct Bypass {
        reason: &'static str,
        reads: u64,
    }
}

pub(super) fn by_resource<N: NamesResources>(
    generation: &Generation,
    reads: &[Reads],
    now: Instant,
) -> ByResource<N> {
    let known = &generation.metrics.known;
    let figures = figures(generation, reads, now);
    let (resources, resources_omitted) = named(figures, known, MAX_RESOURCES);
    let (bypasses, bypasses_omitted) = named(bypasses(reads), known, MAX_BYPASSES);
    ByResource {
        resources,
        resources_omitted,
        bypasses,
        bypasses_omitted,
        shadow: status_shadow::summary(generation),
    }
}

/// Returns the cached resources, and those with counted reads. The largest come
/// first.
fn figures(
    generation: &Generation,
    reads: &[Reads],
    now: Instant,
) -> Vec<(GroupVersionResource, Figures)> {
    let mut counts: HashMap<&GroupVersionResource, Counts> = HashMap::new();
    for reads in reads {
        counts.entry(&reads.gvr).or_default().add(reads);
    }
    let mut resources: Vec<(GroupVersionResource, Figures)> =
        debug_cache::states(generation, &[], now)
            .map(|(gvr, state)| {
                let counts = counts.remove(&gvr).unwrap_or_default();
                (gvr, Figures::new(&state, counts))
            })
            .collect();
    resources.extend(counts.into_iter().map(|(gvr, counts)| {
        let state = ResourceState {
            state: "notCached",
            store: None,
        };
        (gvr.clone(), Figures::new(&state, counts))
    }));
    resources.sort_by(|(a_name, a), (b_name, b)| {
        let order = |r: &Figures| Reverse((r.bytes, r.bypasses, r.hits));
        let name = |gvr: &GroupVersionResource| {
            (gvr.group.clone(), gvr.resource.clone(), gvr.version.clone())
        };
        order(a)
            .cmp(&order(b))
            .then_with(|| name(a_name).cmp(&name(b_name)))
    });
    resources
}

#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    asked: u64,
    bypasses: u64,
}

impl Counts {
    fn add(&mut self, reads: &Reads) {
        let add = |counter: &mut u64| *counter = counter.saturating_add(reads.count);
        match reads.is_hit() {
            true => {
                add(&mut self.hits);
                let free = [HitCost::Nothing, HitCost::Shared];
                if !free.iter().any(|cost| reads.reason == cost.as_str()) {
                    add(&mut self.asked);
                }
            }
            false => add(&mut self.bypasses),
        }
    }
}

impl Figures {
    fn new(state: &ResourceState, counts: Counts) -> Self {
        let Counts {
            hits,
            asked,
            bypasses,
        } = counts;
        let store = state.store.as_ref();
        let reads = hits.saturating_add(bypasses);
        Self {
            state: state.state,
            resource_version: store.map(|s| s.resource_version),
            objects: store.map_or(0, |s| s.objects),
            bytes: store.map_or(0, |s| s.total_bytes()),
            staleness_seconds: store.map(|s| s.staleness_seconds),
            lag_seconds: store.map(|s| s.lag_seconds),
            watchers: store.map_or(0, |s| s.watchers),
            hits,
            asked,
            bypasses,
            hit_rate: (reads > 0).then(|| hits as f64 / reads as f64),
        }
    }
}

/// Returns the forwarded reads by resource and reason. The most frequent come first.
fn bypasses(reads: &[Reads]) -> Vec<(GroupVersionResource, Bypass)> {
    let mut counts: BTreeMap<(&GroupVersionResource, &'static str), u64> = BTreeMap::new();
    for reads in reads.iter().filter(|reads| !reads.is_hit()) {
        let count = counts.entry((&reads.gvr, reason(reads))).or_default();
        *count = count.saturating_add(reads.count);
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, reads)| Reverse(*reads));
    let bypass = |((gvr, reason), reads): ((&GroupVersionResource, _), _)| {
        (gvr.clone(), Bypass { reason, reads })
    };
    counts.into_iter().map(bypass).collect()
}

/// Returns the reason of forwarded reads as a fixed word, which cannot hold a name.
fn reason(reads: &Reads) -> &'static str {
    let mut all = BypassReason::ALL.into_iter().map(BypassReason::as_str);
    all.find(|reason| reads.reason == *reason)
        .unwrap_or_default()
}
