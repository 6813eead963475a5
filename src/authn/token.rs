//! Bearer tokens: asked of the API server by TokenReview, remembered by digest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::api::UserInfo;
use crate::upstream::review::{self, MAX_CONCURRENT_REVIEWS, ReviewClient, ReviewError};

use super::metrics::AuthnMetrics;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Tokens remembered: 5,000 nodes and 10,000 namespaces with a margin of two,
/// kube-apiserver's own reckoning. Beyond it the least frequently used go
/// first, so a flood of invented tokens does not drive real ones out.
const MAX_TOKENS: u64 = 32_768;

/// How long an answer is believed. Zero: not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenReviewSettings {
    pub success_ttl: Duration,
    pub failure_ttl: Duration,
}

/// What the API server says of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    User(UserInfo),
    /// With the API server's reason, which may be empty.
    Rejected(String),
}

#[derive(Clone)]
struct Record {
    outcome: Arc<Outcome>,
    ttl: Duration,
}

struct ByRecord;

impl<K> Expiry<K, Record> for ByRecord {
    fn expire_after_create(&self, _: &K, record: &Record, _: Instant) -> Option<Duration> {
        Some(record.ttl)
    }
}

pub struct TokenAuthenticator {
    client: Arc<dyn ReviewClient>,
    permits: Semaphore,
    cache: Cache<[u8; 32], Record>,
    metrics: AuthnMetrics,
}

impl TokenAuthenticator {
    pub fn new(client: Arc<dyn ReviewClient>, metrics: AuthnMetrics) -> Self {
        Self {
            client,
            permits: Semaphore::new(MAX_CONCURRENT_REVIEWS),
            cache: Cache::builder()
                .max_capacity(MAX_TOKENS)
                .expire_after(ByRecord)
                .build(),
            metrics,
        }
    }

    /// Requests with the same token share one review. A review that could not
    /// be made is not remembered.
    pub async fn authenticate(
        &self,
        token: &str,
        settings: TokenReviewSettings,
    ) -> Result<Arc<Outcome>, ReviewError> {
        // The digest keeps tokens out of memory.
        let key: [u8; 32] = Sha256::digest(token).into();
        if let Some(record) = self.cache.get(&key).await {
            self.metrics.token_cache(true);
            return Ok(record.outcome);
        }
        self.metrics.token_cache(false);
        let asked = async {
            let outcome = self.ask(token).await?;
            let ttl = match outcome {
                Outcome::User(_) => settings.success_ttl,
                Outcome::Rejected(_) => settings.failure_ttl,
            };
            Ok::<_, ReviewError>(Record {
                outcome: Arc::new(outcome),
                ttl,
            })
        };
        match self.cache.try_get_with(key, asked).await {
            Ok(record) => Ok(record.outcome),
            Err(error) => Err(ReviewError::clone(&error)),
        }
    }

    async fn ask(&self, token: &str) -> Result<Outcome, ReviewError> {
        let request = Request {
            kind: "TokenReview",
            api_version: "authentication.k8s.io/v1",
            spec: Spec { token },
        };
        let answer: Answer = review::create(&*self.client, &self.permits, PATH, &request).await?;
        let status = answer.status;
        if !status.authenticated {
            return Ok(Outcome::Rejected(status.error));
        }
        Ok(Outcome::User(UserInfo {
            name: status.user.username,
            uid: status.user.uid,
            groups: status.user.groups.unwrap_or_default(),
            extra: status.user.extra.unwrap_or_default(),
        }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    kind: &'static str,
    api_version: &'static str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    token: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: AnswerStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerStatus {
    authenticated: bool,
    user: AnswerUser,
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerUser {
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}
