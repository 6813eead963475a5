//! The settings of a cache, which the program around it chooses.

use std::path::PathBuf;
use std::time::Duration;

use kubernetes_wire::api::GroupVersionResource;

use crate::ResourcePattern;

/// The resources that are served from memory, and the freshness that they need.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub modes: CacheModes,
    pub consistency: Consistency,
    pub sharded_list_and_watch: ShardedListAndWatch,
    pub drop_managed_fields: DropManagedFields,
    pub max_staleness: Duration,
    /// The time without a reader after which a resource is dropped. Zero for
    /// never.
    pub idle_timeout: Duration,
    /// The interval of the self-check. Zero for never.
    pub self_check_interval: Duration,
    pub memory_limit: MemoryLimit,
    pub include: Vec<ResourcePattern>,
    pub exclude: Vec<ResourcePattern>,
    /// Resources of aggregated servers. To name one is to promise that its server
    /// shows the same objects to every caller who may list them.
    pub aggregated: Vec<ResourcePattern>,
    /// The resources that are cached before the first request. Each pattern
    /// names one resource, not a group.
    pub preload: Vec<ResourcePattern>,
    /// The resources that the program around the cache reads itself. They stay
    /// cached: `include` and `exclude` are about the reads of its clients.
    pub pinned: Vec<ResourcePattern>,
    /// `None` if stores are not saved.
    pub persistence: Option<Persistence>,
}

/// How stores are saved, so that they outlive the process.
#[derive(Clone, Debug, PartialEq)]
pub struct Persistence {
    pub directory: PathBuf,
    /// The time between two saves of a resource that changes.
    pub interval: Duration,
    pub encryption_key_file: Option<PathBuf>,
    /// The resources that are never saved.
    pub exclude: Vec<ResourcePattern>,
}

/// Whether reads are answered from memory, by resource.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheModes {
    /// The mode of resources that no exception names.
    pub default: CacheMode,
    /// The first exception that names a resource counts.
    pub exceptions: Vec<(Vec<ResourcePattern>, CacheMode)>,
    pub shadow: ShadowLimits,
}

/// How a resource in memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// Reads are answered from it.
    Serve,
    /// Every read is forwarded. For a sample of reads, the cache also makes its own
    /// answer and compares it with upstream's.
    Shadow,
}

/// The bounds for the cost of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowLimits {
    /// The number of reads in a million that are compared.
    pub sampling_rate_per_million: u32,
    /// The most bytes of upstream's answers that are held at a time.
    pub max_held_bytes: usize,
}

/// The program around the cache decides these things. They may change while the cache
/// runs.
pub trait Policy {
    fn settings(&self) -> &Settings;

    /// Tells whether clients may see the resource at all.
    fn serves(&self, gvr: &GroupVersionResource) -> bool;
}

/// The bound for the cached objects and everything kept about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A share of the container's memory, or the machine's.
    Automatic,
    Unlimited,
    Bytes(u64),
}

/// The proof of freshness for a read without a resourceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// An upstream read that began after the request. Reads are linearizable.
    Strict,
    /// A probe. Reads are stale by milliseconds at most in practice.
    Fresh,
    /// A proof that is not older than `max_staleness`.
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

/// Which reads with `drop=metadata.managedFields` in their Accept header (KEP-5958) are
/// answered from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropManagedFields {
    /// Those that upstream would answer so, too. Others are forwarded.
    Upstream,
    /// All that the cache can answer.
    Always,
}

/// Which requests with a `shardSelector` (KEP-5866) are answered from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardedListAndWatch {
    /// Those that upstream would answer, too. Others are forwarded.
    Upstream,
    /// All of them. None is forwarded, because a server that does not know the
    /// selector would ignore it.
    Always,
}

impl CacheMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serve => "Serve",
            Self::Shadow => "Shadow",
        }
    }
}

impl CacheModes {
    /// Every resource is served.
    pub const SERVE: Self = Self {
        default: CacheMode::Serve,
        exceptions: Vec::new(),
        shadow: ShadowLimits {
            sampling_rate_per_million: 100_000,
            max_held_bytes: 128 << 20,
        },
    };

    /// Returns the mode of a resource.
    pub fn for_resource(&self, gvr: &GroupVersionResource) -> CacheMode {
        let named = |(patterns, _): &&(Vec<ResourcePattern>, CacheMode)| {
            patterns.iter().any(|pattern| pattern.matches(gvr))
        };
        let exception = self.exceptions.iter().find(named);
        exception.map_or(self.default, |(_, mode)| *mode)
    }

    /// Tells whether any resource may be in shadow mode.
    pub fn have_shadow(&self) -> bool {
        let named = self
            .exceptions
            .iter()
            .any(|(_, mode)| *mode == CacheMode::Shadow);
        named || self.default == CacheMode::Shadow
    }
}

impl Settings {
    /// Tells whether `gvr` may be served from memory.
    pub fn caches(&self, gvr: &GroupVersionResource) -> bool {
        self.include.iter().any(|p| p.matches(gvr)) && !self.exclude.iter().any(|p| p.matches(gvr))
    }

    /// Tells whether the server of `gvr` is promised to show every caller the same.
    pub fn trusts(&self, gvr: &GroupVersionResource) -> bool {
        self.aggregated.iter().any(|p| p.matches(gvr))
    }

    /// Tells whether the program around the cache reads `gvr` itself.
    pub fn pins(&self, gvr: &GroupVersionResource) -> bool {
        self.pinned.iter().any(|p| p.matches(gvr))
    }

    /// Tells whether the store of `gvr` may be saved. APIServices are never saved:
    /// upstream is asked anew after each start which resources it serves itself.
    pub fn saves(&self, gvr: &GroupVersionResource) -> bool {
        let may = |p: &Persistence| !p.exclude.iter().any(|p| p.matches(gvr));
        self.persistence.as_ref().is_some_and(may)
            && self.caches(gvr)
            && gvr.group != "apiregistration.k8s.io"
    }
}
