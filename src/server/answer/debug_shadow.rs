//! The answer to `/debug/shadow`: what shadow mode has found.
//! `docs/operations.md` documents the answer.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use apifront_watch_cache::CacheMode;
use chrono::{DateTime, SecondsFormat, Utc};
use http::StatusCode;
use kubernetes_wire::api::GroupVersionResource;
use serde::Serialize;

use super::debug_cache::{CheckReport, check_report};
use super::respond::Answer;
use crate::server::state::generation::Generation;
use crate::shadow::{Found, OfResource, Tally, ToldDifference};

pub(in crate::server) const SHADOW_PATH: &str = "/debug/shadow";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShadowReport {
    mode: &'static str,
    sampling_rate_per_million: u32,
    uptime_seconds: f64,
    /// The sums of all resources.
    comparisons: Counts,
    differences: Vec<FoundReport>,
    /// Differences that are counted, but not listed.
    further_differences: u64,
    resources: Vec<ResourceReport>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    matches: u64,
    differences: u64,
    not_comparable: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceReport {
    group: String,
    version: String,
    resource: String,
    mode: &'static str,
    /// Sampled reads that the cache would have answered.
    would_answer: u64,
    /// Sampled reads that it would have forwarded, by reason.
    would_forward: BTreeMap<&'static str, u64>,
    comparisons: Vec<ComparisonReport>,
    cost: CostReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_check: Option<CheckReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComparisonReport {
    verb: &'static str,
    representation: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

/// The bytes and the time of answers that were the same on both sides.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CostReport {
    answers: u64,
    bytes: u64,
    /// Until upstream's answer began.
    upstream_seconds: f64,
    /// For making the answer here.
    apifront_seconds: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FoundReport {
    at: String,
    group: String,
    version: String,
    resource: String,
    verb: &'static str,
    representation: &'static str,
    resource_version: String,
    #[serde(flatten)]
    difference: ToldDifference,
}

/// Returns the answer to `/debug/shadow`.
pub(in crate::server) fn answer(generation: &Generation, now: Instant) -> Answer {
    let modes = &generation.config.cache.modes;
    let found = generation.shadow.report();
    let mut comparisons = Counts::default();
    for tally in found.resources.values().flat_map(|r| r.tallies.values()) {
        comparisons.add(tally);
    }
    let mut resources: Vec<_> = found.resources.iter().collect();
    resources.sort_by_key(|(gvr, _)| (&gvr.group, &gvr.resource, &gvr.version));
    let report = ShadowReport {
        mode: modes.default.as_str(),
        sampling_rate_per_million: modes.shadow.sampling_rate_per_million,
        uptime_seconds: now
            .saturating_duration_since(generation.started)
            .as_secs_f64(),
        comparisons,
        differences: found.differences.iter().map(FoundReport::of).collect(),
        further_differences: found.dropped_differences,
        resources: resources
            .into_iter()
            .map(|(gvr, of_resource)| {
                let checked = generation.self_checks.last(gvr);
                let self_check = checked.map(|checked| check_report(checked, now));
                ResourceReport::of(gvr, modes.of(gvr), of_resource, self_check)
            })
            .collect(),
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

impl ResourceReport {
    fn of(
        gvr: &GroupVersionResource,
        mode: CacheMode,
        found: &OfResource,
        self_check: Option<CheckReport>,
    ) -> Self {
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
            group: gvr.group.to_string(),
            version: gvr.version.to_string(),
            resource: gvr.resource.to_string(),
            mode: mode.as_str(),
            would_answer: found.hits,
            would_forward: found.bypasses.clone(),
            comparisons: comparisons.collect(),
            cost: CostReport {
                answers: found.cost.answers,
                bytes: found.cost.bytes,
                upstream_seconds: found.cost.upstream.as_secs_f64(),
                apifront_seconds: found.cost.apifront.as_secs_f64(),
            },
            self_check,
        }
    }
}

impl FoundReport {
    fn of(found: &Found) -> Self {
        let gvr = &found.subject.gvr;
        Self {
            at: timestamp(found.at),
            group: gvr.group.to_string(),
            version: gvr.version.to_string(),
            resource: gvr.resource.to_string(),
            verb: found.subject.verb,
            representation: found.subject.representation.as_str(),
            resource_version: found.subject.version.to_string(),
            difference: found.difference.clone(),
        }
    }
}

fn timestamp(at: SystemTime) -> String {
    DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Secs, true)
}
