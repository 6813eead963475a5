//! `cache.degraded`: the reads that go on while no API server can be reached.

use std::time::Duration;

use apifront_watch_cache::{ResourcePattern, Settings};
use kubernetes_wire::api::GroupVersionResource;

use super::cache::patterns;
use super::check::Check;
use super::raw;
use crate::authz::rbac::RBAC;
use crate::authz::{DegradedAuthorization, DegradedBounds, NamedCallers};
use crate::outage::{Degraded, DegradedReads};

/// Unreachable servers are asked once a second. In less time than this, a single
/// lost connection would start the mode.
const LEAST_AFTER: Duration = Duration::from_secs(2);

/// Checks the section. Adds the resources that the mode needs to the preloaded ones.
pub(super) fn check(
    raw: &raw::Degraded,
    has_callers: bool,
    cache: &mut Settings,
    check: &mut Check,
) -> Option<Degraded> {
    let after = check.duration("cache.degraded.after", &raw.after, Duration::from_secs(5));
    if after < LEAST_AFTER {
        let text = raw.after.as_deref().unwrap_or_default();
        check.error("cache.degraded.after", text, "must be at least 2s");
    }
    let authorization = check.one_of(
        "cache.degraded.authorization",
        &raw.authorization,
        DegradedAuthorization::Cached,
        &[
            ("Cached", DegradedAuthorization::Cached),
            ("RBAC", DegradedAuthorization::Rbac),
        ],
    );
    let max_age = check.duration("cache.degraded.maxAge", &raw.max_age, Duration::ZERO);
    let reads = raw.reads.as_deref().unwrap_or_default();
    if reads.is_empty() {
        return None;
    }
    if !has_callers {
        let why = "needs a configuration file: callers are not told apart otherwise";
        check.error("cache.degraded.reads", "", why);
    }
    if raw.max_age.is_none() {
        check.error("cache.degraded.maxAge", "", "needed with reads");
    } else if max_age < cache.max_staleness {
        let text = raw.max_age.as_deref().unwrap_or_default();
        let why = "must not be less than cache.maxStaleness";
        check.error("cache.degraded.maxAge", text, why);
    }
    let reads: Vec<DegradedReads> = (0..)
        .zip(reads)
        .map(|(i, reads)| checked_reads(&format!("cache.degraded.reads[{i}]"), reads, cache, check))
        .collect();
    let named = reads.iter().flat_map(|reads| &reads.resources);
    preload(cache, named.filter(|p| p.names_one_resource()).cloned());
    if authorization == DegradedAuthorization::Rbac {
        preload_rbac("cache.degraded.authorization", cache, check);
    }
    Some(Degraded {
        reads,
        after,
        bounds: DegradedBounds {
            max_age,
            authorization,
        },
    })
}

/// Adds RBAC's resources to the preloaded ones. `field` turns on the feature that
/// needs them.
pub(super) fn preload_rbac(field: &str, cache: &mut Settings, check: &mut Check) {
    let rbac: Vec<_> = RBAC
        .iter()
        .filter_map(|p| ResourcePattern::parse(p))
        .collect();
    for pattern in rbac.iter().filter(|pattern| is_excluded(pattern, cache)) {
        let why = "RBAC needs resources that are excluded from the cache";
        check.error(field, &pattern.to_string(), why);
    }
    preload(cache, rbac);
}

fn checked_reads(
    field: &str,
    raw: &raw::DegradedReads,
    cache: &Settings,
    check: &mut Check,
) -> DegradedReads {
    let resources = patterns(&format!("{field}.resources"), &raw.resources, &[], check);
    if raw.resources.as_deref().unwrap_or_default().is_empty() {
        check.error(&format!("{field}.resources"), "", "needed");
    }
    for pattern in resources
        .iter()
        .filter(|pattern| is_excluded(pattern, cache))
    {
        let why = "is excluded from the cache";
        check.error(&format!("{field}.resources"), &pattern.to_string(), why);
    }
    let groups = raw.groups.clone().unwrap_or_default();
    let users = raw.users.clone().unwrap_or_default();
    if groups.is_empty() && users.is_empty() {
        let why = "needed, or users; * is everybody";
        check.error(&format!("{field}.groups"), "", why);
    }
    if groups.iter().chain(&users).any(String::is_empty) {
        check.error(field, "", "a group or a user must not be empty");
    }
    DegradedReads {
        resources,
        callers: NamedCallers { users, groups },
    }
}

/// Tells whether the pattern names one resource that the cache never holds.
fn is_excluded(pattern: &ResourcePattern, cache: &Settings) -> bool {
    let gvr = match pattern {
        ResourcePattern::Exact(gvr) => gvr.clone(),
        ResourcePattern::GroupResource { group, resource } => {
            GroupVersionResource::new(group, "v1", resource)
        }
        ResourcePattern::All | ResourcePattern::Group(_) => return false,
    };
    !cache.caches(&gvr)
}

fn preload(cache: &mut Settings, patterns: impl IntoIterator<Item = ResourcePattern>) {
    for pattern in patterns {
        if !cache.preload.contains(&pattern) {
            cache.preload.push(pattern);
        }
    }
}
