//! Whether a caller may, decided before any cached byte is touched: by asking
//! the API server with a SubjectAccessReview.

mod cache;
mod forbidden;

pub mod impersonation;
mod impersonation_checks;
pub mod metrics;
mod review;
pub mod well_known_usernames;

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::review::{
    self as upstream, FairQueue, Key, QueueLimits, ReviewClient, ReviewError, SingleFlight,
};
use arc_swap::ArcSwap;
use bytes::Bytes;
use forbidden::forbidden;
pub use impersonation::{Impersonated, ImpersonationAuthorizer};
use kubernetes_wire::api::user::MASTERS;
use kubernetes_wire::api::{Attributes, Status, UserInfo};
pub use metrics::AuthzMetrics;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Paths of health checks, which must answer even while nobody can be asked:
/// `--authorization-always-allow-paths` of delegating API servers.
const ALWAYS_ALLOWED_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Reviews at a time, each user's in a queue of its own. 16 of one user are
/// enough for thousands a second, and leave turns for others while the API
/// server is slow. More may wait than the reads in flight by default
/// (`serving.maxRequestsInflight`); beyond it is a 429.
const TURNS: QueueLimits = QueueLimits {
    at_a_time: 64,
    at_a_time_of_one: 16,
    waiting: 4096,
    waiting_of_one: 512,
};

/// How long an answer is believed. Zero: not at all. Applied when it is read,
/// so that a reload holds for answers that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthzSettings {
    pub allow_ttl: Duration,
    /// For denied, and for no opinion.
    pub deny_ttl: Duration,
    /// How long after the last answer of an API server an allowance is believed
    /// that was believed then, while none can be reached at all.
    pub outage: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
    /// Nobody allowed it, so it is refused.
    NoOpinion,
}

impl Decision {
    /// The `result` label of kube-apiserver's metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::Deny => "denied",
            Self::NoOpinion => "no-opinion",
        }
    }
}

/// A decision with the authorizer's reason, which goes into the audit log and
/// into a 403.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
}

/// What became of the question whether a caller may make a request.
#[derive(Debug)]
pub struct Authorization {
    /// The decision about the request's own attributes, for the audit log.
    /// `None` where nobody could be asked.
    pub verdict: Option<Arc<Verdict>>,
    /// Whether the request may go on. If not, the answer to the caller: 403
    /// with kube-apiserver's text, or 429, 500 or 503 where nobody could be
    /// asked.
    pub outcome: Result<(), Status>,
}

pub struct Authorizer {
    reviewer: Arc<Reviewer>,
    in_flight: SingleFlight<Key, Result<Arc<Verdict>, ReviewError>>,
    settings: ArcSwap<AuthzSettings>,
    metrics: AuthzMetrics,
    /// Allowed without asking.
    always: Arc<Verdict>,
}

/// Asks, and remembers.
struct Reviewer {
    client: Arc<dyn ReviewClient>,
    queue: Arc<FairQueue<Arc<str>>>,
    decisions: cache::Decisions,
    /// When an API server last answered.
    heard: Mutex<Option<Instant>>,
    metrics: AuthzMetrics,
}

impl Authorizer {
    pub fn new(
        client: Arc<dyn ReviewClient>,
        settings: AuthzSettings,
        metrics: AuthzMetrics,
    ) -> Self {
        Self {
            reviewer: Arc::new(Reviewer {
                client,
                queue: FairQueue::new(TURNS),
                decisions: cache::new(Instant::now()),
                heard: Mutex::default(),
                metrics: metrics.clone(),
            }),
            in_flight: SingleFlight::default(),
            settings: ArcSwap::from_pointee(settings),
            metrics,
            always: Arc::new(Verdict {
                decision: Decision::Allow,
                reason: String::new(),
            }),
        }
    }

    /// For all answers, those remembered too.
    pub fn reload(&self, settings: AuthzSettings) {
        self.settings.store(Arc::new(settings));
    }

    /// Whether `user` may make the request that `attributes` describe. This is
    /// the one question that lets a request go on.
    ///
    /// exec, attach and port-forward of pods must also be allowed as `create`,
    /// whatever the method: a WebSocket begins with GET, and the right to read
    /// must not be enough to run a command. kube-apiserver asks so since 1.35
    /// (`ensureAuthorizedForVerb` of `pkg/registry/core/pod/rest`, behind
    /// `AuthorizePodWebsocketUpgradeCreatePermission`), after its audit log was
    /// told of the first decision, and with a shorter text.
    pub async fn authorize_request(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
    ) -> Authorization {
        let verdict = match self.decide(user, attributes).await {
            Ok(verdict) => verdict,
            Err(error) => {
                return Authorization {
                    verdict: None,
                    outcome: Err(error.to_status()),
                };
            }
        };
        let outcome = match (verdict.decision, also_create(attributes)) {
            (Decision::Deny | Decision::NoOpinion, _) => {
                Err(forbidden(user, attributes, &verdict.reason))
            }
            (Decision::Allow, None) => Ok(()),
            (Decision::Allow, Some(create)) => match self.decide(user, &create).await {
                Ok(also) if also.decision == Decision::Allow => Ok(()),
                Ok(also) => Err(forbidden::refuse(attributes, &also.reason)),
                Err(error) => Err(error.to_status()),
            },
        };
        Authorization {
            verdict: Some(verdict),
            outcome,
        }
    }

    /// Equal questions at the same time share one review. A review that could
    /// not be made is not remembered.
    async fn decide(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
    ) -> Result<Arc<Verdict>, ReviewError> {
        let started = Instant::now();
        let result = self.decide_unmeasured(user, attributes).await;
        let label = result.as_ref().map_or("error", |v| v.decision.as_str());
        self.metrics.attempt(label, started.elapsed());
        match &result {
            // A flood is counted, and fills no disk.
            Err(error @ ReviewError::QueueFull) => {
                tracing::debug!(%error, "unable to authorize a request");
            }
            Err(error) => tracing::warn!(%error, "unable to authorize a request"),
            Ok(_) => {}
        }
        result
    }

    async fn decide_unmeasured(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
    ) -> Result<Arc<Verdict>, ReviewError> {
        if is_always_allowed(user, attributes) {
            return Ok(self.always.clone());
        }
        let key = cache::key(user, attributes);
        if let Some(verdict) = key.as_ref().and_then(|key| self.believed(key)) {
            self.metrics.review_cache(true);
            return Ok(verdict);
        }
        self.metrics.review_cache(false);
        let question = Question {
            user: user.name.as_str().into(),
            body: upstream::body(&review::Question::new(user, attributes))?,
        };
        let Some(key) = key else {
            return self.reviewer.ask(&question).await;
        };
        let longest = self.settings.load().longest();
        let reviewer = self.reviewer.clone();
        let asked = self.in_flight.ask(key, async move {
            reviewer.ask_and_remember(key, question, longest).await
        });
        match asked.await {
            Ok(verdict) => Ok(verdict),
            Err(error) => self.believed_cut_off(&key, &error).ok_or(error),
        }
    }

    /// The decision, if it is remembered and still believed.
    fn believed(&self, key: &Key) -> Option<Arc<Verdict>> {
        let now = Instant::now();
        let (verdict, asked) = self.reviewer.decisions.get(key, now)?;
        let settings = self.settings.load();
        settings
            .believes(verdict.decision, asked, now)
            .then_some(verdict)
    }

    /// What was allowed when an API server was last heard of stays so for a
    /// while if none can be reached. An answer, whatever it says, is somebody's.
    fn believed_cut_off(&self, key: &Key, error: &ReviewError) -> Option<Arc<Verdict>> {
        match error {
            ReviewError::Unavailable(_) | ReviewError::Timeout
                if !self.reviewer.client.is_reachable() => {}
            _ => return None,
        }
        let now = Instant::now();
        let heard = (*self.reviewer.heard.lock())?;
        let (verdict, asked) = self.reviewer.decisions.get(key, now)?;
        let holds = self.settings.load().believes_cut_off(asked, heard, now);
        if verdict.decision != Decision::Allow || !holds {
            return None;
        }
        tracing::debug!("authorized by an earlier decision: no API server can be asked");
        Some(verdict)
    }
}

/// What is asked, and in whose turn.
struct Question {
    user: Arc<str>,
    body: Bytes,
}

impl Reviewer {
    async fn ask_and_remember(
        &self,
        key: Key,
        question: Question,
        longest: Duration,
    ) -> Result<Arc<Verdict>, ReviewError> {
        let asked = Instant::now();
        let verdict = self.ask(&question).await?;
        self.decisions
            .insert(key, question.user, verdict.clone(), asked, longest);
        Ok(verdict)
    }

    async fn ask(&self, question: &Question) -> Result<Arc<Verdict>, ReviewError> {
        let body = question.body.clone();
        let (client, user) = (&*self.client, &question.user);
        let answer = upstream::create(client, &self.queue, user, review::PATH, body).await;
        if matches!(answer, Err(ReviewError::QueueFull)) {
            self.metrics.refused();
        }
        let answer: review::Answer = answer?;
        *self.heard.lock() = Some(Instant::now());
        let decision = match (answer.status.allowed, answer.status.denied) {
            (true, true) => {
                return Err(ReviewError::Malformed(
                    "the review both allows and denies".to_owned(),
                ));
            }
            (_, true) => Decision::Deny,
            (true, false) => Decision::Allow,
            (false, false) => Decision::NoOpinion,
        };
        Ok(Arc::new(Verdict {
            decision,
            reason: answer.status.reason,
        }))
    }
}

/// `system:masters` may everything in every API server, before any authorizer
/// is asked.
fn is_always_allowed(user: &UserInfo, attributes: &Attributes) -> bool {
    let health = match attributes {
        // Not `impersonate-on:…`: to be somebody else is no health check.
        Attributes::NonResource { verb, path } => {
            matches!(verb.as_str(), "get" | "head") && ALWAYS_ALLOWED_PATHS.contains(&path.as_str())
        }
        Attributes::Resource { .. } => false,
    };
    health || user.groups.iter().any(|group| group == MASTERS)
}

fn also_create(attributes: &Attributes) -> Option<Attributes> {
    let mut create = attributes.clone();
    let Attributes::Resource {
        verb,
        gvr,
        subresource,
        ..
    } = &mut create
    else {
        return None;
    };
    let connects = gvr.group.is_empty()
        && gvr.resource == "pods"
        && matches!(subresource.as_str(), "exec" | "attach" | "portforward");
    if !connects || verb == "create" {
        return None;
    }
    *verb = "create".to_owned();
    Some(create)
}

#[cfg(test)]
mod tests;
