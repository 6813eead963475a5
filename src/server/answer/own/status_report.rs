//! Makes the data of the status page from the values of `/metrics` and
//! `/debug/cache`. `docs/operations/status-page.md` documents the fields. There is
//! one report for callers with a grant, and another for everybody.

use std::collections::BTreeMap;
use std::time::Instant;

use apifront_upstream::Upstream;
use apifront_watch_cache::read::BypassReason;
use apifront_watch_cache::reflector::system_memory;
use serde::Serialize;

use super::nameless::{AnyResource, ProvenResource, ServerAddress, nameless};
use super::status_resources::{ByResource, by_resource};
use super::status_talkers::{TopTalkers, top_talkers};
use crate::metrics::Reads;
use crate::queries::Outcome;
use crate::server::stage::Granted;
use crate::server::state::generation::Generation;
use crate::shapes::RuleReport;
use crate::status::talkers::Measure;
use crate::status::{Reading, SAMPLE_EVERY, Sample, Spared};

/// The fields of [`StatusReport`] that [`OpenStatusReport`] lacks.
const WITHHELD: [&str; 5] = [
    "backends[].name",
    "backends[].servers[].name",
    "configurationError",
    "shapes",
    "topTalkers",
];

/// The report for callers with a grant.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusReport {
    #[serde(flatten)]
    process: ProcessReport,
    backends: Vec<Backend>,
    /// The reason why the file on disk is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_error: Option<String>,
    #[serde(flatten)]
    by_resource: ByResource<AnyResource>,
    /// The rules that leave something out of answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shapes: Vec<ShapeReport>,
    top_talkers: TopTalkers,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShapeReport {
    name: String,
    users: Vec<String>,
    groups: Vec<String>,
    user_agents: Vec<String>,
    resources: Vec<String>,
    /// The answers in the rule's shape, and the reads that were forwarded as they were.
    shaped: u64,
    whole: u64,
    left_out_bytes: u64,
}

#[derive(Serialize)]
struct Backend {
    name: String,
    servers: Vec<BackendServer>,
}

#[derive(Serialize)]
struct BackendServer {
    name: String,
    healthy: bool,
}

nameless! {
    /// The report for the port without authentication.
    pub(super) struct OpenStatusReport {
        #[serde(flatten)]
        process: ProcessReport,
        backends: Vec<OpenBackend>,
        #[serde(flatten)]
        by_resource: ByResource<ProvenResource>,
        /// The names of the fields that only callers with a grant get.
        withheld: Vec<&'static str>,
    }

    /// The servers of a Service. Its name and namespace are withheld.
    struct OpenBackend {
        servers: Vec<Health>,
    }

    struct Health {
        healthy: bool,
    }

    struct ProcessReport {
        version: &'static str,
        mode: &'static str,
        consistency: &'static str,
        uptime_seconds: f64,
        ready: bool,
        api_servers: Vec<ApiServer>,
        usage: Usage,
        totals: Totals,
        #[serde(skip_serializing_if = "Option::is_none")]
        queries: Option<QueriesReport>,
        advice: BTreeMap<&'static str, &'static str>,
        history: History,
    }

    struct ApiServer {
        name: ServerAddress,
        healthy: bool,
    }

    struct Usage {
        cpu_seconds_total: f64,
        /// The number of cores that the process may use.
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

    struct Totals {
        requests: u64,
        cache_hits: u64,
        cache_bypasses: u64,
        watchers: u64,
        upstream_requests: u64,
        spared_upstream_cpu_seconds: Spared,
    }

    struct QueriesReport {
        answered: u64,
        refused: u64,
        /// The orders that are kept, and their memory.
        orders: usize,
        order_bytes: usize,
        live_answers: u64,
    }

    struct History {
        sample_seconds: f64,
        samples: Vec<SampleReport>,
    }

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
}

pub(super) fn report(granted: &Granted, now: Instant) -> StatusReport {
    let generation = granted.generation();
    let reads = generation.metrics.cache.reads();
    let backends = generation.aggregation.distinct_backends().into_iter();
    StatusReport {
        process: process(generation, &reads, now),
        backends: backends
            .map(|backend| Backend {
                name: backend.name.clone(),
                servers: servers(&backend.upstream.load()),
            })
            .collect(),
        configuration_error: (generation.configuration_error)(),
        by_resource: by_resource(generation, &reads, now),
        shapes: shapes(generation),
        top_talkers: top_talkers(granted, now),
    }
}

fn shapes(generation: &Generation) -> Vec<ShapeReport> {
    let rules = generation.shapes.rules().into_iter();
    rules
        .map(|rule| {
            let settings = rule.settings().clone();
            let callers = settings.callers.unwrap_or_default();
            let resources = settings.resources.iter();
            let RuleReport {
                shaped,
                whole,
                left_out_bytes,
            } = rule.report();
            ShapeReport {
                name: settings.name,
                users: callers.users,
                groups: callers.groups,
                user_agents: settings.user_agents,
                resources: resources.map(ToString::to_string).collect(),
                shaped,
                whole,
                left_out_bytes,
            }
        })
        .collect()
}

/// Returns the present state of the process without the withheld fields.
pub(super) fn open_report(generation: &Generation, now: Instant) -> OpenStatusReport {
    let reads = generation.metrics.cache.reads();
    let backends = generation.aggregation.distinct_backends().into_iter();
    let health = |upstream: &Upstream| {
        let endpoints = upstream.endpoints().iter();
        let health = endpoints.map(|endpoint| endpoint.is_healthy());
        health.map(|healthy| Health { healthy }).collect()
    };
    OpenStatusReport {
        process: process(generation, &reads, now),
        backends: backends
            .map(|backend| OpenBackend {
                servers: health(&backend.upstream.load()),
            })
            .collect(),
        by_resource: by_resource(generation, &reads, now),
        withheld: WITHHELD.to_vec(),
    }
}

fn process(generation: &Generation, reads: &[Reads], now: Instant) -> ProcessReport {
    let reading = generation.reading(now);
    let advice = BypassReason::ALL.into_iter();
    let advice = advice.filter(|reason| reads.iter().any(|r| r.reason == reason.as_str()));
    let servers = ServerAddress::of_api_servers(generation).into_iter();
    let ready = generation.health.respond("/readyz", "", now);
    ProcessReport {
        version: env!("CARGO_PKG_VERSION"),
        mode: generation.settings.mode,
        consistency: generation.settings.cache.consistency.as_str(),
        uptime_seconds: now
            .saturating_duration_since(generation.started)
            .as_secs_f64(),
        ready: ready.is_some_and(|answer| answer.status.is_success()),
        api_servers: servers
            .map(|(name, healthy)| ApiServer { name, healthy })
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
        queries: queries(generation),
        advice: advice
            .map(|reason| (reason.as_str(), reason.advice()))
            .collect(),
        history: History {
            sample_seconds: SAMPLE_EVERY.as_secs_f64(),
            samples: (generation.history.samples(&reading).iter())
                .map(|sample| sample_report(sample, now))
                .collect(),
        },
    }
}

/// Returns what queries do, if they are on.
fn queries(generation: &Generation) -> Option<QueriesReport> {
    let (orders, order_bytes) = generation.query_orders.held();
    generation.settings.queries.enabled.then(|| QueriesReport {
        answered: generation.queries.count(Outcome::Answered),
        refused: generation.queries.count(Outcome::Refused),
        orders,
        order_bytes,
        live_answers: generation.query_windows.open_count(),
    })
}

fn spared(generation: &Generation) -> Spared {
    let asked = generation.metrics.upstream.own();
    generation.talkers.users(|all| {
        let answers = all.since_start(Measure::AnswersFromCache);
        Spared::estimate(answers, all.since_start(Measure::BytesFromCache), asked)
    })
}

fn servers(upstream: &Upstream) -> Vec<BackendServer> {
    let endpoints = upstream.endpoints().iter();
    endpoints
        .map(|endpoint| BackendServer {
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
