//! A rule in force.

use apifront_watch_cache::LeftOut;
use http::HeaderMap;
use http::header::USER_AGENT;
use kubernetes_wire::api::{GroupVersionResource, UserInfo};

use super::metrics::RuleCounters;
use super::{ManagedFields, ShapeRule};

pub struct Rule {
    settings: ShapeRule,
    counters: RuleCounters,
}

/// What a rule has done since the start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The answers in the rule's shape. A watch is one answer.
    pub shaped: u64,
    /// The reads that were forwarded, and answered as they were asked.
    pub whole: u64,
    /// The bytes that the shape left out of answers, before they were compressed.
    pub left_out_bytes: u64,
}

impl Rule {
    pub(super) fn new(settings: ShapeRule, counters: RuleCounters) -> Self {
        Self { settings, counters }
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    pub fn settings(&self) -> &ShapeRule {
        &self.settings
    }

    pub(super) fn names(
        &self,
        user: Option<&UserInfo>,
        headers: &HeaderMap,
        gvr: &GroupVersionResource,
    ) -> bool {
        let ShapeRule {
            callers,
            user_agents,
            resources,
            ..
        } = &self.settings;
        let agent = headers.get(USER_AGENT).map_or(&[][..], |v| v.as_bytes());
        let begins = |prefix: &String| agent.starts_with(prefix.as_bytes());
        resources.iter().any(|pattern| pattern.matches(gvr))
            && (user_agents.is_empty() || user_agents.iter().any(begins))
            && callers
                .as_ref()
                .is_none_or(|callers| user.is_some_and(|user| callers.names(user)))
    }

    pub(super) fn drops_managed_fields(&self) -> bool {
        self.settings.managed_fields == ManagedFields::Drop
    }

    pub fn left_out(&self) -> LeftOut {
        self.counters.left_out.clone()
    }

    /// Counts an answer in the rule's shape.
    pub fn count_shaped(&self) {
        self.counters.shaped.inc();
    }

    /// Counts a read that was forwarded as it was asked.
    pub fn count_whole(&self) {
        self.counters.whole.inc();
    }

    pub fn report(&self) -> RuleReport {
        RuleReport {
            shaped: self.counters.shaped.get(),
            whole: self.counters.whole.get(),
            left_out_bytes: self.counters.left_out.bytes(),
        }
    }
}
