//! Whether a caller may, decided before any cached byte is touched: by asking
//! the API server with a SubjectAccessReview.

mod cache;
mod forbidden;

pub mod impersonation;
pub mod metrics;
mod review;
pub mod usernames;
mod wanted_checks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use moka::future::Cache;
use tokio::sync::Semaphore;

use crate::api::user::MASTERS;
use crate::api::{Attributes, Status, UserInfo};
use crate::upstream::review::{
    self as upstream, MAX_CONCURRENT_REVIEWS, ReviewClient, ReviewError,
};

use forbidden::forbidden;
pub use impersonation::{Impersonated, Impersonator};
pub use metrics::AuthzMetrics;

/// Paths of health checks, which must answer even while nobody can be asked:
/// `--authorization-always-allow-paths` of delegating API servers.
const ALWAYS_ALLOWED_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// How long an answer is believed. Zero: not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthzSettings {
    pub allow_ttl: Duration,
    /// For denied, and for no opinion.
    pub deny_ttl: Duration,
    /// How much longer a decision that allowed is believed while no API server
    /// can be reached at all.
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
pub struct Ruling {
    /// The decision about the request's own attributes, for the audit log.
    /// `None` where nobody could be asked.
    pub verdict: Option<Arc<Verdict>>,
    /// Whether the request may go on. If not, the answer to the caller: 403
    /// with kube-apiserver's text, or 429, 500 or 503 where nobody could be
    /// asked.
    pub outcome: Result<(), Status>,
}

pub struct Authorizer {
    client: Arc<dyn ReviewClient>,
    permits: Semaphore,
    cache: Cache<cache::Key, cache::Entry>,
    /// What was allowed, longer than it is believed.
    allowed: Cache<cache::Key, cache::Entry>,
    settings: ArcSwap<AuthzSettings>,
    metrics: AuthzMetrics,
    /// Allowed without asking.
    always: Arc<Verdict>,
}

impl Authorizer {
    pub fn new(
        client: Arc<dyn ReviewClient>,
        settings: AuthzSettings,
        metrics: AuthzMetrics,
    ) -> Self {
        Self {
            client,
            permits: Semaphore::new(MAX_CONCURRENT_REVIEWS),
            cache: cache::new(),
            allowed: cache::new(),
            settings: ArcSwap::from_pointee(settings),
            metrics,
            always: Arc::new(Verdict {
                decision: Decision::Allow,
                reason: String::new(),
            }),
        }
    }

    /// For answers from now on.
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
    pub async fn authorize_request(&self, user: &UserInfo, attributes: &Attributes) -> Ruling {
        let verdict = match self.decide(user, attributes).await {
            Ok(verdict) => verdict,
            Err(error) => {
                return Ruling {
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
        Ruling {
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
        if let Err(error) = &result {
            tracing::warn!(%error, "unable to authorize a request");
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
        let Some(key) = cache::key(user, attributes) else {
            self.metrics.review_cache(false);
            return self.ask(user, attributes).await;
        };
        if let Some(entry) = self.cache.get(&key).await {
            self.metrics.review_cache(true);
            return Ok(entry.verdict);
        }
        self.metrics.review_cache(false);
        let asked = async {
            let verdict = self.ask(user, attributes).await?;
            let settings = **self.settings.load();
            if verdict.decision == Decision::Allow {
                let longer = cache::Entry::through_an_outage(verdict.clone(), settings);
                self.allowed.insert(key, longer).await;
            } else {
                self.allowed.invalidate(&key).await;
            }
            Ok::<_, ReviewError>(cache::Entry::new(verdict, settings))
        };
        match self.cache.try_get_with(key, asked).await {
            Ok(entry) => Ok(entry.verdict),
            Err(error) => match self.allowed_before(&key, &error).await {
                Some(verdict) => Ok(verdict),
                None => Err(ReviewError::clone(&error)),
            },
        }
    }

    /// What was allowed lately stays so while nobody can be asked. An answer,
    /// whatever it says, is somebody's.
    async fn allowed_before(&self, key: &cache::Key, error: &ReviewError) -> Option<Arc<Verdict>> {
        match error {
            ReviewError::Unavailable(_) | ReviewError::Timeout if !self.client.is_reachable() => {}
            _ => return None,
        }
        let entry = self.allowed.get(key).await?;
        tracing::debug!("authorized by an earlier decision: no API server can be asked");
        Some(entry.verdict)
    }

    async fn ask(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
    ) -> Result<Arc<Verdict>, ReviewError> {
        let question = review::Question::new(user, attributes);
        let answer: review::Answer =
            upstream::create(&*self.client, &self.permits, review::PATH, &question).await?;
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
