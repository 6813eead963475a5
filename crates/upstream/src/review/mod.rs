//! Asks an API server whose token something is, and what a user may do. TokenReview
//! and SubjectAccessReview work alike: POST an object, read its status.
//!
//! The cost that each caller can cause is bounded: [`ReviewTurns`] limits the
//! questions in flight, [`single_flight`] sends equal questions once, and
//! [`answer_cache`] limits the answers that are kept.

mod answer_cache;
mod single_flight;
mod turns;

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use apifront_shares::Turn;
use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use kubernetes_wire::api::{Reason, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use crate::cdn_loop::{self, LOOP_DETECTED};

pub use answer_cache::{AnswerCache, Held, Key};
pub use apifront_shares::{QueueFull, QueueLimits};
pub use single_flight::SingleFlight;
pub use turns::ReviewTurns;

/// The timeout of client-go's delegating authenticator and authorizer.
pub(crate) const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of an unexpected answer that an error quotes.
const MAX_QUOTED: usize = 256;

/// POSTs review objects to the API server.
#[async_trait]
pub trait ReviewClient: Send + Sync {
    /// Sends `body`, a JSON review object, to `path` and returns the status
    /// code and the body of the answer, whatever the code.
    async fn create_review(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ReviewError>;

    /// Tells whether any API server is known to answer.
    fn is_reachable(&self) -> bool {
        true
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("no API server could be asked: {0}")]
    Unavailable(String),
    #[error("the API server did not answer within {} s", REVIEW_TIMEOUT.as_secs())]
    Timeout,
    #[error("the API server answered {code}: {body}")]
    Refused { code: StatusCode, body: String },
    #[error("the API server's answer cannot be read: {0}")]
    Malformed(String),
    #[error("no API server can be reached, and the answer is not known from before")]
    NotRemembered,
    #[error("too many questions about this caller wait for an answer, please try again later")]
    QueueFull,
}

impl From<QueueFull> for ReviewError {
    fn from(_: QueueFull) -> Self {
        Self::QueueFull
    }
}

impl ReviewError {
    /// Returns 429 if the caller asks too much, 503 if trying again may help, 508
    /// if the question came back, and 500 if an administrator must act. It never
    /// returns 401: clients discard refused credentials, and these may be valid.
    pub fn to_status(&self) -> Status {
        let transient = match self {
            Self::QueueFull => {
                return Status::failure(429, Reason::TooManyRequests, self.to_string())
                    .retry_soon();
            }
            Self::Refused { code, .. } if *code == LOOP_DETECTED => return cdn_loop::refusal(),
            Self::Unavailable(_) | Self::Timeout | Self::NotRemembered => true,
            Self::Refused { code, .. } => matches!(code.as_u16(), 429 | 502 | 503 | 504),
            Self::Malformed(_) => false,
        };
        if transient {
            Status::service_unavailable(self.to_string()).retry_soon()
        } else {
            Status::internal_error(self)
        }
    }
}

/// A review object as it is sent: a TokenReview or a SubjectAccessReview.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Review<S> {
    pub kind: &'static str,
    pub api_version: &'static str,
    pub spec: S,
}

/// A review object as it is returned. Its status is the answer.
#[derive(Deserialize)]
pub struct Reviewed<T> {
    #[serde(default)]
    pub status: T,
}

/// Returns the review object as JSON.
pub fn body(object: &impl Serialize) -> Result<Bytes, ReviewError> {
    serde_json::to_vec(object)
        .map(Bytes::from)
        .map_err(|e| ReviewError::Malformed(e.to_string()))
}

/// A caller's turn to ask. `REVIEW_TIMEOUT` includes the wait for it.
pub struct ReviewTurn<C: Clone + Eq + Hash> {
    turns: Arc<ReviewTurns<C>>,
    _turn: Turn<C>,
    waits_since: Instant,
}

impl<C: Clone + Eq + Hash> ReviewTurns<C> {
    /// Waits for one of this caller's turns.
    pub async fn take(self: Arc<Self>, caller: &C) -> Result<ReviewTurn<C>, ReviewError> {
        let waits_since = Instant::now();
        let turn = timeout(REVIEW_TIMEOUT, self.turn(caller)).await;
        let turn = turn.map_err(|_| ReviewError::Timeout)??;
        Ok(ReviewTurn {
            turns: self,
            _turn: turn,
            waits_since,
        })
    }
}

impl<C: Clone + Eq + Hash> ReviewTurn<C> {
    /// Sends the review object and reads the answer as `T`.
    pub async fn create<T: DeserializeOwned>(
        self,
        client: &dyn ReviewClient,
        path: &str,
        body: Bytes,
    ) -> Result<T, ReviewError> {
        let asked = Instant::now();
        let left = REVIEW_TIMEOUT.saturating_sub(self.waits_since.elapsed());
        let answer = timeout(left, client.create_review(path, body)).await;
        let (code, body) = answer.map_err(|_| ReviewError::Timeout)??;
        self.turns.answered(asked.elapsed());
        if !code.is_success() {
            let quoted = body.get(..MAX_QUOTED).unwrap_or(&body);
            return Err(ReviewError::Refused {
                code,
                body: String::from_utf8_lossy(quoted).trim_end().to_owned(),
            });
        }
        serde_json::from_slice(&body).map_err(|e| ReviewError::Malformed(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answers(u16, &'static str);

    #[async_trait]
    impl ReviewClient for Answers {
        async fn create_review(
            &self,
            _: &str,
            _: Bytes,
        ) -> Result<(StatusCode, Bytes), ReviewError> {
            match self.0 {
                0 => std::future::pending().await,
                1 => Err(ReviewError::Unavailable("connection refused".into())),
                code => Ok((
                    StatusCode::from_u16(code).unwrap(),
                    Bytes::from_static(self.1.as_bytes()),
                )),
            }
        }
    }

    fn turns_of(count: usize) -> Arc<ReviewTurns<&'static str>> {
        Arc::new(ReviewTurns::new(QueueLimits {
            at_a_time: count,
            at_a_time_of_one: count,
            waiting: 1,
            waiting_of_one: 1,
        }))
    }

    async fn create<T: DeserializeOwned>(
        client: &Answers,
        turns: &Arc<ReviewTurns<&'static str>>,
    ) -> Result<T, ReviewError> {
        let turn = turns.clone().take(&"").await?;
        turn.create(client, "/x", body(&()).unwrap()).await
    }

    #[tokio::test(start_paused = true)]
    async fn failures_say_whether_trying_again_helps() {
        for (client, code, retry_after) in [
            (Answers(0, ""), 503, 1),
            (Answers(1, ""), 503, 1),
            (Answers(429, "slow down"), 503, 1),
            (Answers(504, ""), 503, 1),
            (Answers(403, "not you"), 500, 0),
            (Answers(508, "a loop"), 508, 0),
            (Answers(201, "<html>"), 500, 0),
        ] {
            let turns = turns_of(1);
            let asked = create::<serde_json::Value>(&client, &turns).await;
            let error = asked.unwrap_err();
            let status = error.to_status();
            assert_eq!(
                (status.code, status.retry_after()),
                (code, retry_after),
                "{error}"
            );
        }
        let answer: u8 = create(&Answers(201, "7"), &turns_of(1)).await.unwrap();
        assert_eq!(answer, 7);
        let full = turns_of(1);
        let held = full.clone().take(&"").await.unwrap();
        let mut waits = std::pin::pin!(full.clone().take(&""));
        assert!(futures::poll!(waits.as_mut()).is_pending());
        let refused = create::<u8>(&Answers(0, ""), &full).await;
        drop(held);
        let status = refused.unwrap_err().to_status();
        assert_eq!((status.code, status.retry_after()), (429, 1));
    }
}
