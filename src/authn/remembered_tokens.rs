//! The answers of TokenReviews that are remembered, by the tokens' digests: how long each
//! is believed, and how many are kept.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use apifront_upstream::review::{AnswerCache, Held, Key};
use kubernetes_wire::api::UserInfo;
use tokio::time::Instant;

use super::jwt_expiry;
use super::remote_address::Address;
use super::token_authenticator::{TokenOutcome, TokenReviewSettings};

/// The memory for good tokens. Nearly all take less than 1 KiB. As in kube-apiserver,
/// there is room for twice the tokens of 5,000 nodes and 10,000 namespaces.
const MAX_BYTES: usize = 64 << 20;

/// The memory for bad tokens, which is enough for 10,000. They are kept apart, so that a
/// flood of them displaces no good token. A forgotten bad token costs its caller another
/// review.
const MAX_REJECTED_BYTES: usize = 4 << 20;

/// The time for which a good token counts as known: the life of a service account's
/// token. This is longer than the answer is used. It only decides in which queue the
/// token's next review waits.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

/// The issuer of a token decides how large its user is: a user with very many groups or
/// extra has a megabyte. A token whose user is larger than this costs its caller a
/// review each time.
const MAX_USER_BYTES: usize = 1 << 20;

pub(super) struct RememberedTokens {
    accepted: AnswerCache<Arc<str>, Accepted>,
    rejected: AnswerCache<Address, Arc<TokenOutcome>>,
}

/// A good token, which is valid until its own expiry.
#[derive(Clone)]
struct Accepted {
    outcome: Arc<TokenOutcome>,
    user: Arc<str>,
    expires: Option<Instant>,
}

/// A token must be reviewed.
pub(super) struct NotBelieved {
    /// The user, if the token was good before.
    pub(super) known: Option<Arc<str>>,
}

impl RememberedTokens {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            accepted: AnswerCache::new(MAX_BYTES, now),
            rejected: AnswerCache::new(MAX_REJECTED_BYTES, now),
        }
    }

    pub(super) fn clear(&self, now: Instant) {
        self.accepted.clear(now);
        self.rejected.clear(now);
    }

    /// Returns the answer about a token, if it is young enough. In degraded mode,
    /// `max_age` is the time for which a good token's answer is used, but never after
    /// the token's own expiry.
    pub(super) fn get(
        &self,
        key: &Key,
        settings: TokenReviewSettings,
        max_age: Option<Duration>,
        now: Instant,
    ) -> Result<Arc<TokenOutcome>, NotBelieved> {
        let believed = |asked: Instant, ttl| now.saturating_duration_since(asked) < ttl;
        let mut known = None;
        if let Some((accepted, asked)) = self.accepted.get(key, now) {
            let is_alive = accepted.expires.is_none_or(|end| now < end);
            let ttl = settings.success_ttl.max(max_age.unwrap_or_default());
            if is_alive && believed(asked, ttl) {
                return Ok(accepted.outcome);
            }
            known = Some(accepted.user).filter(|_| believed(asked, KNOWN_FOR));
        } else if let Some((outcome, asked)) = self.rejected.get(key, now)
            && believed(asked, settings.failure_ttl)
        {
            return Ok(outcome);
        }
        Err(NotBelieved { known })
    }

    /// Remembers the answer to a question about `token` that was asked at `asked`.
    pub(super) fn remember(
        &self,
        token: &Token<'_>,
        outcome: &Arc<TokenOutcome>,
        settings: TokenReviewSettings,
        asked: Instant,
    ) {
        let key = token.key;
        match &**outcome {
            TokenOutcome::User(user) => {
                let accepted = Accepted {
                    outcome: outcome.clone(),
                    user: user.name.as_str().into(),
                    expires: remaining(token.text, SystemTime::now())
                        .and_then(|left| asked.checked_add(left)),
                };
                self.accept(key, accepted, settings, asked);
                self.rejected.remove(&key);
            }
            TokenOutcome::Rejected(_) => {
                let (from, outcome) = (token.from, outcome.clone());
                self.rejected
                    .insert(key, from, outcome, asked, settings.failure_ttl);
                self.accepted.remove(&key);
            }
        }
    }

    fn accept(&self, key: Key, accepted: Accepted, settings: TokenReviewSettings, asked: Instant) {
        if !accepted.is_kept() {
            self.accepted.remove(&key);
            return;
        }
        let longest = settings.success_ttl.max(KNOWN_FOR).max(settings.degraded);
        let user = accepted.user.clone();
        self.accepted.insert(key, user, accepted, asked, longest);
    }
}

/// A token, and the address that showed it.
pub(super) struct Token<'a> {
    pub(super) key: Key,
    pub(super) text: &'a str,
    pub(super) from: Address,
}

/// Returns the time until the token's own expiry. `None` if it names none.
fn remaining(token: &str, now: SystemTime) -> Option<Duration> {
    let expiry = jwt_expiry::expiry(token)?;
    Some(expiry.duration_since(now).unwrap_or_default())
}

impl Accepted {
    fn is_kept(&self) -> bool {
        self.held_bytes() <= MAX_USER_BYTES
    }
}

impl Held for Accepted {
    fn held_bytes(&self) -> usize {
        self.outcome.held_bytes()
    }
}

impl Held for TokenOutcome {
    fn held_bytes(&self) -> usize {
        let held = match self {
            Self::User(user) => held_by(user),
            Self::Rejected(reason) => reason.len(),
        };
        size_of::<Self>().saturating_add(held)
    }
}

/// Returns the approximate memory behind a user's pointers.
fn held_by(user: &UserInfo) -> usize {
    const STRING_BYTES: usize = size_of::<String>() + 2 * size_of::<usize>();
    const ENTRY_BYTES: usize = STRING_BYTES + size_of::<Vec<String>>() + 2 * size_of::<usize>();
    let strings = |strings: &[String]| -> usize {
        let bytes = strings.iter().map(|s| s.len().saturating_add(STRING_BYTES));
        bytes.sum()
    };
    let extra = user.extra.iter().map(|(key, values)| {
        let entry = key.len().saturating_add(ENTRY_BYTES);
        entry.saturating_add(strings(values))
    });
    let name = user.name.len();
    name.saturating_add(user.uid.len())
        .saturating_add(strings(&user.groups))
        .saturating_add(extra.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn accepted(name: &str, groups: usize, group: &str) -> Accepted {
        let user = UserInfo {
            name: name.to_owned(),
            groups: vec![group.to_owned(); groups],
            ..UserInfo::default()
        };
        Accepted {
            outcome: Arc::new(TokenOutcome::User(user)),
            user: name.into(),
            expires: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_users_displace_each_other() {
        let now = Instant::now();
        let tokens = RememberedTokens::new(now);
        let settings = TokenReviewSettings {
            success_ttl: HOUR,
            failure_ttl: HOUR,
            degraded: HOUR,
        };
        let insert = |n: u8, accepted| tokens.accept([n; 32], accepted, settings, now);
        let known = |n: u8| tokens.get(&[n; 32], settings, None, now).is_ok();
        insert(0, accepted("jane", 10, "team"));
        insert(
            1,
            accepted("manager", 500, "a-group-of-forty-bytes-more-or-less-long"),
        );
        let large = accepted("flood", 1, &"x".repeat(1_000_000));
        assert!(large.is_kept());
        (10..200).for_each(|n| insert(n, large.clone()));
        let kept = (10..200).filter(|n| known(*n)).count();
        assert!((32..=67).contains(&kept), "{kept}");
        assert!(known(0) && known(1) && known(199));
    }

    #[test]
    fn many_small_groups_are_large() {
        // An empty group takes 3 bytes of an answer, and many times that in memory.
        assert!(!accepted("flood", 300_000, "").is_kept());
        assert!(accepted("jane", 10_000, "").is_kept());
    }
}
