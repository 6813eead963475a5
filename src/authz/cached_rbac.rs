//! Allowances by the RBAC objects in memory, where the operator says that nothing in
//! upstream denies what RBAC allows. They are remembered as a review's are, and are as
//! old as the objects.

use std::sync::Arc;

use apifront_upstream::review::{self as upstream, Key, ReviewError};
use kubernetes_wire::api::{Attributes, UserInfo};
use tokio::time::Instant;

use super::{Authorizer, CachedRbacUse, Decision, Verdict, review};

/// The most comparisons of texts for one decision, which take about 0.1 ms. More rules
/// than that are left to upstream: whoever may write roles and bindings in a namespace
/// would otherwise hold up all others' requests.
const MOST_COMPARISONS: usize = 20_000;

const REASON: &str = "RBAC: allowed by the objects in memory";

impl Authorizer {
    /// Returns an allowance if the RBAC objects in memory allow the request. `is_kept`
    /// tells whether degraded mode may need the decision.
    pub(super) async fn allowed_by_rbac(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        key: Key,
        is_kept: bool,
    ) -> Result<Option<Arc<Verdict>>, ReviewError> {
        let settings = **self.settings.load();
        if settings.cached_rbac != CachedRbacUse::Allow {
            return Ok(None);
        }
        // So that an allowance is of use for at least half of its time.
        let age = settings.allow_ttl.div_f64(2.0);
        let Some((rights, proven)) = self.saved.rights_within(age).await else {
            self.metrics.cached_rbac("unknown");
            return Ok(None);
        };
        let allowed = rights.allow_within(user, attributes, MOST_COMPARISONS);
        self.metrics.cached_rbac(match allowed {
            Some(true) => "allowed",
            Some(false) => "not-allowed",
            None => "too-many-rules",
        });
        if allowed != Some(true) {
            return Ok(None);
        }
        let verdict = Arc::new(Verdict {
            decision: Decision::Allow,
            reason: REASON.to_owned(),
        });
        let review = match is_kept {
            true => Some(upstream::body(&review::review(user, attributes))?),
            false => None,
        };
        let proven = Instant::from_std(proven);
        self.reviewer.heard_at(proven);
        let sharer = user.sharer().into();
        let longest = settings.longest();
        self.reviewer
            .remember(key, sharer, (&verdict, review), proven, longest);
        Ok(Some(verdict))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus::Registry;
    use serde_json::json;

    use super::*;
    use crate::authn::testing::FakeApiServer;
    use crate::authz::testing::{Saved, jane_gets};
    use crate::authz::{AuthzMetrics, AuthzSettings, Purpose};

    /// Asks jane's right to get the path. Returns the status code and the reviews.
    async fn code(authorizer: &Authorizer, server: &FakeApiServer, path: &str) -> (u16, usize) {
        let (user, attributes) = jane_gets(path);
        let before = server.calls();
        let asked = authorizer.authorize_request(&user, &attributes, Purpose::Usual);
        let outcome = asked.await.outcome;
        let code = outcome.map_or_else(|status| status.code, |()| 200);
        (code, server.calls() - before)
    }

    #[tokio::test(start_paused = true)]
    async fn allowances_last_as_a_reviews_and_the_rest_is_asked_for() {
        let server = FakeApiServer::new(|_, review| {
            let path = review["spec"]["nonResourceAttributes"]["path"].as_str();
            let allowed = path == Some("/asked");
            Ok((201, json!({"status": {"allowed": allowed}}).to_string()))
        });
        let saved = Saved::proven(Some(std::time::Instant::now()));
        let settings = AuthzSettings {
            allow_ttl: Duration::from_secs(10),
            deny_ttl: Duration::ZERO,
            outage: Duration::from_secs(30),
            degraded: Duration::ZERO,
            cached_rbac: CachedRbacUse::Allow,
        };
        let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
        let authorizer = Authorizer::new(server.clone(), settings, metrics, saved.clone());
        let ask = async |path| code(&authorizer, &server, path).await;
        for (path, expected) in [
            ("/bound", (200, 0)),
            ("/asked", (200, 1)),
            ("/other", (403, 1)),
        ] {
            assert_eq!(ask(path).await, expected, "{path}");
        }
        saved.forget();
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(ask("/bound").await, (200, 0), "remembered");
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(ask("/bound").await, (403, 1), "no longer in memory");
    }

    #[tokio::test]
    async fn off_by_default() {
        let server =
            FakeApiServer::new(|_, _| Ok((201, json!({"status": {"allowed": false}}).to_string())));
        let saved = Saved::proven(Some(std::time::Instant::now()));
        let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
        let authorizer = Authorizer::new(server.clone(), AuthzSettings::default(), metrics, saved);
        assert_eq!(code(&authorizer, &server, "/bound").await, (403, 1));
    }
}
