//! The answer to `/debug/shadow`: the results of shadow mode.
//! `docs/operations/shadow-mode.md` documents the answer. The port without
//! authentication shows counts only. Paths and fingerprints of differences are for
//! callers with a grant.

use std::collections::{BTreeMap, HashMap};
use std::time::{Instant, SystemTime};

use apifront_watch_cache::CacheMode;
use chrono::{DateTime, SecondsFormat, Utc};
use http::StatusCode;
use kubernetes_wire::api::GroupVersionResource;
use serde::Serialize;

use super::debug_cache::{CheckReport, check_report};
use super::nameless::{AnyResource, Named, ProvenResource, named, nameless};
use super::open_answer::OpenAnswer;
use crate::server::reply::answer::Answer;
use crate::server::stage::Granted;
use crate::server::state::generation::Generation;
use crate::shadow::{Found, OfResource, Report, Tally, ToldDifference};

/// The answer to callers with a grant.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShadowReport {
    #[serde(flatten)]
    sums: Sums,
    differences: Vec<Named<AnyResource, FoundReport>>,
    /// The number of differences that are counted, but not listed.
    further_differences: u64,
    resources: Vec<Named<AnyResource, ResourceReport>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceReport {
    #[serde(flatten)]
    counts: ResourceCounts,
    cost: CostReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_check: Option<CheckReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FoundReport {
    at: String,
    verb: &'static str,
    representation: &'static str,
    resource_version: String,
    #[serde(flatten)]
    difference: ToldDifference,
}

nameless! {
    /// The answer for the port without authentication.
    struct OpenShadowReport {
        #[serde(flatten)]
        sums: Sums,
        resources: Vec<Named<ProvenResource, ResourceCounts>>,
        /// The number of resources whose names no answer has proved.
        resources_omitted: usize,
    }

    struct Sums {
        mode: &'static str,
        sampling_rate_per_million: u32,
        uptime_seconds: f64,
        /// The sums of all resources.
        comparisons: Counts,
    }

    #[derive(Default)]
    struct Counts {
        matches: u64,
        differences: u64,
        not_comparable: BTreeMap<&'static str, u64>,
    }

    struct ResourceCounts {
        mode: &'static str,
        /// Sampled reads that the cache would have answered.
        would_answer: u64,
        /// Sampled reads that the cache would have forwarded, by reason.
        would_forward: BTreeMap<&'static str, u64>,
        comparisons: Vec<ComparisonReport>,
    }

    struct ComparisonReport {
        verb: &'static str,
        representation: &'static str,
        #[serde(flatten)]
        counts: Counts,
    }

    /// The bytes and the times of answers that were the same on both sides.
    struct CostReport {
        answers: u64,
        bytes: u64,
        /// The time until upstream's answers began.
        upstream_seconds: f64,
        /// The time for making the answers here.
        apifront_seconds: f64,
    }
}

pub(super) fn answer(granted: &Granted, now: Instant) -> Answer {
    let generation = granted.generation();
    let (found, modes) = (generation.shadow.report(), &generation.settings.cache.modes);
    let sums = sums(generation, &found, now);
    let known = &generation.metrics.known;
    let differences = found.differences.iter().map(FoundReport::from_found);
    let (differences, _) = named(differences, known, usize::MAX);
    let resources = sorted(found.resources).map(|(gvr, found)| {
        let checked = generation.self_checks.last(&gvr);
        let report = ResourceReport {
            cost: CostReport {
                answers: found.cost.answers,
                bytes: found.cost.bytes,
                upstream_seconds: found.cost.upstream.as_secs_f64(),
                apifront_seconds: found.cost.apifront.as_secs_f64(),
            },
            self_check: checked.map(|checked| check_report(checked, now)),
            counts: ResourceCounts::from_found(modes.for_resource(&gvr), found),
        };
        (gvr, report)
    });
    let (resources, _) = named(resources, known, usize::MAX);
    let report = ShadowReport {
        sums,
        differences,
        further_differences: found.dropped_differences,
        resources,
    };
    match serde_json::to_vec_pretty(&report) {
        Ok(body) => Answer::new(StatusCode::OK, "application/json", vec![body.into()]),
        Err(error) => Answer::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            vec![format!("{error}\n").into()],
        ),
    }
}

/// Returns the answer for the port without authentication.
pub(super) fn open(generation: &Generation, now: Instant) -> OpenAnswer {
    let (found, modes) = (generation.shadow.report(), &generation.settings.cache.modes);
    let sums = sums(generation, &found, now);
    let resources = sorted(found.resources).map(|(gvr, found)| {
        let counts = ResourceCounts::from_found(modes.for_resource(&gvr), found);
        (gvr, counts)
    });
    let (resources, resources_omitted) = named(resources, &generation.metrics.known, usize::MAX);
    OpenAnswer::report(&OpenShadowReport {
        sums,
        resources,
        resources_omitted,
    })
}

fn sums(generation: &Generation, found: &Report, now: Instant) -> Sums {
    let modes = &generation.settings.cache.modes;
    let mut comparisons = Counts::default();
    for tally in found.resources.values().flat_map(|r| r.tallies.values()) {
        comparisons.add(tally);
    }
    let uptime = now.saturating_duration_since(generation.started);
    Sums {
        mode: modes.default.as_str(),
        sampling_rate_per_million: modes.shadow.sampling_rate_per_million,
        uptime_seconds: uptime.as_secs_f64(),
        comparisons,
    }
}

fn sorted(
    resources: HashMap<GroupVersionResource, OfResource>,
) -> impl Iterator<Item = (GroupVersionResource, OfResource)> {
    let mut resources: Vec<_> = resources.into_iter().collect();
    let name =
        |gvr: &GroupVersionResource| (gvr.group.clone(), gvr.resource.clone(), gvr.version.clone());
    resources.sort_by_cached_key(|(gvr, _)| name(gvr));
    resources.into_iter()
}

impl Counts {
    fn add(&mut self, tally: &Tally) {
        self.matches = self.matches.saturating_add(tally.matches);
        self.differences = self.differences.saturating_add(tally.differences);
        for (why, count) in &tally.not_comparable {
            let sum = self.not_comparable.entry(why).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

impl ResourceCounts {
    fn from_found(mode: CacheMode, found: OfResource) -> Self {
        let comparisons = found.tallies.iter().map(|((verb, representation), tally)| {
            let mut counts = Counts::default();
            counts.add(tally);
            ComparisonReport {
                verb,
                representation: representation.as_str(),
                counts,
            }
        });
        Self {
            mode: mode.as_str(),
            would_answer: found.hits,
            comparisons: comparisons.collect(),
            would_forward: found.bypasses,
        }
    }
}

impl FoundReport {
    fn from_found(found: &Found) -> (GroupVersionResource, Self) {
        let report = Self {
            at: timestamp(found.at),
            verb: found.subject.verb,
            representation: found.subject.representation.as_str(),
            resource_version: found.subject.version.to_string(),
            difference: found.difference.clone(),
        };
        (found.subject.gvr.clone(), report)
    }
}

fn timestamp(at: SystemTime) -> String {
    DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Secs, true)
}
