//! The good tokens that are remembered, within a limit of bytes.
//! `token_authenticator.rs` decides how old an answer may be.
//!
//! The issuer of a token decides how large its user is: a user with very many groups
//! or extra has a megabyte. The users are kept on three shelves, by size. A flood of
//! tokens displaces only tokens of its own user, and only on the shelf of their
//! size.

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::review::{AnswerCache, Key};
use kubernetes_wire::api::UserInfo;
use tokio::time::Instant;

use super::token_authenticator::TokenOutcome;

/// The largest size and the number of users on each shelf, which makes 64, 32 and 32
/// MiB. The users of nearly all tokens have some hundred bytes. As in
/// kube-apiserver, there is room for twice the tokens of 5,000 nodes and 10,000
/// namespaces. A token whose user is larger than all shelves allow costs its caller
/// a review each time.
const SHELVES: [Shelf; 3] = [
    Shelf::new(2 << 10, 32_768),
    Shelf::new(64 << 10, 512),
    Shelf::new(1 << 20, 32),
];

#[derive(Clone, Copy)]
struct Shelf {
    most_bytes: usize,
    tokens: usize,
}

impl Shelf {
    const fn new(most_bytes: usize, tokens: usize) -> Self {
        Self { most_bytes, tokens }
    }
}

/// A good token, which is valid until its own expiry.
#[derive(Clone)]
pub(super) struct Accepted {
    pub(super) outcome: Arc<TokenOutcome>,
    pub(super) user: Arc<str>,
    pub(super) expires: Option<Instant>,
}

pub(super) struct AcceptedTokens([AnswerCache<Arc<str>, Accepted>; SHELVES.len()]);

impl AcceptedTokens {
    pub(super) fn new(now: Instant) -> Self {
        Self(SHELVES.map(|shelf| AnswerCache::new(shelf.tokens, now)))
    }

    /// Returns the remembered answer, and when it was asked for.
    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<(Accepted, Instant)> {
        self.0.iter().find_map(|shelf| shelf.get(key, now))
    }

    /// Remembers a token, unless its user is too large.
    pub(super) fn insert(&self, key: Key, accepted: Accepted, asked: Instant, longest: Duration) {
        let bytes = match &*accepted.outcome {
            TokenOutcome::User(user) => held_by(user),
            TokenOutcome::Rejected(_) => return,
        };
        let at = SHELVES.iter().position(|shelf| bytes <= shelf.most_bytes);
        for (n, shelf) in self.0.iter().enumerate() {
            match at == Some(n) {
                true => {
                    let (user, accepted) = (accepted.user.clone(), accepted.clone());
                    shelf.insert(key, user, accepted, asked, longest);
                }
                // The user may have had another size before.
                false => shelf.remove(&key),
            }
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        self.0.iter().for_each(|shelf| shelf.remove(key));
    }

    pub(super) fn clear(&self, now: Instant) {
        self.0.iter().for_each(|shelf| shelf.clear(now));
    }
}

/// Returns the approximate memory of a user. The name counts twice, because it is
/// also the key for the tokens of one user.
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
    let names = user.name.len().saturating_mul(2);
    size_of::<Accepted>()
        .saturating_add(size_of::<UserInfo>())
        .saturating_add(names)
        .saturating_add(user.uid.len())
        .saturating_add(strings(&user.groups))
        .saturating_add(extra.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn key(n: usize) -> Key {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        key
    }

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
    async fn large_users_have_a_budget_of_bytes() {
        let now = Instant::now();
        let tokens = AcceptedTokens::new(now);
        let insert = |n, accepted| tokens.insert(key(n), accepted, now, HOUR);
        let known = |n| tokens.get(&key(n), now).is_some();
        insert(0, accepted("jane", 10, "team"));
        insert(
            1,
            accepted("manager", 500, "a-group-of-forty-bytes-more-or-less-long"),
        );
        let large = accepted("flood", 1, &"x".repeat(1_000_000));
        for n in 10..200 {
            insert(n, large.clone());
        }
        let kept = (10..200).filter(|n| known(*n)).count();
        assert!((16..=SHELVES[2].tokens).contains(&kept), "{kept}");
        assert!(known(0) && known(1) && known(199));
        // An empty group takes 3 bytes of an answer, and many times that in memory.
        insert(2, accepted("flood", 300_000, ""));
        assert!(!known(2));
        let bytes: usize = SHELVES.iter().map(|s| s.most_bytes * s.tokens).sum();
        assert_eq!(bytes, 128 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_on_one_shelf() {
        let now = Instant::now();
        let tokens = AcceptedTokens::new(now);
        for groups in [1, 1000, 1, 20_000, 1_000_000] {
            tokens.insert(key(0), accepted("jane", groups, "a"), now, HOUR);
            let shelves = tokens.0.iter();
            let there = shelves.filter(|shelf| shelf.get(&key(0), now).is_some());
            assert_eq!(there.count(), usize::from(groups < 1_000_000), "{groups}");
        }
        tokens.insert(key(0), accepted("jane", 1000, "a"), now, HOUR);
        tokens.remove(&key(0));
        assert!(tokens.get(&key(0), now).is_none());
    }
}
