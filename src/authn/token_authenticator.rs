//! Bearer tokens. The API server reviews each one with a TokenReview, and the answer
//! is remembered (`remembered_tokens.rs`).
//!
//! A token says nothing about its caller before its review, so reviews of unknown
//! tokens queue by the caller's address. Reviews of tokens that were good before
//! have another queue, by user. So a flood of invented tokens does not delay users
//! who were here recently, and delays unknown tokens only from its own address.
//! Behind a front proxy all callers have one address, but callers whom the proxy
//! names need no review.

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::review::{
    self, Key, QueueLimits, ReviewClient, ReviewError, ReviewTurn, ReviewTurns, Reviewed,
    SingleFlight,
};
use kubernetes_wire::api::UserInfo;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::metrics::AuthnMetrics;
use super::remembered_tokens::{NotBelieved, RememberedTokens, Token};
use super::remote_address::Address;
use super::token_review::{self, PATH};

/// The limits of reviews of unknown tokens; [`ReviewTurns`] has fewer at a time while
/// answers are slow. 16 at a time from one address are enough for thousands a second.
/// 512 may wait, because the pods of some nodes behind one address come at once after a
/// restart. Further ones get a 429 with Retry-After, which clients obey. After a 401 they
/// would throw away tokens that may be good.
const OF_STRANGERS: QueueLimits = QueueLimits {
    at_a_time: 32,
    at_a_time_of_one: 16,
    waiting: 4096,
    waiting_of_one: 512,
};

/// The limits of reviews of tokens that were good before. Many may wait, because the
/// pods of a DaemonSet are one user, and each has its own token.
const OF_KNOWN: QueueLimits = QueueLimits {
    at_a_time: 32,
    at_a_time_of_one: 16,
    waiting: 4096,
    waiting_of_one: 2048,
};

/// The most bytes of the API server's reason that are kept with a bad token.
const MAX_REASON_BYTES: usize = 512;

/// The time for which an answer is used; zero means not at all. The settings are
/// applied when an answer is read, so that a reload affects earlier answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenReviewSettings {
    pub success_ttl: Duration,
    pub failure_ttl: Duration,
    /// The time for which good tokens are kept for degraded mode. Each request in
    /// degraded mode applies its own limit.
    pub degraded: Duration,
}

/// The API server's answer about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOutcome {
    User(UserInfo),
    /// The API server's reason, which may be empty.
    Rejected(String),
}

pub struct TokenAuthenticator {
    reviewer: Arc<Reviewer>,
    in_flight: SingleFlight<Key, Result<Arc<TokenOutcome>, ReviewError>>,
}

/// Asks the API server, and remembers its answers.
struct Reviewer {
    client: Arc<dyn ReviewClient>,
    strangers: Arc<ReviewTurns<Address>>,
    known: Arc<ReviewTurns<Arc<str>>>,
    remembered: RememberedTokens,
    metrics: AuthnMetrics,
}

/// A token to review.
struct Question {
    key: Key,
    token: String,
    from: Address,
    settings: TokenReviewSettings,
}

/// The turn of a review, in one of the two queues.
enum MayAsk {
    OfStranger(ReviewTurn<Address>),
    OfKnown(ReviewTurn<Arc<str>>),
}

impl TokenAuthenticator {
    pub fn new(client: Arc<dyn ReviewClient>, metrics: AuthnMetrics) -> Self {
        let now = Instant::now();
        Self {
            reviewer: Arc::new(Reviewer {
                client,
                strangers: Arc::new(ReviewTurns::new(OF_STRANGERS)),
                known: Arc::new(ReviewTurns::new(OF_KNOWN)),
                remembered: RememberedTokens::new(now),
                metrics,
            }),
            in_flight: SingleFlight::default(),
        }
    }

    /// Forgets all tokens, because upstream may be another cluster now.
    pub fn forget(&self) {
        self.reviewer.remembered.clear(Instant::now());
    }

    /// Returns the API server's answer about a token. Requests with the same token
    /// share one review. A failed review is not remembered.
    ///
    /// In degraded mode, `max_age` is the time for which a good token's answer is
    /// used, but never after the token's own expiry.
    pub async fn authenticate(
        &self,
        token: &str,
        from: Address,
        settings: TokenReviewSettings,
        max_age: Option<Duration>,
    ) -> Result<Arc<TokenOutcome>, ReviewError> {
        // Only the digest is kept, so that tokens do not stay in memory.
        let key: Key = Sha256::digest(token).into();
        let remembered = &self.reviewer.remembered;
        let believed = remembered.get(&key, settings, max_age, Instant::now());
        self.reviewer.metrics.token_cache(believed.is_ok());
        let known = match believed {
            Ok(outcome) => return Ok(outcome),
            Err(NotBelieved { known }) => known,
        };
        let question = Question {
            key,
            token: token.to_owned(),
            from,
            settings,
        };
        let reviewer = self.reviewer.clone();
        let may_ask = self.reviewer.clone().may_ask(from, known);
        let asked = self.in_flight.ask(key, may_ask, move |may_ask| async move {
            reviewer.ask(may_ask, question).await
        });
        asked.await
    }
}

impl Reviewer {
    /// Waits for a turn in the queue of `known`, the user if the token was good before,
    /// or in that of the caller's address.
    async fn may_ask(
        self: Arc<Self>,
        from: Address,
        known: Option<Arc<str>>,
    ) -> Result<MayAsk, Result<Arc<TokenOutcome>, ReviewError>> {
        let may_ask = match &known {
            Some(user) => self.known.clone().take(user).await.map(MayAsk::OfKnown),
            None => {
                let turn = self.strangers.clone().take(&from).await;
                turn.map(MayAsk::OfStranger)
            }
        };
        if matches!(may_ask, Err(ReviewError::QueueFull)) {
            self.metrics.refused();
        }
        may_ask.map_err(Err)
    }

    async fn ask(
        &self,
        may_ask: MayAsk,
        question: Question,
    ) -> Result<Arc<TokenOutcome>, ReviewError> {
        let asked = Instant::now();
        let outcome = Arc::new(self.review(may_ask, &question.token).await?);
        let token = Token {
            key: question.key,
            text: &question.token,
            from: question.from,
        };
        self.remembered
            .remember(&token, &outcome, question.settings, asked);
        Ok(outcome)
    }

    async fn review(&self, may_ask: MayAsk, token: &str) -> Result<TokenOutcome, ReviewError> {
        let body = review::body(&token_review::review(token))?;
        let client = &*self.client;
        let answer: Reviewed<token_review::Status> = match may_ask {
            MayAsk::OfKnown(turn) => turn.create(client, PATH, body).await?,
            MayAsk::OfStranger(turn) => turn.create(client, PATH, body).await?,
        };
        Ok(match answer.status.user() {
            Ok(user) => TokenOutcome::User(user),
            Err(mut reason) => {
                reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
                TokenOutcome::Rejected(reason)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::SystemTime;

    use async_trait::async_trait;
    use base64::Engine;
    use bytes::Bytes;
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use http::StatusCode;
    use serde_json::{Value, json};
    use tokio::time::advance;

    use super::*;

    const SETTINGS: TokenReviewSettings = TokenReviewSettings {
        success_ttl: Duration::from_secs(10),
        failure_ttl: Duration::from_secs(10),
        degraded: Duration::from_secs(600),
    };

    /// Accepts tokens that contain `good` as jane's. Never answers about tokens that
    /// begin with `slow`.
    #[derive(Default)]
    struct Server(AtomicUsize);

    #[async_trait]
    impl ReviewClient for Server {
        async fn create_review(
            &self,
            _: &str,
            body: Bytes,
        ) -> Result<(StatusCode, Bytes), ReviewError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let review: Value = serde_json::from_slice(&body).unwrap();
            let token = review["spec"]["token"].as_str().unwrap();
            if token.starts_with("slow") {
                std::future::pending::<()>().await;
            }
            let good = token.contains("good");
            let status = json!({ "status": {
                "authenticated": good,
                "user": if good { json!({ "username": "jane" }) } else { json!({}) },
            }});
            Ok((StatusCode::CREATED, status.to_string().into()))
        }
    }

    struct World {
        server: Arc<Server>,
        tokens: TokenAuthenticator,
    }

    impl World {
        fn new() -> Self {
            let server = Arc::new(Server::default());
            let metrics = AuthnMetrics::register(&prometheus::Registry::new()).unwrap();
            Self {
                tokens: TokenAuthenticator::new(server.clone(), metrics),
                server,
            }
        }

        /// Returns the number of reviews that this request caused.
        async fn calls(&self, token: &str, settings: TokenReviewSettings) -> usize {
            let before = self.server.0.load(Ordering::Relaxed);
            let _ = self
                .tokens
                .authenticate(token, from(1), settings, None)
                .await;
            self.server.0.load(Ordering::Relaxed) - before
        }

        /// Asks about this many tokens at once, and none is answered. Returns the
        /// requests that wait, and the codes of those that were refused.
        async fn flood(&self, from: Address, count: usize) -> (Vec<BoxFuture<'_, u16>>, Vec<u16>) {
            let (mut waiting, mut refused) = (Vec::new(), Vec::new());
            for n in 0..count {
                let token = format!("slow-{from:?}-{n}");
                let mut asked = async move {
                    let outcome = self.tokens.authenticate(&token, from, SETTINGS, None).await;
                    outcome.map_or_else(|error| error.to_status().code, |_| 200)
                }
                .boxed();
                match (&mut asked).now_or_never() {
                    Some(code) => refused.push(code),
                    None => waiting.push(asked),
                }
            }
            // Those that have a turn are sent.
            tokio::task::yield_now().await;
            (waiting, refused)
        }
    }

    fn from(host: u8) -> Address {
        Some(IpAddr::from([10, 0, 0, host])).into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_random_tokens_does_not_delay_others() {
        let world = World::new();
        assert_eq!(world.calls("good", SETTINGS).await, 1);
        let (flood, refused) = world.flood(from(66), 2000).await;
        // It has half of the turns that there are at first.
        let room = 4 + OF_STRANGERS.waiting_of_one;
        assert_eq!((flood.len(), refused.len()), (room, 2000 - room));
        assert!(refused.iter().all(|code| *code == 429));
        // Unknown tokens from other addresses have their own turns.
        assert_eq!(world.calls("another good one", SETTINGS).await, 1);
        // Many addresses together leave no turns to other unknown tokens, but known
        // tokens have their own.
        let mut more = Vec::new();
        for host in 67..80 {
            more.push(world.flood(from(host), 1000).await.0);
        }
        let asked = world
            .tokens
            .authenticate("a third good one", from(1), SETTINGS, None);
        assert!(asked.now_or_never().is_none(), "waits");
        advance(SETTINGS.success_ttl).await;
        assert_eq!(world.calls("good", SETTINGS).await, 1);
        drop((flood, more));
        // Callers who gave up left nothing behind.
        assert_eq!(world.tokens.reviewer.strangers.waiting(), 0);
        assert_eq!(world.calls("a third good one", SETTINGS).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn random_tokens_drive_no_good_one_out_of_memory() {
        let world = World::new();
        assert_eq!(world.calls("good", SETTINGS).await, 1);
        for n in 0..32_769 {
            let token = format!("bad-{n}");
            let _ = world
                .tokens
                .authenticate(&token, from(66), SETTINGS, None)
                .await;
        }
        assert_eq!(world.calls("good", SETTINGS).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_holds_for_answers_from_before() {
        let world = World::new();
        let long = TokenReviewSettings {
            success_ttl: Duration::from_secs(120),
            failure_ttl: Duration::from_secs(120),
            ..SETTINGS
        };
        for token in ["good", "bad"] {
            assert_eq!(world.calls(token, long).await, 1);
        }
        advance(Duration::from_secs(11)).await;
        for token in ["good", "bad"] {
            assert_eq!(world.calls(token, long).await, 0, "{token}");
            assert_eq!(world.calls(token, SETTINGS).await, 1, "{token}");
        }
        let never = TokenReviewSettings {
            success_ttl: Duration::ZERO,
            failure_ttl: Duration::ZERO,
            ..SETTINGS
        };
        assert_eq!(world.calls("good", never).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn in_degraded_mode_known_tokens_hold_until_their_own_end() {
        let world = World::new();
        let end = SystemTime::now() + Duration::from_secs(60);
        let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let claims = json!({ "exp": end.as_secs() }).to_string();
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims);
        let ends = format!("good.{claims}.x");
        let max_age = Some(Duration::from_secs(100));
        let calls = async |token: &str, max_age| {
            let before = world.server.0.load(Ordering::Relaxed);
            let asked = world.tokens.authenticate(token, from(1), SETTINGS, max_age);
            let _ = asked.await;
            world.server.0.load(Ordering::Relaxed) - before
        };
        for token in ["good", &ends, "bad"] {
            assert_eq!(calls(token, None).await, 1);
        }
        advance(Duration::from_secs(30)).await;
        for (token, asked) in [("good", 0), (&*ends, 0), ("bad", 1), ("good too", 1)] {
            assert_eq!(calls(token, max_age).await, asked, "{token}");
        }
        advance(Duration::from_secs(31)).await;
        assert_eq!(calls("good", max_age).await, 0);
        assert_eq!(calls(&ends, max_age).await, 1);
        advance(Duration::from_secs(39)).await;
        assert_eq!(calls("good", max_age).await, 1);
        // Without degraded mode, or after a change of the upstream, the answer is
        // not used.
        advance(Duration::from_secs(11)).await;
        assert_eq!(calls("good", None).await, 1);
        world.tokens.forget();
        assert_eq!(calls("good", max_age).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_not_believed_beyond_its_own_end() {
        let world = World::new();
        let ends_in = |seconds: u64| {
            let end = SystemTime::now() + Duration::from_secs(seconds);
            let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let claims = json!({ "exp": end.as_secs() }).to_string();
            let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims);
            format!("good.{claims}.x")
        };
        for (token, calls) in [(ends_in(5), 1), (ends_in(60), 0), ("good".to_owned(), 0)] {
            assert_eq!(world.calls(&token, SETTINGS).await, 1);
            advance(Duration::from_secs(7)).await;
            assert_eq!(world.calls(&token, SETTINGS).await, calls, "{token}");
        }
        // The API server still accepts it, and its clock decides.
        let over = ends_in(0);
        assert_eq!(world.calls(&over, SETTINGS).await, 1);
        assert_eq!(world.calls(&over, SETTINGS).await, 1);
    }
}
