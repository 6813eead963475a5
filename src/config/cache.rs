//! `cache`: the resources that are served from memory, and how fresh they must
//! be.

use std::time::Duration;

use apifront_watch_cache::{
    CacheMode, CacheModes, Consistency, DropManagedFields, MemoryLimit, Persistence,
    ResourcePattern, Settings, ShadowLimits, ShardedListAndWatch,
};
use kubernetes_wire::api::GroupVersionResource;

use super::check::Check;
use super::raw;

/// The interval of the self-check in shadow mode.
const CHECKS_IN_SHADOW: Duration = Duration::from_secs(10 * 60);

/// The least memory for comparisons. One object of any size fits.
const LEAST_HELD: u64 = 4 << 20;

/// The defaults that depend on the kind of process.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    pub(super) consistency: Consistency,
    pub(super) preload: &'static [&'static str],
}

pub(super) fn check(raw: &raw::Cache, defaults: Defaults, check: &mut Check) -> Settings {
    let preload = patterns("cache.preload", &raw.preload, defaults.preload, check);
    for (i, pattern) in preload.iter().enumerate() {
        if !pattern.names_one_resource() {
            check.error(
                &format!("cache.preload[{i}]"),
                &pattern.to_string(),
                "must name one resource, without *",
            );
        }
    }
    let modes = modes(raw, check);
    let self_checks = match modes.have_shadow() {
        true => CHECKS_IN_SHADOW,
        false => Duration::ZERO,
    };
    Settings {
        modes,
        consistency: check.one_of(
            "cache.consistency",
            &raw.consistency,
            defaults.consistency,
            &[
                ("Strict", Consistency::Strict),
                ("Fresh", Consistency::Fresh),
                ("Bounded", Consistency::Bounded),
            ],
        ),
        sharded_list_and_watch: check.one_of(
            "cache.shardedListAndWatch",
            &raw.sharded_list_and_watch,
            ShardedListAndWatch::Upstream,
            &[
                ("Upstream", ShardedListAndWatch::Upstream),
                ("Always", ShardedListAndWatch::Always),
            ],
        ),
        drop_managed_fields: check.one_of(
            "cache.dropManagedFields",
            &raw.drop_managed_fields,
            DropManagedFields::Upstream,
            &[
                ("Upstream", DropManagedFields::Upstream),
                ("Always", DropManagedFields::Always),
            ],
        ),
        max_staleness: check.positive_duration(
            "cache.maxStaleness",
            &raw.max_staleness,
            Duration::from_secs(30),
        ),
        idle_timeout: check.duration(
            "cache.idleTimeout",
            &raw.idle_timeout,
            Duration::from_secs(30 * 60),
        ),
        self_check_interval: check.duration(
            "cache.selfCheck.interval",
            &raw.self_check.interval,
            self_checks,
        ),
        memory_limit: match check.bytes("cache.memoryLimit", &raw.memory_limit) {
            None => MemoryLimit::Automatic,
            Some(0) => MemoryLimit::Unlimited,
            Some(bytes) => MemoryLimit::Bytes(bytes),
        },
        include: patterns("cache.include", &raw.include, &["*"], check),
        // Events are written often, read rarely, and dropped by etcd after an
        // hour.
        exclude: patterns("cache.exclude", &raw.exclude, &["events"], check),
        aggregated: patterns("cache.aggregated", &raw.aggregated, &[], check),
        preload,
        pinned: Vec::new(),
        persistence: persistence(raw, check),
    }
}

fn modes(raw: &raw::Cache, check: &mut Check) -> CacheModes {
    let mode = |field: &str, raw: &Option<String>, check: &mut Check| {
        let choices = [CacheMode::Serve, CacheMode::Shadow].map(|mode| (mode.as_str(), mode));
        check.one_of(field, raw, CacheMode::Serve, &choices)
    };
    let default = mode("cache.mode", &raw.mode, check);
    let mut exceptions = Vec::new();
    for (i, exception) in raw.resource_modes.iter().flatten().enumerate() {
        let field = |name: &str| format!("cache.resourceModes[{i}].{name}");
        let resources = patterns(&field("resources"), &exception.resources, &[], check);
        if resources.is_empty() && exception.resources.iter().all(Vec::is_empty) {
            check.error(&field("resources"), "", "must name a resource");
        }
        if exception.mode.is_none() {
            check.error(&field("mode"), "", "needed: Serve or Shadow");
        }
        exceptions.push((resources, mode(&field("mode"), &exception.mode, check)));
    }
    let limits = CacheModes::SERVE.shadow;
    let default_rate = usize::try_from(limits.sampling_rate_per_million).unwrap_or_default();
    let rate = check.count(
        "cache.shadow.samplingRatePerMillion",
        raw.shadow.sampling_rate_per_million,
        default_rate,
        0..=1_000_000,
    );
    let field = "cache.shadow.maxHeldBytes";
    let held = check.bytes(field, &raw.shadow.max_held_bytes);
    if let (Some(bytes), Some(text)) = (held, &raw.shadow.max_held_bytes)
        && bytes < LEAST_HELD
    {
        check.error(field, &text.0, "must be at least 4Mi");
    }
    let held = held.and_then(|bytes| usize::try_from(bytes).ok());
    CacheModes {
        default,
        exceptions,
        shadow: ShadowLimits {
            sampling_rate_per_million: u32::try_from(rate).unwrap_or_default(),
            max_held_bytes: held.unwrap_or(limits.max_held_bytes),
        },
    }
}

/// The shortest interval. Each save of a large resource takes seconds of disk
/// and CPU.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

fn persistence(raw: &raw::Cache, check: &mut Check) -> Option<Persistence> {
    let directory = check.file("cache.directory", &raw.directory);
    let raw = &raw.persistence;
    if directory.is_none() && *raw != raw::Persistence::default() {
        check.error("cache.persistence", "", "needs cache.directory");
    }
    let interval = check.duration(
        "cache.persistence.interval",
        &raw.interval,
        Duration::from_secs(60),
    );
    if interval < SHORTEST_INTERVAL {
        let text = raw.interval.as_deref().unwrap_or_default();
        check.error("cache.persistence.interval", text, "must be at least 1s");
    }
    let key = "cache.persistence.encryptionKeyFile";
    let encryption_key_file = check.file(key, &raw.encryption_key_file);
    let field = "cache.persistence.exclude";
    let exclude = patterns(field, &raw.exclude, &["secrets"], check);
    let secrets = GroupVersionResource::new("", "v1", "secrets");
    if encryption_key_file.is_none() && !exclude.iter().any(|p| p.matches(&secrets)) {
        check.error(
            key,
            "",
            "needed, because cache.persistence.exclude lacks secrets",
        );
    }
    Some(Persistence {
        directory: directory?,
        interval,
        encryption_key_file,
        exclude,
    })
}

pub(super) fn patterns(
    field: &str,
    raw: &Option<Vec<String>>,
    default: &[&str],
    check: &mut Check,
) -> Vec<ResourcePattern> {
    let Some(list) = raw else {
        return default
            .iter()
            .filter_map(|p| ResourcePattern::parse(p))
            .collect();
    };
    let mut patterns = Vec::with_capacity(list.len());
    for (i, text) in list.iter().enumerate() {
        match ResourcePattern::parse(text) {
            Some(pattern) => patterns.push(pattern),
            None => check.error(
                &format!("{field}[{i}]"),
                text,
                "must be like pods, deployments.apps, deployments.v1.apps, *.apps or *",
            ),
        }
    }
    patterns
}
