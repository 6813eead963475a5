//! Sends reviews to the pool.

use async_trait::async_trait;
use bytes::Bytes;

use super::review::{REVIEW_TIMEOUT, ReviewClient, ReviewError};
use super::{BodyLimit, Upstream};
use crate::metrics::UpstreamKind;

/// The limit of an answer. A review takes a few kilobytes: a user, the groups, a
/// reason.
const ANSWER: BodyLimit = BodyLimit::new(1 << 20, REVIEW_TIMEOUT);

#[async_trait]
impl ReviewClient for Upstream {
    async fn create_review(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<(http::StatusCode, Bytes), ReviewError> {
        let kind = match path.rsplit('/').next() {
            Some("tokenreviews") => UpstreamKind::TokenReview,
            Some("selfsubjectreviews") => UpstreamKind::SelfSubjectReview,
            _ => UpstreamKind::SubjectAccessReview,
        };
        let ask = async {
            let response = self
                .post(kind, path, &body)
                .await
                .map_err(|e| e.to_string())?;
            let status = response.status();
            let body = response
                .into_body()
                .collect_bytes(ANSWER)
                .await
                .map_err(|e| e.to_string())?;
            Ok((status, body))
        };
        match tokio::time::timeout(REVIEW_TIMEOUT, ask).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(ReviewError::Unavailable(error)),
            Err(_) => Err(ReviewError::Timeout),
        }
    }

    fn is_reachable(&self) -> bool {
        self.any_healthy()
    }
}
