//! Remembered decisions, by caller and attributes, and the time for which each may
//! be used.

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::review::{AnswerCache, Held, Key};
use bytes::Bytes;
use kubernetes_wire::api::{Attributes, UserInfo};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{AuthzSettings, Decision, Verdict};

/// The memory for decisions. Usual ones take some 400 bytes, so there is room for 80,000:
/// the agents of 10,000 nodes with eight rights each. (The API server's webhook
/// authorizer keeps 8,192.)
const MAX_BYTES: usize = 32 << 20;

/// Decisions about longer attributes keep no review, because callers choose the
/// attributes. The API server's webhook authorizer does not even keep the decision
/// (`maxControlledAttrCacheSize`). Here the key of a decision is a digest, so that
/// long selectors are not reviewed for each request.
const MAX_KEPT_ATTRIBUTES_BYTES: usize = 10_000;

/// The same for reviews of users with very many groups or extra.
pub(super) const MAX_KEPT_REVIEW_BYTES: usize = 32 << 10;

/// Decisions with a longer reason are not remembered: the authorizer chooses the
/// reason.
pub(super) const MAX_KEPT_REASON_BYTES: usize = 8 << 10;

#[derive(Clone)]
pub(super) struct Remembered {
    pub verdict: Arc<Verdict>,
    /// The review with which the decision is renewed. Only for decisions that
    /// degraded mode may need.
    pub review: Option<Bytes>,
}

impl Held for Remembered {
    fn held_bytes(&self) -> usize {
        let review = self.review.as_ref().map_or(0, Bytes::len);
        size_of::<Verdict>()
            .saturating_add(self.verdict.reason.len())
            .saturating_add(review)
    }
}

/// Decisions, grouped by the name of their user.
pub(super) type Decisions = AnswerCache<Arc<str>, Remembered>;

pub(super) fn new(now: Instant) -> Decisions {
    AnswerCache::new(MAX_BYTES, now)
}

impl AuthzSettings {
    /// Tells whether a decision that was asked for at `asked` may be used. The
    /// current settings apply, so that a reload affects earlier decisions.
    pub fn believes(&self, decision: Decision, asked: Instant, now: Instant) -> bool {
        let ttl = match decision {
            Decision::Allow => self.allow_ttl,
            Decision::Deny | Decision::NoOpinion => self.deny_ttl,
        };
        now.saturating_duration_since(asked) < ttl
    }

    /// Tells whether an allowance may be used while no API server can be reached.
    /// `heard` is the time of the last answer from an API server: allowances that
    /// could be used then hold for `outage` after it. So all allowances end at the
    /// same moment, which is also the moment at which memory that was last proven
    /// fresh at `heard` is no longer served.
    pub fn believes_cut_off(&self, asked: Instant, heard: Instant, now: Instant) -> bool {
        self.believes(Decision::Allow, asked, heard)
            && now.saturating_duration_since(heard) < self.outage
    }

    /// Returns the longest time for which any decision is used.
    pub fn longest(&self) -> Duration {
        self.deny_ttl
            .max(self.allow_ttl.saturating_add(self.outage))
            .max(self.degraded)
    }
}

pub(super) fn is_kept(attributes: &Attributes) -> bool {
    let bytes: usize = parts(attributes).iter().map(|part| part.len()).sum();
    bytes < MAX_KEPT_ATTRIBUTES_BYTES
}

pub fn key(user: &UserInfo, attributes: &Attributes) -> Key {
    let mut digest = Parts::default();
    digest.strings(&parts(attributes));
    digest.strings(&[&user.name, &user.uid]);
    digest.strings(&user.groups);
    digest.number(user.extra.len());
    for (key, values) in &user.extra {
        digest.strings(&[key]);
        digest.strings(values);
    }
    digest.digest()
}

fn parts(attributes: &Attributes) -> Vec<&str> {
    match attributes {
        Attributes::NonResource { verb, path } => vec![verb, path],
        Attributes::Resource {
            verb,
            gvr,
            namespace,
            name,
            subresource,
            field_selector,
            label_selector,
        } => vec![
            verb,
            &gvr.group,
            &gvr.version,
            &gvr.resource,
            namespace,
            name,
            subresource,
            field_selector,
            label_selector,
        ],
    }
}

/// A digest of strings. It includes the length of every string and list, so that two
/// different questions never have the same bytes.
#[derive(Default)]
pub(super) struct Parts(Sha256);

impl Parts {
    pub(super) fn number(&mut self, n: usize) {
        self.0.update((n as u64).to_be_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    fn strings<S: AsRef<str>>(&mut self, strings: &[S]) {
        self.number(strings.len());
        for string in strings {
            self.bytes(string.as_ref().as_bytes());
        }
    }

    pub(super) fn digest(self) -> Key {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::CachedRbacUse;

    #[tokio::test(start_paused = true)]
    async fn allowances_end_together_in_an_outage() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let settings = AuthzSettings {
            allow_ttl: Duration::from_secs(10),
            deny_ttl: Duration::from_secs(5),
            outage: Duration::from_secs(30),
            degraded: Duration::ZERO,
            cached_rbac: CachedRbacUse::Disabled,
        };
        for (asked, now, allow, deny) in [
            (0, 4, true, true),
            (0, 5, true, false),
            (0, 10, false, false),
        ] {
            assert_eq!(
                settings.believes(Decision::Allow, at(asked), at(now)),
                allow
            );
            assert_eq!(settings.believes(Decision::Deny, at(asked), at(now)), deny);
            assert_eq!(
                settings.believes(Decision::NoOpinion, at(asked), at(now)),
                deny
            );
        }
        // An API server last answered at 100.
        for (asked, now, holds) in [
            (100, 129, true),
            (100, 130, false),
            // An allowance that was asked for earlier ends no earlier.
            (91, 129, true),
            (91, 130, false),
            // Allowances that had ended before do not come back.
            (90, 101, false),
            (70, 101, false),
        ] {
            let believed = settings.believes_cut_off(at(asked), at(100), at(now));
            assert_eq!(believed, holds, "asked at {asked}, now {now}");
        }
        let never = AuthzSettings {
            allow_ttl: Duration::ZERO,
            ..settings
        };
        assert!(!never.believes_cut_off(at(100), at(100), at(101)));
        assert_eq!(settings.longest(), Duration::from_secs(40));
        let degraded = AuthzSettings {
            degraded: Duration::from_secs(600),
            ..settings
        };
        assert_eq!(degraded.longest(), Duration::from_secs(600));
    }

    fn path(path: &str) -> Attributes {
        Attributes::NonResource {
            verb: "get".into(),
            path: path.into(),
        }
    }

    #[test]
    fn no_two_questions_share_a_key() {
        let user = |name: &str, uid: &str, groups: &[&str], extra: &[(&str, &str)]| UserInfo {
            name: name.into(),
            uid: uid.into(),
            groups: groups.iter().map(|g| g.to_string()).collect(),
            extra: extra
                .iter()
                .map(|(k, v)| (k.to_string(), vec![v.to_string()]))
                .collect(),
        };
        let keys: std::collections::HashSet<_> = [
            key(&user("ab", "", &[], &[]), &path("/x")),
            key(&user("a", "b", &[], &[]), &path("/x")),
            key(&user("a", "", &["b"], &[]), &path("/x")),
            key(&user("a", "", &["b", "c"], &[]), &path("/x")),
            key(&user("a", "", &["bc"], &[]), &path("/x")),
            key(&user("a", "", &["b"], &[("c", "d")]), &path("/x")),
            key(&user("a", "", &["b"], &[("c", "e")]), &path("/x")),
            key(&user("a", "", &[], &[]), &path("/y")),
        ]
        .into_iter()
        .collect();
        assert_eq!(keys.len(), 8);
        let long = "x".repeat(MAX_KEPT_ATTRIBUTES_BYTES);
        assert!(is_kept(&path("/x")) && !is_kept(&path(&long)));
    }
}
