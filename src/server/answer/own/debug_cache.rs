//! The answer to `/debug/cache`: the cached resources, their states, and how they
//! compare with upstream. `docs/operations/answers.md` documents the answer. The
//! port without authentication shows only resources whose names are proven, and only
//! the result of each comparison.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::{HISTORY_AGE, KeyScope, Store};
use apifront_watch_cache::{Consistency, ResourcePattern};
use http::StatusCode;
use kubernetes_wire::api::{GroupVersionResource, Query, Status};
use kubernetes_wire::representation::Encoding;
use serde::Serialize;

use super::nameless::{AnyResource, Named, ProvenResource, VersionNumber, named, nameless};
use super::open_answer::OpenAnswer;
use crate::metrics::BYTES;
use crate::server::reply::answer::Answer;
use crate::server::stage::Granted;
use crate::server::state::gauges;
use crate::server::state::generation::Generation;
use apifront_watch_cache::self_check::Checked;

/// The answer to callers with a grant.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CacheReport {
    #[serde(flatten)]
    settings: CacheSettings,
    resources: Vec<Named<AnyResource, ResourceReport>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceReport {
    #[serde(flatten)]
    state: ResourceState,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_check: Option<CheckReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckReport {
    #[serde(flatten)]
    result: CheckResult,
    /// The reason why the check was skipped, or the fingerprints of the difference
    /// that it found.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

nameless! {
    /// The answer for the port without authentication.
    struct OpenCacheReport {
        #[serde(flatten)]
        settings: CacheSettings,
        resources: Vec<Named<ProvenResource, OpenResource>>,
        /// The number of resources whose names no answer has proved.
        resources_omitted: usize,
    }

    struct OpenResource {
        #[serde(flatten)]
        state: ResourceState,
        #[serde(skip_serializing_if = "Option::is_none")]
        self_check: Option<CheckResult>,
    }

    struct CacheSettings {
        version: &'static str,
        uptime_seconds: f64,
        mode: &'static str,
        cache_mode: &'static str,
        consistency: &'static str,
        max_staleness_seconds: f64,
        self_check_interval_seconds: f64,
    }

    pub(super) struct ResourceState {
        /// `listing`, `watching`, or `refused` by upstream.
        pub(super) state: &'static str,
        #[serde(flatten)]
        pub(super) store: Option<StoreReport>,
    }

    /// The store of a resource that has been listed.
    pub(super) struct StoreReport {
        pub(super) resource_version: VersionNumber,
        pub(super) objects: usize,
        /// The encoding of upstream's objects. It is JSON for custom resources, and
        /// for built-in kinds whose protobuf the schema does not know.
        #[serde(skip_serializing_if = "Option::is_none")]
        encoding: Option<&'static str>,
        bytes: BTreeMap<&'static str, usize>,
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
    }

    struct HistoryReport {
        events: usize,
        /// Watches from a lower version are forwarded to upstream.
        oldest_version: VersionNumber,
        /// The age of the oldest event, or 0 without events.
        age_seconds: f64,
        /// Events older than this are dropped.
        max_age_seconds: f64,
    }

    struct ProbesReport {
        /// How long a read waits for late events after a probe.
        settle_seconds: f64,
        /// Whether reads go to upstream for a while, because events came later than
        /// promised.
        suspended: bool,
    }

    /// The last restart of upstream's list or watch, and its reason.
    struct Restart {
        reason: &'static str,
        seconds_ago: f64,
    }

    /// The result of a self-check, without the differences.
    struct CheckResult {
        result: &'static str,
        resource_version: VersionNumber,
        objects: usize,
        seconds_ago: f64,
    }
}

pub(super) fn answer(granted: &Granted, now: Instant) -> Answer {
    let (generation, query) = (granted.generation(), granted.query());
    let of_status = |status| Answer::from_status(&status, &http::HeaderMap::new(), query);
    let patterns = match patterns(query) {
        Ok(patterns) => patterns,
        Err(status) => return of_status(status),
    };
    let checked = |gvr: &_| generation.self_checks.last(gvr);
    let resources = states(generation, &patterns, now).map(|(gvr, state)| {
        let self_check = checked(&gvr).map(|checked| check_report(checked, now));
        (gvr, ResourceReport { state, self_check })
    });
    let (resources, _) = named(resources, &generation.metrics.known, usize::MAX);
    let report = CacheReport {
        settings: settings(generation, now),
        resources,
    };
    match serde_json::to_vec_pretty(&report) {
        Ok(mut body) => {
            body.push(b'\n');
            Answer::new(StatusCode::OK, "application/json", vec![body.into()])
        }
        Err(error) => of_status(Status::internal_error(error)),
    }
}

/// Returns the answer for the port without authentication.
pub(super) fn open(generation: &Generation, query: &Query, now: Instant) -> OpenAnswer {
    let Ok(patterns) = patterns(query) else {
        return OpenAnswer::text(StatusCode::BAD_REQUEST, "400 no such form of resource=");
    };
    let checked = |gvr: &_| generation.self_checks.last(gvr);
    let resources = states(generation, &patterns, now).map(|(gvr, state)| {
        let self_check = checked(&gvr).map(|checked| check_result(&checked, now));
        (gvr, OpenResource { state, self_check })
    });
    let (resources, resources_omitted) = named(resources, &generation.metrics.known, usize::MAX);
    OpenAnswer::report(&OpenCacheReport {
        settings: settings(generation, now),
        resources,
        resources_omitted,
    })
}

fn settings(generation: &Generation, now: Instant) -> CacheSettings {
    let cache = &generation.settings.cache;
    let uptime = now.saturating_duration_since(generation.started);
    CacheSettings {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: uptime.as_secs_f64(),
        mode: generation.settings.mode,
        cache_mode: cache.modes.default.as_str(),
        consistency: cache.consistency.as_str(),
        max_staleness_seconds: cache.max_staleness.as_secs_f64(),
        self_check_interval_seconds: cache.self_check_interval.as_secs_f64(),
    }
}

/// Returns the states of the cached resources that match a pattern, or of all
/// resources if there is no pattern.
pub(super) fn states(
    generation: &Generation,
    patterns: &[ResourcePattern],
    now: Instant,
) -> impl Iterator<Item = (GroupVersionResource, ResourceState)> {
    let mut entries = generation.cache.entries();
    entries.retain(|e| patterns.is_empty() || patterns.iter().any(|p| p.matches(&e.gvr)));
    entries.sort_by(|a, b| {
        let key = |e: &Arc<Entry>| (e.gvr.group.clone(), e.gvr.resource.clone());
        (key(a), &a.gvr.version).cmp(&(key(b), &b.gvr.version))
    });
    let entries = entries.into_iter();
    entries.map(move |entry| (entry.gvr.clone(), state(generation, &entry, now)))
}

impl StoreReport {
    pub(super) fn total_bytes(&self) -> u64 {
        let bytes = self.bytes.values().copied();
        let bytes = bytes.fold(0, usize::saturating_add);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Reads patterns in the form of the configuration, or in kubectl's form: its
/// `pods.v1.` ends with the dot before an empty group.
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

fn state(generation: &Generation, entry: &Entry, now: Instant) -> ResourceState {
    let store = entry.store();
    let refused = entry.lifecycle().disconnected_for(now) == Duration::MAX;
    let state = match &store {
        _ if refused => Some("refused"),
        // Only resources that could be listed have metric series.
        Some(_) => generation.metrics.cache.resource(&entry.gvr).state(),
        None => None,
    };
    ResourceState {
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
        resource_version: VersionNumber(state.resource_version),
        objects: state.objects,
        encoding: store
            .snapshot()
            .iter(&KeyScope::All)
            .next()
            .map(|o| match o.encoding() {
                Encoding::Json => "json",
                Encoding::Protobuf => "protobuf",
            }),
        bytes: bytes.map(|(kind, bytes)| (*kind, bytes)).collect(),
        watchers: series.watchers.get(),
        snapshots: state.snapshots,
        history: HistoryReport {
            events: window.events,
            oldest_version: VersionNumber(window.oldest_version),
            age_seconds: state.history.as_secs_f64(),
            max_age_seconds: HISTORY_AGE.as_secs_f64(),
        },
        staleness_seconds: state.staleness.as_secs_f64(),
        lag_seconds: state.lag.as_secs_f64(),
        probes: (generation.settings.cache.consistency != Consistency::Strict).then(|| {
            ProbesReport {
                settle_seconds: entry.freshness().settle(now).as_secs_f64(),
                suspended: entry.freshness().is_suspended(now),
            }
        }),
        last_restart: series.last_restart().map(|(reason, at)| Restart {
            reason,
            seconds_ago: ago(at),
        }),
    }
}

pub(super) fn check_report(checked: Checked, now: Instant) -> CheckReport {
    CheckReport {
        result: check_result(&checked, now),
        message: checked.message,
    }
}

fn check_result(checked: &Checked, now: Instant) -> CheckResult {
    CheckResult {
        result: checked.result.as_str(),
        resource_version: VersionNumber(checked.version),
        objects: checked.objects,
        seconds_ago: now.saturating_duration_since(checked.at).as_secs_f64(),
    }
}
