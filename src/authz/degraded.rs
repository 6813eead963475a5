//! Decisions in degraded mode, without an API server.
//!
//! An informer lists once and then watches for hours. Its right to list must still
//! be known in an outage. So decisions about the reads that degraded mode names are
//! renewed before they are too old, if they are used now and then. This also notices
//! withdrawn rights.

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::review::Key;
use bytes::Bytes;
use futures::StreamExt;
use kubernetes_wire::api::{Attributes, UserInfo};
use tokio::time::Instant;

use super::cache::Remembered;
use super::settings::{DegradedAuthorization, DegradedBounds};
use super::{Authorizer, Decision, Verdict, WaitsAs};

/// The time between two searches for decisions that must be renewed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The most decisions that are renewed in one search, and at a time. With a `maxAge`
/// of ten minutes, all kept decisions are renewed within half of it by 28 reviews a
/// second.
const MOST_AT_ONCE: usize = 64;
const AT_A_TIME: usize = 4;

/// A decision that was not used for this time is not renewed.
const USED_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

impl Authorizer {
    /// Renews decisions that degraded mode may need, forever.
    pub async fn keep_recent(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.renew_old(Instant::now()).await;
        }
    }

    /// Renews allowances that are older than half of the age that degraded mode
    /// accepts.
    async fn renew_old(&self, now: Instant) {
        let half = self.settings.load().degraded.div_f64(2.0);
        let Some(before) = now.checked_sub(half).filter(|_| !half.is_zero()) else {
            return;
        };
        let used_after = now.checked_sub(USED_WITHIN);
        let decisions = &self.reviewer.decisions;
        let old = decisions.older_than(before, used_after, MOST_AT_ONCE, |remembered| {
            remembered.review.is_some() && remembered.verdict.decision == Decision::Allow
        });
        let renewed = old.into_iter().filter_map(|(key, sharer, remembered)| {
            let review = remembered.review?;
            Some(self.renew(key, sharer, review))
        });
        let mut renewed = futures::stream::iter(renewed).buffer_unordered(AT_A_TIME);
        // After a failure, the others wait for the next search.
        while renewed.next().await == Some(true) {}
    }

    /// Asks for a decision again. Returns false if no API server could be asked.
    async fn renew(&self, key: Key, sharer: Arc<str>, review: Bytes) -> bool {
        let waits_as = WaitsAs::Request(sharer);
        let Ok(turn) = self.reviewer.clone().may_ask(waits_as).await else {
            return false;
        };
        let asked = Instant::now();
        let Ok(verdict) = self.reviewer.ask(turn, review.clone()).await else {
            return false;
        };
        let remembered = Remembered {
            verdict,
            review: Some(review),
        };
        self.reviewer.decisions.renew(&key, remembered, asked);
        true
    }

    /// Decides from memory. `None` if memory does not hold the decision.
    pub(super) async fn decide_degraded(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        key: &Key,
        bounds: DegradedBounds,
    ) -> Option<Arc<Verdict>> {
        // These allowances also hold in outages without degraded mode.
        if let Some(verdict) = self.held_cut_off(key) {
            return Some(verdict);
        }
        match bounds.authorization {
            DegradedAuthorization::Cached => self.remembered(key, bounds.max_age),
            DegradedAuthorization::Rbac => {
                self.saved_verdict(user, attributes, bounds.max_age).await
            }
        }
    }

    /// Returns the decision, allowance or denial, if it was asked for less than
    /// `max_age` ago.
    fn remembered(&self, key: &Key, max_age: Duration) -> Option<Arc<Verdict>> {
        let now = Instant::now();
        let (remembered, asked) = self.reviewer.decisions.get(key, now)?;
        (now.saturating_duration_since(asked) < max_age).then_some(remembered.verdict)
    }

    /// Decides by the RBAC objects in memory. As in kube-apiserver, RBAC allows or
    /// has no opinion.
    async fn saved_verdict(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        max_age: Duration,
    ) -> Option<Arc<Verdict>> {
        let (rights, proven) = self.saved.rights().await?;
        if proven.elapsed() >= max_age {
            return None;
        }
        let (decision, reason) = match rights.allow(user, attributes) {
            true => (Decision::Allow, "RBAC: allowed by the objects in memory"),
            false => (
                Decision::NoOpinion,
                "RBAC: not allowed by the objects in memory, and no API server can be reached",
            ),
        };
        Some(Arc::new(Verdict {
            decision,
            reason: reason.to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use apifront_upstream::review::ReviewError;
    use parking_lot::Mutex;
    use prometheus::Registry;
    use serde_json::json;

    use super::*;
    use crate::authn::testing::FakeApiServer;
    use crate::authz::testing::{Saved, jane_gets};
    use crate::authz::{AuthzMetrics, AuthzSettings, CachedRbacUse, Purpose};

    const MAX_AGE: Duration = Duration::from_secs(600);
    const TEN_SECONDS: Duration = Duration::from_secs(10);

    fn authorizer(saved: Option<std::time::Instant>) -> (Authorizer, Arc<Mutex<bool>>) {
        let lost = Arc::new(Mutex::new(false));
        let is_lost = lost.clone();
        let server = FakeApiServer::new(move |_, review| {
            if *is_lost.lock() {
                return Err(ReviewError::Unavailable("refused".into()));
            }
            let path = review["spec"]["nonResourceAttributes"]["path"].as_str();
            let allowed = path == Some("/asked");
            Ok((201, json!({"status": {"allowed": allowed}}).to_string()))
        });
        let settings = AuthzSettings {
            allow_ttl: TEN_SECONDS,
            deny_ttl: TEN_SECONDS,
            outage: Duration::from_secs(30),
            degraded: MAX_AGE,
            cached_rbac: CachedRbacUse::Disabled,
        };
        let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
        let saved = Saved::proven(saved);
        (Authorizer::new(server, settings, metrics, saved), lost)
    }

    async fn code(authorizer: &Authorizer, path: &str, by: Option<DegradedAuthorization>) -> u16 {
        let (user, attributes) = jane_gets(path);
        let purpose = by.map_or(Purpose::NamedRead, |authorization| {
            Purpose::Degraded(DegradedBounds {
                max_age: MAX_AGE,
                authorization,
            })
        });
        let ruling = authorizer
            .authorize_request(&user, &attributes, purpose)
            .await;
        ruling.outcome.map_or_else(|status| status.code, |()| 200)
    }

    #[tokio::test(start_paused = true)]
    async fn earlier_decisions_hold_for_their_time_and_only_where_they_are_asked_for() {
        let cached = Some(DegradedAuthorization::Cached);
        let (authorizer, lost) = authorizer(None);
        for path in ["/asked", "/denied"] {
            code(&authorizer, path, None).await;
        }
        tokio::time::advance(Duration::from_secs(300)).await;
        *lost.lock() = true;
        for (path, by, expected) in [
            ("/asked", cached, 200),
            ("/denied", cached, 403),
            ("/never", cached, 503),
            // Requests that degraded mode does not name fail as without it.
            ("/asked", None, 503),
            ("/asked", Some(DegradedAuthorization::Rbac), 503),
        ] {
            assert_eq!(code(&authorizer, path, by).await, expected, "{path} {by:?}");
        }
        tokio::time::advance(Duration::from_secs(299)).await;
        assert_eq!(code(&authorizer, "/asked", cached).await, 200);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(code(&authorizer, "/asked", cached).await, 503);
        assert_eq!(code(&authorizer, "/denied", cached).await, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_remembered_of_another_cluster() {
        let cached = Some(DegradedAuthorization::Cached);
        let (authorizer, lost) = authorizer(None);
        assert_eq!(code(&authorizer, "/asked", None).await, 200);
        tokio::time::advance(TEN_SECONDS).await;
        *lost.lock() = true;
        assert_eq!(code(&authorizer, "/asked", cached).await, 200);
        authorizer.forget();
        assert_eq!(code(&authorizer, "/asked", cached).await, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn rights_to_named_reads_are_confirmed_again_and_again() {
        let cached = Some(DegradedAuthorization::Cached);
        let (authorizer, lost) = authorizer(None);
        let user = UserInfo {
            name: "jane".into(),
            ..UserInfo::default()
        };
        let unnamed = Attributes::NonResource {
            verb: "get".into(),
            path: "/asked".into(),
        };
        let joe = UserInfo {
            name: "joe".into(),
            ..user.clone()
        };
        assert_eq!(code(&authorizer, "/asked", None).await, 200);
        let usual = authorizer.authorize_request(&joe, &unnamed, Purpose::Usual);
        assert!(usual.await.outcome.is_ok());
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(100)).await;
            authorizer.renew_old(Instant::now()).await;
        }
        *lost.lock() = true;
        assert_eq!(code(&authorizer, "/asked", cached).await, 200);
        // No API server confirms it any more.
        for _ in 0..6 {
            tokio::time::advance(Duration::from_secs(100)).await;
            authorizer.renew_old(Instant::now()).await;
        }
        assert_eq!(code(&authorizer, "/asked", cached).await, 503);
        let later = Purpose::Degraded(DegradedBounds {
            max_age: MAX_AGE,
            authorization: DegradedAuthorization::Cached,
        });
        let joe = authorizer.authorize_request(&joe, &unnamed, later).await;
        assert_eq!(joe.outcome.unwrap_err().code, 503, "not named, not kept");
    }

    #[tokio::test]
    async fn rbac_decides_while_its_objects_are_recent() {
        let rbac = Some(DegradedAuthorization::Rbac);
        let now = std::time::Instant::now();
        let (recent, lost) = authorizer(Some(now));
        *lost.lock() = true;
        for (path, expected) in [("/bound", 200), ("/asked", 403)] {
            assert_eq!(code(&recent, path, rbac).await, expected, "{path}");
        }
        assert_eq!(code(&recent, "/bound", None).await, 503);
        let (old, lost) = authorizer(Some(now.checked_sub(MAX_AGE).unwrap()));
        *lost.lock() = true;
        assert_eq!(code(&old, "/bound", rbac).await, 503);
    }
}
