//! Authentication of callers.
//!
//! The order is kube-apiserver's: front proxy, client certificate, bearer token,
//! anonymous. If an authenticator has no opinion, the next one is asked. Bad
//! credentials get a 401 unless a later authenticator accepts other credentials;
//! they never count as anonymous.

pub mod bearer_token;
pub mod ca_bundle;
mod chain_paths;
pub mod client_certificate;
pub mod der;
pub mod extra_key;
pub mod impersonation_headers;
mod jwt_expiry;
pub mod metrics;
mod own_user;
mod remembered_tokens;
mod remote_address;
pub mod request_header;
pub mod tls_peer;
pub mod token_authenticator;
mod token_review;
mod x509_v1;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_upstream::review::{ReviewClient, ReviewError};
use arc_swap::ArcSwap;
use http::HeaderMap;
use kubernetes_wire::api::{Status, UserInfo};
use kubernetes_wire::request::ConnectionOptions;
use rustls::pki_types::UnixTime;

pub use ca_bundle::{CaBundle, CaBundleError, ChainError};
pub use client_certificate::Subject;
pub use impersonation_headers::Impersonation;
pub use metrics::AuthnMetrics;
pub use own_user::OwnUser;
pub use request_header::RequestHeaderNames;
pub use tls_peer::Peer;
pub use token_authenticator::TokenReviewSettings;

use bearer_token::TokenError;
use metrics::Attempt;
use remote_address::Address;
use request_header::NotText;
use token_authenticator::{TokenAuthenticator, TokenOutcome};

/// The configured authenticators. The credentials of an absent one are ignored.
#[derive(Default)]
pub struct AuthnSettings {
    pub client_ca: Option<Arc<CaBundle>>,
    pub token_review: Option<TokenReviewSettings>,
    pub request_header: Option<RequestHeaderSettings>,
    /// Whether requests without credentials are those of `system:anonymous`.
    pub anonymous: bool,
}

/// The trusted front proxy and the headers that it may set.
pub struct RequestHeaderSettings {
    pub client_ca: Arc<CaBundle>,
    /// Common names that the proxy's certificate may have. Empty allows every
    /// certificate that `client_ca` issued.
    pub allowed_names: Vec<String>,
    pub names: RequestHeaderNames,
}

/// Everything with which a caller may prove who they are.
pub struct Presented<'a> {
    /// The headers as received: none that may name a user was removed.
    pub headers: &'a HeaderMap,
    pub connection: &'a ConnectionOptions,
    pub peer: &'a Peer,
    /// The address of the connection's other end.
    pub from: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    RequestHeader,
    Certificate,
    Token,
    Anonymous,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestHeader => "request_header",
            Self::Certificate => "certificate",
            Self::Token => "token",
            Self::Anonymous => "anonymous",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub user: UserInfo,
    /// The bearer token, if it authenticated the caller.
    pub token: Option<String>,
    pub method: Method,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("client certificate: {0}")]
    Certificate(ChainError),
    #[error("front proxy certificate: {0}")]
    FrontProxy(ChainError),
    #[error("front proxy certificate: common name {0:?} is not allowed")]
    NameNotAllowed(String),
    #[error(transparent)]
    NotText(#[from] NotText),
    #[error("token: {0}")]
    Token(#[from] TokenError),
    #[error("token rejected: {0}")]
    Rejected(String),
    #[error("token review: {0}")]
    Review(ReviewError),
}

impl Failure {
    fn is_crowded(&self) -> bool {
        matches!(self, Self::Review(ReviewError::QueueFull))
    }
}

type MethodResult = Result<Option<UserInfo>, Failure>;

pub struct Authenticator {
    settings: ArcSwap<AuthnSettings>,
    tokens: TokenAuthenticator,
    metrics: AuthnMetrics,
}

impl Authenticator {
    pub fn new(
        settings: AuthnSettings,
        reviews: Arc<dyn ReviewClient>,
        metrics: AuthnMetrics,
    ) -> Self {
        Self {
            settings: ArcSwap::from_pointee(settings),
            tokens: TokenAuthenticator::new(reviews, metrics.clone()),
            metrics,
        }
    }

    /// Replaces all settings. Remembered tokens stay.
    pub fn reload(&self, settings: AuthnSettings) {
        self.settings.store(Arc::new(settings));
    }

    /// Forgets remembered tokens, because upstream may be another cluster now.
    pub fn forget(&self) {
        self.tokens.forget();
    }

    /// Returns the caller, or an error: usually 401, 503 if the token could not be
    /// reviewed, and 429 if too many reviews wait.
    ///
    /// In degraded mode, `max_age` is the time for which a good token's answer is
    /// used.
    pub async fn authenticate(
        &self,
        presented: &Presented<'_>,
        max_age: Option<Duration>,
    ) -> Result<Authenticated, Status> {
        let started = Instant::now();
        let settings = self.settings.load_full();
        let (attempt, result) = self.attempt(&settings, presented, max_age).await;
        self.metrics.attempt(attempt, started.elapsed());
        result
    }

    async fn attempt(
        &self,
        settings: &AuthnSettings,
        presented: &Presented<'_>,
        max_age: Option<Duration>,
    ) -> (Attempt, Result<Authenticated, Status>) {
        let now = UnixTime::now();
        let peer = presented.peer;
        let mut failures = Vec::new();
        match front_proxy(settings, presented.headers, peer, now) {
            Ok(Some(user)) => return success(user, None, Method::RequestHeader),
            Ok(None) => {}
            Err(failure) => failures.push(failure),
        }
        match certificate(settings, peer, now) {
            Ok(Some(user)) => return success(user, None, Method::Certificate),
            Ok(None) => {}
            Err(failure) => failures.push(failure),
        }
        for token in tokens(settings, presented) {
            let opinion = match token {
                Ok((token, review)) => {
                    let from = presented.from.into();
                    let user = self.token(&token, from, review, max_age).await;
                    user.map(|user| (user, token))
                }
                Err(failure) => Err(failure.into()),
            };
            match opinion {
                Ok((user, token)) => return success(user, Some(token), Method::Token),
                Err(failure) => failures.push(failure),
            }
        }
        if failures.is_empty() {
            if settings.anonymous {
                let caller = Authenticated {
                    user: UserInfo::anonymous(),
                    token: None,
                    method: Method::Anonymous,
                };
                return (Attempt::Success, Ok(caller));
            }
            return (Attempt::Failure, Err(Status::unauthorized()));
        }
        let status = failures.iter().find_map(|failure| match failure {
            Failure::Review(error) => Some(error.to_status()),
            _ => None,
        });
        let why: Vec<_> = failures.iter().map(ToString::to_string).collect();
        // A flood is counted, and logged only for debugging: it must not fill a
        // disk.
        if failures.iter().any(Failure::is_crowded) {
            tracing::debug!(why = why.join("; "), "unable to authenticate the request");
        } else {
            tracing::info!(why = why.join("; "), "unable to authenticate the request");
        }
        (
            Attempt::Error,
            Err(status.unwrap_or_else(Status::unauthorized)),
        )
    }

    async fn token(
        &self,
        token: &str,
        from: Address,
        review: TokenReviewSettings,
        max_age: Option<Duration>,
    ) -> Result<UserInfo, Failure> {
        let tokens = &self.tokens;
        let outcome = tokens.authenticate(token, from, review, max_age).await;
        match &*outcome.map_err(Failure::Review)? {
            TokenOutcome::User(user) => Ok(user.clone()),
            TokenOutcome::Rejected(why) => Err(Failure::Rejected(why.clone())),
        }
    }
}

fn success(
    user: UserInfo,
    token: Option<String>,
    method: Method,
) -> (Attempt, Result<Authenticated, Status>) {
    let caller = Authenticated {
        user: user.with_authenticated_group(),
        token,
        method,
    };
    (Attempt::Success, Ok(caller))
}

fn front_proxy(
    settings: &AuthnSettings,
    headers: &HeaderMap,
    peer: &Peer,
    now: UnixTime,
) -> MethodResult {
    let Some(proxy) = &settings.request_header else {
        return Ok(None);
    };
    if !peer.has_certificate() {
        return Ok(None);
    }
    let subject = peer
        .verify(&proxy.client_ca, now)
        .map_err(Failure::FrontProxy)?;
    if !proxy.allowed_names.is_empty() && !proxy.allowed_names.contains(&subject.common_name) {
        return Err(Failure::NameNotAllowed(subject.common_name.clone()));
    }
    Ok(proxy.names.user(headers)?)
}

fn certificate(settings: &AuthnSettings, peer: &Peer, now: UnixTime) -> MethodResult {
    let Some(bundle) = &settings.client_ca else {
        return Ok(None);
    };
    if !peer.has_certificate() {
        return Ok(None);
    }
    peer.verify(bundle, now)
        .and_then(|subject| subject.user())
        .map_err(Failure::Certificate)
}

/// Returns the tokens of a request, in the order of trial.
fn tokens(
    settings: &AuthnSettings,
    presented: &Presented<'_>,
) -> Vec<Result<(String, TokenReviewSettings), TokenError>> {
    let Some(review) = settings.token_review else {
        return Vec::new();
    };
    let (headers, connection) = (presented.headers, presented.connection);
    let authorization = bearer_token::from_authorization(headers).map(|t| Ok(t.to_owned()));
    let protocol = bearer_token::from_websocket_protocol(headers, connection).transpose();
    authorization
        .into_iter()
        .chain(protocol)
        .map(|token| token.map(|token| (token, review)))
        .collect()
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
