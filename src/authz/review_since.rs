//! Decisions for views: they must not be older than the change that a view follows.

use apifront_upstream::review::{self as upstream};
use kubernetes_wire::api::{Attributes, Status, UserInfo};
use tokio::time::Instant;

use super::{Authorizer, Decision, Question, WaitsAs, cache, review};

/// A decision about one place of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceReview {
    pub allowed: bool,
    pub asked: Instant,
    /// Whether the decision was already in memory.
    pub remembered: bool,
}

impl Authorizer {
    /// Tells whether `user` may make the request with these attributes, by a
    /// decision that was asked for after `since`. An older decision could precede
    /// the change that the view follows.
    pub async fn review_since(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        since: Instant,
    ) -> Result<PlaceReview, Status> {
        let key = cache::key(user, attributes);
        if let Some((remembered, asked)) = self.reviewer.decisions.get(&key, Instant::now())
            && asked >= since
        {
            self.metrics.review_cache(true);
            return Ok(PlaceReview {
                allowed: remembered.verdict.decision == Decision::Allow,
                asked,
                remembered: true,
            });
        }
        self.metrics.review_cache(false);
        let asked = Instant::now();
        let verdict = async {
            let question = Question {
                key,
                sharer: user.sharer().into(),
                body: upstream::body(&review::review(user, attributes))?,
                longest: self.settings.load().longest(),
                is_kept: false,
            };
            let waits_as = WaitsAs::Place(question.sharer.clone());
            let turn = self.reviewer.clone().may_ask(waits_as).await?;
            self.reviewer.ask_and_remember(turn, question).await
        };
        let verdict = verdict.await;
        let label = verdict
            .as_ref()
            .map_or("error", |verdict| verdict.decision.as_str());
        self.metrics.attempt(label, asked.elapsed());
        match verdict {
            Ok(verdict) => Ok(PlaceReview {
                allowed: verdict.decision == Decision::Allow,
                asked,
                remembered: false,
            }),
            Err(error) => {
                tracing::debug!(%error, "unable to ask about a place of a view");
                Err(error.to_status())
            }
        }
    }
}
