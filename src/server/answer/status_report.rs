//! The data of the status page, from the values that `/metrics` and
//! `/debug/cache` show. `docs/operations.md` documents the fields.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use apifront_upstream::Upstream;
use apifront_watch_cache::metrics::Reads;
use apifront_watch_cache::read::{BypassReason, HitCost};
use apifront_watch_cache::reflector::system_memory;
use kubernetes_wire::api::GroupVersionResource;
use serde::Serialize;

use super::debug_cache::{self, ResourceReport};
use super::status_shadow::{self, ShadowSummary};
use crate::server::state::generation::Generation;
use crate::status::talkers::{ENTRIES, MAX_NAME_BYTES, Measure, Rankings, Top};
use crate::status::{Reading, SAMPLE_EVERY, Sample, Spared};

/// The most resources of a report. A person reads fewer, and programs have
/// `/debug/cache`.
const MAX_RESOURCES: usize = 250;

/// The most pairs of a resource and a reason.
const MAX_BYPASSES: usize = 250;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusReport {
    version: &'static str,
    mode: &'static str,
    consistency: &'static str,
    uptime_seconds: f64,
    ready: bool,
    api_servers: Vec<Server>,
    backends: Vec<Backend>,
    usage: Usage,
    totals: Totals,
    resources: Vec<Resource>,
    resources_omitted: usize,
    bypasses: Vec<Bypass>,
    bypasses_omitted: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<ShadowSummary>,
    advice: BTreeMap<&'static str, &'static str>,
    top_talkers: TopTalkers,
    history: History,
}

#[derive(Serialize)]
struct Server {
    name: String,
    healthy: bool,
}

#[derive(Serialize)]
struct Backend {
    name: String,
    servers: Vec<Server>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    cpu_seconds_total: f64,
    /// The cores that the process may use.
    cpus: usize,
    resident_memory_bytes: u64,
    /// The memory of the container or the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    cache_bytes: u64,
    cache_reading_bytes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_memory_limit_bytes: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Totals {
    requests: u64,
    cache_hits: u64,
    cache_bypasses: u64,
    watchers: u64,
    upstream_requests: u64,
    spared_upstream_cpu_seconds: Spared,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    group: String,
    version: String,
    resource: String,
    /// As in `/debug/cache`, or `notCached`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
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

#[derive(Serialize)]
struct Bypass {
    group: String,
    version: String,
    resource: String,
    reason: String,
    reads: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TopTalkers {
    /// The time in which the requests were counted.
    seconds: f64,
    max_entries: usize,
    max_name_bytes: usize,
    users: RankingReports,
    user_agents: RankingReports,
}

/// The rankings by the names of their measures.
type RankingReports = BTreeMap<&'static str, RankingReport>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RankingReport {
    total: u64,
    /// The most that a name may have which is not among the entries.
    max_unlisted: u64,
    entries: Vec<Talker>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Talker {
    name: String,
    /// The true count is at most this, and at least this less `maxError`.
    count: u64,
    max_error: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct History {
    sample_seconds: f64,
    samples: Vec<SampleReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SampleReport {
    seconds_ago: f64,
    seconds: f64,
    requests_per_second: f64,
    hit_rate: Option<f64>,
    upstream_requests_per_second: f64,
    busy_cores: f64,
    watchers: u64,
    cache_bytes: u64,
    resident_memory_bytes: u64,
}

/// Returns the state of the process at this moment.
pub(super) fn report(generation: &Generation, now: Instant) -> StatusReport {
    let reading = generation.reading(now);
    let reads = generation.metrics.cache.reads();
    let (resources, resources_omitted) = resources(generation, &reads, now);
    let advice = BypassReason::ALL.into_iter();
    let advice = advice.filter(|reason| reads.iter().any(|r| r.reason == reason.as_str()));
    let (bypasses, bypasses_omitted) = bypasses(&reads);
    let backends = generation.aggregation.distinct_backends().into_iter();
    let ready = generation.health.respond("/readyz", "", now);
    StatusReport {
        version: env!("CARGO_PKG_VERSION"),
        mode: debug_cache::mode(generation),
        consistency: generation.config.cache.consistency.as_str(),
        uptime_seconds: now
            .saturating_duration_since(generation.started)
            .as_secs_f64(),
        ready: ready.is_some_and(|answer| answer.status.is_success()),
        api_servers: servers(&generation.cache.upstream()),
        backends: backends
            .map(|backend| Backend {
                name: backend.name.clone(),
                servers: servers(&backend.upstream.load()),
            })
            .collect(),
        usage: usage(generation, &reading),
        totals: Totals {
            requests: reading.requests,
            cache_hits: reading.hits,
            cache_bypasses: reading.bypasses,
            watchers: reading.watchers,
            upstream_requests: reading.upstream_requests,
            spared_upstream_cpu_seconds: spared(generation),
        },
        resources,
        resources_omitted,
        bypasses,
        bypasses_omitted,
        shadow: status_shadow::summary(generation),
        advice: advice
            .map(|reason| (reason.as_str(), reason.advice()))
            .collect(),
        top_talkers: TopTalkers {
            seconds: generation.talkers.span(now).as_secs_f64(),
            max_entries: ENTRIES,
            max_name_bytes: MAX_NAME_BYTES,
            users: generation.talkers.users(rankings),
            user_agents: generation.talkers.agents(rankings),
        },
        history: History {
            sample_seconds: SAMPLE_EVERY.as_secs_f64(),
            samples: (generation.history.samples(&reading).iter())
                .map(|sample| sample_report(sample, now))
                .collect(),
        },
    }
}

fn spared(generation: &Generation) -> Spared {
    let asked = generation.metrics.upstream.own();
    generation.talkers.users(|all| {
        let answers = all.since_start(Measure::AnswersFromCache);
        Spared::of(answers, all.since_start(Measure::BytesFromCache), asked)
    })
}

fn servers(upstream: &Upstream) -> Vec<Server> {
    let endpoints = upstream.endpoints().iter();
    endpoints
        .map(|endpoint| Server {
            name: endpoint.name.clone(),
            healthy: endpoint.is_healthy(),
        })
        .collect()
}

fn usage(generation: &Generation, reading: &Reading) -> Usage {
    let memory = &generation.metrics.memory;
    Usage {
        cpu_seconds_total: reading.cpu.as_secs_f64(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        resident_memory_bytes: reading.resident_bytes,
        memory_bytes: system_memory(),
        cache_bytes: reading.cache_bytes,
        cache_reading_bytes: memory.reading.get(),
        cache_memory_limit_bytes: memory.limit_in_force(),
    }
}

/// Returns the cached resources and those whose reads were counted, the largest
/// first, and the number of those that are left out.
fn resources(generation: &Generation, reads: &[Reads], now: Instant) -> (Vec<Resource>, usize) {
    let mut counts: HashMap<&GroupVersionResource, Counts> = HashMap::new();
    for reads in reads {
        counts.entry(&reads.gvr).or_default().add(reads);
    }
    let mut resources: Vec<Resource> = debug_cache::resources(generation, &[], now)
        .into_iter()
        .map(|report| {
            let gvr = GroupVersionResource::new(&report.group, &report.version, &report.resource);
            let counts = counts.remove(&gvr).unwrap_or_default();
            resource(report, counts)
        })
        .collect();
    resources.extend(counts.into_iter().map(|(gvr, counts)| {
        let report = ResourceReport {
            group: gvr.group.clone(),
            version: gvr.version.clone(),
            resource: gvr.resource.clone(),
            state: "notCached",
            store: None,
        };
        resource(report, counts)
    }));
    resources.sort_by(|a, b| {
        let order = |r: &Resource| Reverse((r.bytes, r.bypasses, r.hits));
        let name = |r: &Resource| (r.group.clone(), r.resource.clone(), r.version.clone());
        order(a).cmp(&order(b)).then_with(|| name(a).cmp(&name(b)))
    });
    let omitted = resources.len().saturating_sub(MAX_RESOURCES);
    resources.truncate(MAX_RESOURCES);
    (resources, omitted)
}

/// The reads of a resource.
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

fn resource(report: ResourceReport, counts: Counts) -> Resource {
    let Counts {
        hits,
        asked,
        bypasses,
    } = counts;
    let store = report.store.as_ref();
    let reads = hits.saturating_add(bypasses);
    Resource {
        state: report.state,
        resource_version: store.map(|s| s.resource_version.clone()),
        objects: store.map_or(0, |s| s.objects),
        bytes: store.map_or(0, |s| s.total_bytes()),
        staleness_seconds: store.map(|s| s.staleness_seconds),
        lag_seconds: store.map(|s| s.lag_seconds),
        watchers: store.map_or(0, |s| s.watchers),
        hits,
        asked,
        bypasses,
        hit_rate: (reads > 0).then(|| hits as f64 / reads as f64),
        group: report.group,
        version: report.version,
        resource: report.resource,
    }
}

/// Returns the forwarded reads by resource and reason, the most first, and the
/// number of pairs that are left out.
fn bypasses(reads: &[Reads]) -> (Vec<Bypass>, usize) {
    let mut counts: BTreeMap<(&GroupVersionResource, &str), u64> = BTreeMap::new();
    for reads in reads.iter().filter(|reads| !reads.is_hit()) {
        let count = counts.entry((&reads.gvr, &reads.reason)).or_default();
        *count = count.saturating_add(reads.count);
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, reads)| Reverse(*reads));
    let omitted = counts.len().saturating_sub(MAX_BYPASSES);
    counts.truncate(MAX_BYPASSES);
    let bypass = |((gvr, reason), reads): ((&GroupVersionResource, &str), u64)| Bypass {
        group: gvr.group.clone(),
        version: gvr.version.clone(),
        resource: gvr.resource.clone(),
        reason: reason.to_owned(),
        reads,
    };
    (counts.into_iter().map(bypass).collect(), omitted)
}

fn rankings(rankings: &Rankings) -> RankingReports {
    let name = |measure| match measure {
        Measure::Requests => "requests",
        Measure::BytesSent => "bytesSent",
        Measure::WatchesOpened => "watchesOpened",
        Measure::AnswersFromCache => "answersFromCache",
        Measure::BytesFromCache => "bytesFromCache",
    };
    let rankings = rankings.by_measure();
    rankings.map(|(m, top)| (name(m), ranking(&top))).collect()
}

fn ranking(top: &Top<'_>) -> RankingReport {
    let entries = top.entries.iter().map(|entry| Talker {
        name: entry.name.to_owned(),
        count: entry.count,
        max_error: entry.error,
    });
    RankingReport {
        total: top.total,
        max_unlisted: top.most_unlisted,
        entries: entries.collect(),
    }
}

fn sample_report(sample: &Sample, now: Instant) -> SampleReport {
    SampleReport {
        seconds_ago: now.saturating_duration_since(sample.at).as_secs_f64(),
        seconds: sample.lasted.as_secs_f64(),
        requests_per_second: sample.requests_per_second,
        hit_rate: sample.hit_rate,
        upstream_requests_per_second: sample.upstream_requests_per_second,
        busy_cores: sample.busy_cores,
        watchers: sample.watchers,
        cache_bytes: sample.cache_bytes,
        resident_memory_bytes: sample.resident_bytes,
    }
}
