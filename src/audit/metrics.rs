//! The metrics of auditing, under kube-apiserver's names.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use super::level::Level;

/// The part of auditing that lost an event, for the label `plugin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// The buffer before a backend was full.
    Buffered,
    /// The log file could not be written.
    Log,
    /// The event was larger than allowed even without its objects.
    Truncate,
    /// The webhook did not accept the event.
    Webhook,
}

impl Plugin {
    pub const ALL: [Self; 4] = [Self::Buffered, Self::Log, Self::Truncate, Self::Webhook];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Log => "log",
            Self::Truncate => "truncate",
            Self::Webhook => "webhook",
        }
    }
}

#[derive(Clone)]
pub struct AuditMetrics {
    events: IntCounter,
    errors: IntCounterVec,
    /// The counters, in the order of [`Level::ALL`].
    levels: [IntCounter; Level::ALL.len()],
}

impl AuditMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let events = IntCounter::new(
            "apiserver_audit_event_total",
            "Counter of audit events generated and sent to the audit backend.",
        )?;
        let errors = IntCounterVec::new(
            Opts::new(
                "apiserver_audit_error_total",
                "Counter of audit events that failed to be audited properly. Plugin identifies \
                 the plugin affected by the error.",
            ),
            &["plugin"],
        )?;
        let levels = IntCounterVec::new(
            Opts::new(
                "apiserver_audit_level_total",
                "Counter of policy levels for audit events (1 per request).",
            ),
            &["level"],
        )?;
        // This counter stays 0: no request is rejected, and none waits for more than
        // a moment.
        let rejected = IntCounter::new(
            "apiserver_audit_requests_rejected_total",
            "Counter of apiserver requests rejected due to an error in audit logging backend.",
        )?;
        registry.register(Box::new(events.clone()))?;
        registry.register(Box::new(errors.clone()))?;
        registry.register(Box::new(levels.clone()))?;
        registry.register(Box::new(rejected))?;
        Ok(Self {
            events,
            errors,
            levels: Level::ALL.map(|level| levels.with_label_values(&[level.as_str()])),
        })
    }

    pub(super) fn level(&self, level: Level) {
        if let Some(counter) = self.levels.get(level as usize) {
            counter.inc();
        }
    }

    pub(super) fn event(&self) {
        self.events.inc();
    }

    pub fn lost(&self, plugin: Plugin, events: usize) {
        let counter = self.errors.with_label_values(&[plugin.as_str()]);
        counter.inc_by(events as u64);
    }
}
