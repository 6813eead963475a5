//! Authorization: asks the API server with a SubjectAccessReview whether the
//! caller may make a request, before any cached byte is touched.

mod cache;
mod cached_rbac;
mod degraded;
mod first_reads;
mod forbidden;

pub mod impersonation;
mod impersonation_attributes;
pub mod impersonation_mode;
pub mod metrics;
pub mod rbac;
mod review;
mod review_since;
mod self_reviews;
pub mod settings;
pub mod well_known_usernames;

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::review::{
    self as upstream, Key, QueueLimits, ReviewClient, ReviewError, ReviewTurn, ReviewTurns,
    Reviewed, SingleFlight,
};
use arc_swap::ArcSwap;
use bytes::Bytes;
pub use cache::key;
use first_reads::FirstReads;
use forbidden::forbidden;
use futures::TryFutureExt;
pub use impersonation::{Impersonated, ImpersonationAuthorizer};
use kubernetes_wire::api::{Attributes, Status, UserInfo};
pub use metrics::AuthzMetrics;
use parking_lot::Mutex;
use rbac::SavedRbac;
pub use review_since::PlaceReview;
use self_reviews::SelfReviews;
pub use self_reviews::{SelfReview, self_review_key};
pub use settings::{
    AuthzSettings, CachedRbacUse, ConstrainedImpersonation, DegradedAuthorization, DegradedBounds,
    NamedCallers,
};
use tokio::time::Instant;

/// Health checks are allowed even while no API server can be asked, as with
/// `--authorization-always-allow-paths` of delegating API servers.
const ALWAYS_ALLOWED_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The limits of SubjectAccessReviews; [`ReviewTurns`] has fewer at a time while answers
/// are slow. Each user has a queue. 16 reviews of one user at a time are enough for
/// thousands a second, and leave turns for others while the API server is slow. The
/// number of reviews that may wait is above the default limit of reads in flight
/// (`serving.maxRequestsInflight`); further reviews get a 429.
const TURNS: QueueLimits = QueueLimits {
    at_a_time: 64,
    at_a_time_of_one: 16,
    waiting: 4096,
    waiting_of_one: 512,
};

/// The limits of the reviews for the places of views. Each view has at most four at
/// a time.
const TURNS_OF_PLACES: QueueLimits = QueueLimits {
    at_a_time: 32,
    at_a_time_of_one: 8,
    waiting: 1 << 19,
    waiting_of_one: 1 << 12,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
    /// No authorizer allowed the request, so it is refused.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An ordinary request.
    Usual,
    /// A request that degraded mode may answer later.
    NamedRead,
    /// A request in degraded mode, with its limits.
    Degraded(DegradedBounds),
}

/// A decision, with the authorizer's reason for the audit log and for a 403.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
}

#[derive(Debug)]
pub struct Authorization {
    /// The decision about the request's own attributes, for the audit log. `None` if
    /// no API server could be asked.
    pub verdict: Option<Arc<Verdict>>,
    /// `Ok` if the request may go on. `Err` is the answer to the caller: a 403 with
    /// kube-apiserver's text, or a 429, 500 or 503 if no API server could be asked.
    pub outcome: Result<(), Status>,
}

pub struct Authorizer {
    reviewer: Arc<Reviewer>,
    in_flight: SingleFlight<Key, Result<Arc<Verdict>, ReviewError>>,
    settings: ArcSwap<AuthzSettings>,
    metrics: AuthzMetrics,
    /// The verdict for requests that need no review.
    always: Arc<Verdict>,
    saved: Arc<dyn SavedRbac>,
    first_reads: FirstReads,
    self_reviews: SelfReviews,
}

/// Asks the API server, and remembers its answers.
struct Reviewer {
    client: Arc<dyn ReviewClient>,
    queue: Arc<ReviewTurns<Arc<str>>>,
    /// The queue for the questions of views: they leave the other queue's turns to
    /// requests.
    places: Arc<ReviewTurns<Arc<str>>>,
    decisions: cache::Decisions,
    /// The time of the last answer of an API server.
    heard: Mutex<Option<Instant>>,
    metrics: AuthzMetrics,
}

impl Authorizer {
    pub fn new(
        client: Arc<dyn ReviewClient>,
        settings: AuthzSettings,
        metrics: AuthzMetrics,
        saved: Arc<dyn SavedRbac>,
    ) -> Self {
        Self {
            saved,
            first_reads: FirstReads::default(),
            self_reviews: SelfReviews::new(Instant::now()),
            reviewer: Arc::new(Reviewer {
                client,
                queue: Arc::new(ReviewTurns::new(TURNS)),
                places: Arc::new(ReviewTurns::new(TURNS_OF_PLACES)),
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

    /// Changes the settings for all answers, remembered ones too.
    pub fn reload(&self, settings: AuthzSettings) {
        self.settings.store(Arc::new(settings));
    }

    /// Forgets all decisions and answers, because upstream may be another cluster
    /// now.
    pub fn forget(&self) {
        let now = Instant::now();
        self.reviewer.decisions.clear(now);
        self.self_reviews.clear(now);
    }

    /// Tells whether these attributes need a review for certain, and the question has
    /// not come up within the time for which an allowance is used.
    pub fn is_first_read(&self, user: &UserInfo, attributes: &Attributes) -> bool {
        let settings = self.settings.load();
        if is_always_allowed(user, attributes) || settings.cached_rbac == CachedRbacUse::Allow {
            return false;
        }
        let key = cache::key(user, attributes);
        let now = Instant::now();
        let within = settings.allow_ttl;
        self.believed(&key, now).is_none() && self.first_reads.is_first(&key, within, now)
    }

    /// Tells whether `user` may make the request with these `attributes`. This is
    /// the only method that lets a request go on.
    ///
    /// exec, attach and port-forward of pods must also be allowed as `create`,
    /// whatever the method: a WebSocket begins with GET, and the right to read must
    /// not be enough to run a command. kube-apiserver does so since 1.35
    /// (`ensureAuthorizedForVerb` of `pkg/registry/core/pod/rest`, behind
    /// `AuthorizePodWebsocketUpgradeCreatePermission`). It makes this check after
    /// the audit log has received the first decision, and its 403 has a shorter
    /// text.
    pub async fn authorize_request(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        purpose: Purpose,
    ) -> Authorization {
        let verdict = match self.decide(user, attributes, purpose).await {
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
            (Decision::Allow, Some(create)) => match self.decide(user, &create, purpose).await {
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

    /// Returns the verdict about these attributes. Equal questions at the same time
    /// share one review. A failed review is not remembered.
    async fn decide(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        purpose: Purpose,
    ) -> Result<Arc<Verdict>, ReviewError> {
        let started = Instant::now();
        let result = self.decide_at(started, user, attributes, purpose).await;
        let label = result.as_ref().map_or("error", |v| v.decision.as_str());
        self.metrics.attempt(label, started.elapsed());
        match &result {
            // A flood is counted, and logged only for debugging: it must not fill a
            // disk.
            Err(error @ (ReviewError::QueueFull | ReviewError::NotRemembered)) => {
                tracing::debug!(%error, "unable to authorize a request");
            }
            Err(error) => tracing::warn!(%error, "unable to authorize a request"),
            Ok(_) => {}
        }
        result
    }

    async fn decide_at(
        &self,
        now: Instant,
        user: &UserInfo,
        attributes: &Attributes,
        purpose: Purpose,
    ) -> Result<Arc<Verdict>, ReviewError> {
        if is_always_allowed(user, attributes) {
            return Ok(self.always.clone());
        }
        let key = cache::key(user, attributes);
        if let Some(verdict) = self.believed(&key, now) {
            self.metrics.review_cache(true);
            return Ok(verdict);
        }
        if let Purpose::Degraded(bounds) = purpose {
            let known = self.decide_degraded(user, attributes, &key, bounds);
            return known.await.ok_or(ReviewError::NotRemembered);
        }
        let is_kept = purpose == Purpose::NamedRead && cache::is_kept(attributes);
        if let Some(verdict) = self.allowed_by_rbac(user, attributes, key, is_kept).await? {
            return Ok(verdict);
        }
        self.metrics.review_cache(false);
        let question = Question {
            key,
            sharer: user.sharer().into(),
            body: upstream::body(&review::review(user, attributes))?,
            longest: self.settings.load().longest(),
            is_kept,
        };
        let reviewer = self.reviewer.clone();
        let waits_as = WaitsAs::Request(user.name.as_str().into());
        let may_ask = self.reviewer.clone().may_ask(waits_as).map_err(Err);
        let asked = self.in_flight.ask(key, may_ask, move |turn| async move {
            reviewer.ask_and_remember(turn, question).await
        });
        match asked.await {
            Ok(verdict) => Ok(verdict),
            Err(error) => self.believed_cut_off(&key, &error).ok_or(error),
        }
    }

    /// Returns the decision if it is remembered and may still be used.
    fn believed(&self, key: &Key, now: Instant) -> Option<Arc<Verdict>> {
        let (remembered, asked) = self.reviewer.decisions.get(key, now)?;
        let verdict = remembered.verdict;
        let settings = self.settings.load();
        settings
            .believes(verdict.decision, asked, now)
            .then_some(verdict)
    }

    /// Returns an allowance that could be used when an API server last answered, if
    /// no API server can be reached now. While one can be reached, only its answer
    /// counts, even an error.
    fn believed_cut_off(&self, key: &Key, error: &ReviewError) -> Option<Arc<Verdict>> {
        match error {
            ReviewError::Unavailable(_) | ReviewError::Timeout
                if !self.reviewer.client.is_reachable() => {}
            _ => return None,
        }
        self.held_cut_off(key)
    }

    /// Returns an allowance that could be used when an API server last answered.
    fn held_cut_off(&self, key: &Key) -> Option<Arc<Verdict>> {
        let now = Instant::now();
        let heard = (*self.reviewer.heard.lock())?;
        let (remembered, asked) = self.reviewer.decisions.get(key, now)?;
        let verdict = remembered.verdict;
        let holds = self.settings.load().believes_cut_off(asked, heard, now);
        if verdict.decision != Decision::Allow || !holds {
            return None;
        }
        tracing::debug!("authorized by an earlier decision: no API server can be asked");
        Some(verdict)
    }
}

/// A review, and what is kept of its answer.
struct Question {
    key: Key,
    /// The user (or accounts) in whose share the decision is kept.
    sharer: Arc<str>,
    body: Bytes,
    /// The longest time for which the decision may be used.
    longest: Duration,
    /// Whether the decision is renewed for degraded mode.
    is_kept: bool,
}

/// The queue in which a question waits for its turn.
enum WaitsAs {
    /// Among the requests, in this user's turn.
    Request(Arc<str>),
    /// Among the questions of views, in this sharer's turn.
    Place(Arc<str>),
}

impl Reviewer {
    async fn may_ask(
        self: Arc<Self>,
        waits_as: WaitsAs,
    ) -> Result<ReviewTurn<Arc<str>>, ReviewError> {
        let (queue, caller) = match &waits_as {
            WaitsAs::Request(user) => (&self.queue, user),
            WaitsAs::Place(sharer) => (&self.places, sharer),
        };
        let turn = queue.clone().take(caller).await;
        if matches!(turn, Err(ReviewError::QueueFull)) {
            self.metrics.refused();
        }
        turn
    }

    async fn ask_and_remember(
        &self,
        turn: ReviewTurn<Arc<str>>,
        question: Question,
    ) -> Result<Arc<Verdict>, ReviewError> {
        let asked = Instant::now();
        let verdict = self.ask(turn, question.body.clone()).await?;
        let review = question.is_kept.then_some(question.body);
        self.remember(
            question.key,
            question.sharer,
            (&verdict, review),
            asked,
            question.longest,
        );
        Ok(verdict)
    }

    /// Remembers a verdict, with its review if it is to be renewed.
    fn remember(
        &self,
        key: Key,
        sharer: Arc<str>,
        (verdict, review): (&Arc<Verdict>, Option<Bytes>),
        asked: Instant,
        longest: Duration,
    ) {
        if verdict.reason.len() > cache::MAX_KEPT_REASON_BYTES {
            return;
        }
        let remembered = cache::Remembered {
            verdict: verdict.clone(),
            review: review.filter(|body| body.len() <= cache::MAX_KEPT_REVIEW_BYTES),
        };
        self.decisions
            .insert(key, sharer, remembered, asked, longest);
    }

    /// Notes that an API server confirmed allowances at this time.
    fn heard_at(&self, at: Instant) {
        let mut heard = self.heard.lock();
        *heard = heard.max(Some(at));
    }

    async fn ask(
        &self,
        turn: ReviewTurn<Arc<str>>,
        body: Bytes,
    ) -> Result<Arc<Verdict>, ReviewError> {
        let answer = turn.create(&*self.client, review::PATH, body).await;
        let answer: Reviewed<review::Status> = answer?;
        self.heard_at(Instant::now());
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

/// Tells whether a request is allowed without a review. Every API server allows
/// members of `system:masters` everything before it asks an authorizer.
fn is_always_allowed(user: &UserInfo, attributes: &Attributes) -> bool {
    let health = match attributes {
        // The verb `impersonate-on:…` on such a path is no health check.
        Attributes::NonResource { verb, path } => {
            matches!(verb.as_str(), "get" | "head") && ALWAYS_ALLOWED_PATHS.contains(&path.as_str())
        }
        Attributes::Resource { .. } => false,
    };
    health || user.is_master()
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
mod testing;
#[cfg(test)]
mod tests;
