//! The settings of a cache, which its owner chooses.

use std::time::Duration;

use kubernetes_wire::api::GroupVersionResource;

use crate::ResourcePattern;

/// These say which resources are served from memory, and how fresh they must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
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

/// A policy decides over a cache while it runs.
pub trait Policy {
    fn settings(&self) -> &Settings;

    /// Whether clients may see the resource at all.
    fn serves(&self, gvr: &GroupVersionResource) -> bool;
}

/// The memory that the cached objects and all that is kept of them may take.
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

impl Settings {
    /// Whether `gvr` may be served from memory.
    pub fn caches(&self, gvr: &GroupVersionResource) -> bool {
        self.include.iter().any(|p| p.matches(gvr)) && !self.exclude.iter().any(|p| p.matches(gvr))
    }
}
