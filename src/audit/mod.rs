//! The audit log: who did what, when, and how it ended, as kube-apiserver
//! records it.
//!
//! ```text
//! request ─ policy ─▶ Trail ── stage ──▶ queue ─▶ log thread ─▶ file, standard output
//!            │ None                └───▶ queue ─▶ webhook thread ─▶ batches
//!            └─▶ nothing
//! ```
//!
//! An event is a line that is copied into a queue, or the bodies from which a line
//! will be made. If a caller's events come faster than they are written, each
//! request of this caller waits a moment. If the caller's share of a queue is full
//! even so, the caller's events are lost, and the loss is counted and logged. Other
//! callers lose no events.

mod backend;
mod body;
mod event;
mod file;
mod level;
mod log;
mod losses;
mod metrics;
mod object;
mod object_ref;
mod outcome;
mod policy;
mod policy_file;
mod queue;
mod record;
pub mod settings;
mod source_ips;
mod text;
mod trail;
mod webhook;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

pub use backend::BackendError;
pub use body::{MAX_BODY_BYTES, MAX_HELD_BYTES};
pub use level::{Level, Stage, Stages};
pub use metrics::{AuditMetrics, Plugin};
pub use policy::{Decision, Policy};
pub use record::Request;
pub use settings::AuditSettings;
pub use trail::Trail;

use apifront_upstream::WebhookClient;
use backend::Backend;
use body::Room;
use event::Unfinished;
use kubernetes_wire::api::UserInfo;
use losses::LostEvents;

use crate::config_errors::ConfigErrors;

/// When apifront stops, it waits this long for all events to be written.
const FLUSH_WITHIN: Duration = Duration::from_secs(10);

/// The longest time for which a request waits for room for its caller's events. The
/// log thread takes events fifty times a second.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("observability.auditPolicyFile: {0}")]
    Policy(#[from] ConfigErrors),
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Checks that the files are usable. Connects to no server and writes nothing.
pub async fn check(settings: &AuditSettings) -> Result<(), AuditError> {
    policy_file::load(&settings.policy_file)?;
    if let Some(webhook) = &settings.webhook {
        let client = WebhookClient::from_kubeconfig(&webhook.config_file).await;
        client.map_err(BackendError::from)?;
    }
    Ok(())
}

/// The caller who is charged for waiting events, as a digest of their name or
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner(u64);

/// The state of auditing. It lives as long as the process; a reload replaces its
/// parts.
pub struct Audit {
    /// `None` if nothing is audited.
    policy: ArcSwap<Option<Policy>>,
    backends: ArcSwap<Vec<Arc<Backend>>>,
    metrics: AuditMetrics,
    losses: LostEvents,
    room: Room,
    /// Makes an [`Owner`] from a caller's name. The digest's keys are random:
    /// otherwise a caller could choose a name with another caller's digest.
    digest: RandomState,
}

/// A policy and backends that are not in force yet.
pub struct Prepared {
    policy: Option<Policy>,
    backends: Vec<Arc<Backend>>,
}

impl Audit {
    pub fn new(metrics: AuditMetrics) -> Arc<Self> {
        Arc::new(Self {
            policy: ArcSwap::default(),
            backends: ArcSwap::default(),
            losses: LostEvents::new(metrics.clone()),
            metrics,
            room: body::room(),
            digest: RandomState::new(),
        })
    }

    /// Reads the files that the settings name, and opens the backends. Keeps
    /// backends whose settings and files did not change.
    pub async fn prepare(&self, settings: Option<&AuditSettings>) -> Result<Prepared, AuditError> {
        let Some(settings) = settings else {
            return Ok(Prepared {
                policy: None,
                backends: Vec::new(),
            });
        };
        let policy = policy_file::load(&settings.policy_file)?;
        let current = self.backends.load_full();
        let mut backends = Vec::new();
        if let Some(log) = &settings.log {
            backends.push(backend::log(log, &current, &self.metrics)?);
        }
        if let Some(webhook) = &settings.webhook {
            backends.push(backend::webhook(webhook, &current, &self.metrics).await?);
        }
        Ok(Prepared {
            policy: Some(policy),
            backends,
        })
    }

    /// Puts new settings in force for all further requests. Requests that have begun
    /// send their further events to the new backends; the old backends write the
    /// events that they have.
    pub fn apply(&self, prepared: Prepared) {
        self.backends.store(Arc::new(prepared.backends));
        self.policy.store(Arc::new(prepared.policy));
    }

    /// Waits a moment if this caller's events come faster than they are written, so
    /// that they are not lost. Must be called before [`Audit::begin`] and before the
    /// request has a seat.
    pub async fn wait_for_room(&self, user: Option<&UserInfo>, peer: Option<IpAddr>) {
        // Usually no queue is filling, and the digest is not needed.
        if !self.backends.load().iter().any(|b| b.queue.is_filling()) {
            return;
        }
        let owner = self.owner(user, peer);
        for backend in self.backends.load_full().iter() {
            backend.queue.wait_for_room(owner, ROOM_TIMEOUT).await;
        }
    }

    /// Returns the owner of a caller's events: by name, or by address if the caller
    /// is unknown.
    fn owner(&self, user: Option<&UserInfo>, peer: Option<IpAddr>) -> Owner {
        Owner(match user {
            Some(user) => self.digest.hash_one(("user", &user.name)),
            None => self.digest.hash_one(("address", peer)),
        })
    }

    /// Tells whether there is a policy, so that requests may leave events.
    pub fn is_on(&self) -> bool {
        self.policy.load().is_some()
    }

    /// Applies the policy to a request. `None` if the request leaves no event. Must
    /// be called once for each request.
    pub fn begin(self: &Arc<Self>, request: &Request<'_>) -> Option<Box<Trail>> {
        let mut trail = self.trail(request)?;
        trail.emit(Stage::RequestReceived);
        Some(trail)
    }

    /// Like [`Audit::begin`], for a request that is refused because its caller is
    /// unknown. It has only one event, when it is answered. `message` names the
    /// credentials that were tried.
    pub fn refuse(self: &Arc<Self>, request: &Request<'_>, message: String) -> Option<Box<Trail>> {
        let mut trail = self.trail(request)?;
        trail.only_started(message);
        Some(trail)
    }

    fn trail(self: &Arc<Self>, request: &Request<'_>) -> Option<Box<Trail>> {
        let policy = self.policy.load();
        let decision = Option::as_ref(&policy)?.decide(request.info, request.user);
        self.metrics.level(decision.level);
        if decision.level == Level::None {
            return None;
        }
        let owner = self.owner(request.user, request.peer);
        Some(Box::new(Trail::new(self.clone(), owner, decision, request)))
    }

    /// Writes the line once, into the thread's own buffer, and copies it into each
    /// queue.
    fn push_line(&self, owner: Owner, write: impl FnOnce(&mut Vec<u8>)) {
        thread_local! {
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let backends = self.backends.load();
        LINE.with_borrow_mut(|line| {
            line.clear();
            write(line);
            for backend in backends.iter() {
                if !backend.queue.push_line(owner, line) {
                    self.losses.buffered(Instant::now());
                }
            }
        });
    }

    fn push_unfinished(&self, owner: Owner, event: Unfinished) {
        let event = Arc::new(event);
        for backend in self.backends.load().iter() {
            if !backend.queue.push_unfinished(owner, event.clone()) {
                self.losses.buffered(Instant::now());
            }
        }
    }

    /// Waits until all events are written, but at most `FLUSH_WITHIN`.
    pub async fn stop(&self) {
        let backends = self.backends.swap(Arc::default());
        let flush = async {
            for backend in backends.iter() {
                backend.flush().await;
            }
        };
        if tokio::time::timeout(FLUSH_WITHIN, flush).await.is_err() {
            tracing::error!("audit events were lost: not written within {FLUSH_WITHIN:?}");
        }
    }
}
