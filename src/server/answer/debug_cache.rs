//! The answer to `/debug/cache`: the cached resources, their states, and how
//! they compare with upstream. `docs/operations.md` documents the answer.

use std::time::{Duration, Instant};

use apifront_watch_cache::metrics::BYTES;
use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::{HISTORY_AGE, Scope, Store};
use apifront_watch_cache::{Consistency, ResourcePattern};
use http::StatusCode;
use kubernetes_wire::api::{Query, Status};
use kubernetes_wire::representation::Encoding;
use serde::Serialize;

use super::respond::Answer;
use crate::config::Mode;
use crate::server::state::gauges;
use crate::server::state::generation::Generation;
use apifront_watch_cache::self_check::Checked;

pub(in crate::server) const CACHE_PATH: &str = "/debug/cache";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CacheReport {
    version: &'static str,
    uptime_seconds: f64,
    mode: &'static str,
    cache_mode: &'static str,
    consistency: &'static str,
    max_staleness_seconds: f64,
    self_check_interval_seconds: f64,
    resources: Vec<ResourceReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceReport {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    /// `listing`, `watching`, or `refused` by upstream.
    pub(super) state: &'static str,
    #[serde(flatten)]
    pub(super) store: Option<StoreReport>,
}

/// The store of a resource that has been listed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoreReport {
    pub(super) resource_version: String,
    pub(super) objects: usize,
    /// The encoding of upstream's objects. It is JSON for custom resources, and
    /// for built-in kinds whose protobuf the schema does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    bytes: serde_json::Map<String, serde_json::Value>,
    pub(super) watchers: i64,
    snapshots: usize,
    history: HistoryReport,
    pub(super) staleness_seconds: f64,
    pub(super) lag_seconds: f64,
    /// Present in the modes that ask upstream for its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    probes: Option<ProbesReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_restart: Option<Restart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_check: Option<CheckReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryReport {
    events: usize,
    /// Watches from a lower version are forwarded to upstream.
    oldest_version: String,
    /// The age of the oldest event, or 0 without events.
    age_seconds: f64,
    /// Events older than this are dropped.
    max_age_seconds: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProbesReport {
    /// The time that a read waits for late events after a probe.
    settle_seconds: f64,
    /// Whether reads go upstream for a while, because events came later than
    /// promised.
    suspended: bool,
}

/// The last time that upstream's list or watch was begun anew, and why.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Restart {
    reason: &'static str,
    seconds_ago: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckReport {
    result: &'static str,
    /// The reason why the check was skipped, or the difference that it found.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    resource_version: String,
    objects: usize,
    seconds_ago: f64,
}

/// Returns the answer to `/debug/cache?resource=…`.
pub(in crate::server) fn answer(generation: &Generation, query: &Query, now: Instant) -> Answer {
    let patterns = match patterns(query) {
        Ok(patterns) => patterns,
        Err(status) => return Answer::from_status(&status, &http::HeaderMap::new(), query),
    };
    let cache = &generation.config.cache;
    let report = CacheReport {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: now
            .saturating_duration_since(generation.started)
            .as_secs_f64(),
        mode: mode(generation),
        cache_mode: cache.modes.default.as_str(),
        consistency: cache.consistency.as_str(),
        max_staleness_seconds: cache.max_staleness.as_secs_f64(),
        self_check_interval_seconds: cache.self_check_interval.as_secs_f64(),
        resources: resources(generation, &patterns, now),
    };
    match serde_json::to_vec_pretty(&report) {
        Ok(mut body) => {
            body.push(b'\n');
            Answer::new(StatusCode::OK, "application/json", vec![body.into()])
        }
        Err(error) => {
            let status = Status::internal_error(error);
            Answer::from_status(&status, &http::HeaderMap::new(), query)
        }
    }
}

/// Returns the reports of the cached resources that a pattern matches, or of all
/// if there is no pattern.
pub(super) fn resources(
    generation: &Generation,
    patterns: &[ResourcePattern],
    now: Instant,
) -> Vec<ResourceReport> {
    let mut entries = generation.cache.entries();
    entries.retain(|e| patterns.is_empty() || patterns.iter().any(|p| p.matches(&e.gvr)));
    entries.sort_by(|a, b| {
        let key = |e: &Entry| (e.gvr.group.clone(), e.gvr.resource.clone());
        (key(a), &a.gvr.version).cmp(&(key(b), &b.gvr.version))
    });
    let entries = entries.iter();
    entries.map(|e| resource(generation, e, now)).collect()
}

pub(super) fn mode(generation: &Generation) -> &'static str {
    match generation.config.mode() {
        Mode::Demo => "demo",
        Mode::Personal => "personal",
        Mode::Front => "front",
    }
}

impl StoreReport {
    /// Returns the bytes of every kind together.
    pub(super) fn total_bytes(&self) -> u64 {
        let bytes = self.bytes.values().filter_map(serde_json::Value::as_u64);
        bytes.fold(0, u64::saturating_add)
    }
}

/// Reads patterns in the form of the configuration, or in that of kubectl,
/// whose `pods.v1.` ends with the dot before an empty group.
fn patterns(query: &Query) -> Result<Vec<ResourcePattern>, Status> {
    let wanted = query.all("resource");
    wanted
        .map(|text| {
            let plain = text.strip_suffix('.').unwrap_or(text);
            ResourcePattern::parse(plain).ok_or_else(|| {
                Status::bad_request(format!(
                    "resource: {text:?}: must be like pods, deployments.apps, \
                     deployments.v1.apps, *.apps or *"
                ))
            })
        })
        .collect()
}

fn resource(generation: &Generation, entry: &Entry, now: Instant) -> ResourceReport {
    let store = entry.store();
    let refused = entry.disconnected_for(now) == Duration::MAX;
    let state = match &store {
        _ if refused => Some("refused"),
        // Only resources that could be listed have metric series.
        Some(_) => generation.metrics.cache.resource(&entry.gvr).state(),
        None => None,
    };
    ResourceReport {
        group: entry.gvr.group.clone(),
        version: entry.gvr.version.clone(),
        resource: entry.gvr.resource.clone(),
        state: state.unwrap_or("listing"),
        store: store.map(|store| self::store(generation, entry, &store, now)),
    }
}

fn store(generation: &Generation, entry: &Entry, store: &Store, now: Instant) -> StoreReport {
    let state = gauges::state(entry, store, now);
    let window = store.window();
    let series = generation.metrics.cache.resource(&entry.gvr);
    let ago = |then: Instant| now.saturating_duration_since(then).as_secs_f64();
    let bytes = BYTES.iter().zip(state.bytes);
    StoreReport {
        resource_version: state.resource_version.to_string(),
        objects: state.objects,
        encoding: store
            .snapshot()
            .iter(&Scope::All)
            .next()
            .map(|o| match o.encoding() {
                Encoding::Json => "json",
                Encoding::Protobuf => "protobuf",
            }),
        bytes: bytes
            .map(|(kind, bytes)| ((*kind).to_owned(), bytes.into()))
            .collect(),
        watchers: series.watchers.get(),
        snapshots: state.snapshots,
        history: HistoryReport {
            events: window.events,
            oldest_version: window.oldest_version.to_string(),
            age_seconds: state.history.as_secs_f64(),
            max_age_seconds: HISTORY_AGE.as_secs_f64(),
        },
        staleness_seconds: state.staleness.as_secs_f64(),
        lag_seconds: state.lag.as_secs_f64(),
        probes: (generation.config.cache.consistency != Consistency::Strict).then(|| {
            ProbesReport {
                settle_seconds: entry.settle(now).as_secs_f64(),
                suspended: entry.is_suspended(now),
            }
        }),
        last_restart: series.last_restart().map(|(reason, at)| Restart {
            reason,
            seconds_ago: ago(at),
        }),
        self_check: generation
            .self_checks
            .last(&entry.gvr)
            .map(|checked| check_report(checked, now)),
    }
}

/// Reports the last self-check of a resource.
pub(super) fn check_report(checked: Checked, now: Instant) -> CheckReport {
    let Checked {
        result,
        message,
        version,
        objects,
        at,
    } = checked;
    CheckReport {
        result: result.as_str(),
        message,
        resource_version: version.to_string(),
        objects,
        seconds_ago: now.saturating_duration_since(at).as_secs_f64(),
    }
}
