//! The good tokens that are remembered, within a limit of bytes.
//! `token_authenticator.rs` decides how old an answer may be.

use std::sync::Arc;

use apifront_upstream::review::{AnswerCache, Held};
use kubernetes_wire::api::UserInfo;
use tokio::time::Instant;

use super::token_authenticator::TokenOutcome;

/// The memory for good tokens. Nearly all take less than 1 KiB. As in kube-apiserver,
/// there is room for twice the tokens of 5,000 nodes and 10,000 namespaces.
const MAX_BYTES: usize = 64 << 20;

/// The issuer of a token decides how large its user is: a user with very many groups or
/// extra has a megabyte. A token whose user is larger than this costs its caller a
/// review each time.
const MAX_USER_BYTES: usize = 1 << 20;

/// A good token, which is valid until its own expiry.
#[derive(Clone)]
pub(super) struct Accepted {
    pub(super) outcome: Arc<TokenOutcome>,
    pub(super) user: Arc<str>,
    pub(super) expires: Option<Instant>,
}

impl Accepted {
    pub(super) fn is_kept(&self) -> bool {
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

/// The tokens, by the names of their users.
pub(super) type AcceptedTokens = AnswerCache<Arc<str>, Accepted>;

pub(super) fn new(now: Instant) -> AcceptedTokens {
    AnswerCache::new(MAX_BYTES, now)
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
    use std::time::Duration;

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
        let tokens = new(now);
        let insert = |n: u8, accepted: Accepted| {
            let user = accepted.user.clone();
            tokens.insert([n; 32], user, accepted, now, HOUR);
        };
        let known = |n: u8| tokens.get(&[n; 32], now).is_some();
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
