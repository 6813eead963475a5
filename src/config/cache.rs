//! `cache`: what is served from memory and how fresh it must be.

use std::time::Duration;

use super::ResourcePattern;
use super::check::Check;
use super::raw;
use crate::api::GroupVersionResource;

/// Checked `cache`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    pub consistency: Consistency,
    pub max_staleness: Duration,
    /// After this long without a reader a resource is dropped; zero for never.
    pub idle_timeout: Duration,
    /// Zero for never.
    pub self_check_interval: Duration,
    pub memory_limit: MemoryLimit,
    pub include: Vec<ResourcePattern>,
    pub exclude: Vec<ResourcePattern>,
    /// Each names one resource, not all of a group.
    pub preload: Vec<ResourcePattern>,
}

/// What the cached objects and all that is kept of them may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A share of the container's memory, or the machine's.
    Automatic,
    Unlimited,
    Bytes(u64),
}

/// How a read without a resourceVersion is proven fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// By an upstream read that began after the request: linearizable.
    Strict,
    /// By a probe: stale by milliseconds at most in practice.
    Fresh,
    /// By a proof not older than `max_staleness`.
    Bounded,
}

impl Consistency {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Fresh => "Fresh",
            Self::Bounded => "Bounded",
        }
    }
}

/// What depends on who is served.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    pub(super) consistency: Consistency,
    pub(super) preload: &'static [&'static str],
}

impl Cache {
    /// Whether `gvr` may be served from memory.
    pub fn caches(&self, gvr: &GroupVersionResource) -> bool {
        self.include.iter().any(|p| p.matches(gvr)) && !self.exclude.iter().any(|p| p.matches(gvr))
    }

    pub(super) fn check(raw: &raw::Cache, defaults: Defaults, check: &mut Check) -> Self {
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
        Self {
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
                Duration::ZERO,
            ),
            memory_limit: match check.bytes("cache.memoryLimit", &raw.memory_limit) {
                None => MemoryLimit::Automatic,
                Some(0) => MemoryLimit::Unlimited,
                Some(bytes) => MemoryLimit::Bytes(bytes),
            },
            include: patterns("cache.include", &raw.include, &["*"], check),
            // Written often, read rarely, and dropped by etcd after an hour.
            exclude: patterns("cache.exclude", &raw.exclude, &["events"], check),
            preload,
        }
    }
}

fn patterns(
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
