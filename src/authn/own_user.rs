//! The user as whom apifront's own credentials act, learned with a
//! SelfSubjectReview. It is needed where every caller acts with these credentials.

use std::sync::Arc;

use apifront_upstream::review::{self, Review, ReviewClient, ReviewError, Reviewed};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::StatusCode;
use kubernetes_wire::api::UserInfo;
use serde::{Deserialize, Serialize};

use super::token_review::User;

const PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[derive(Default)]
pub struct OwnUser(ArcSwapOption<UserInfo>);

#[derive(Serialize)]
struct NoSpec {}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReviewStatus {
    user_info: User,
}

impl OwnUser {
    pub fn get(&self) -> Option<Arc<UserInfo>> {
        self.0.load_full()
    }

    /// Forgets the user, because upstream may be another cluster now.
    pub fn forget(&self) {
        self.0.store(None);
    }

    /// Asks once. Returns true if the API server named the user, or refuses to.
    pub async fn learn(&self, client: &dyn ReviewClient) -> bool {
        match ask(client).await {
            Ok(user) => {
                self.0.store(user.map(Arc::new));
                true
            }
            Err(error) => {
                tracing::debug!(%error, "own user not known yet");
                false
            }
        }
    }
}

/// Asks once. `None` if the API server has no such review or refuses it.
async fn ask(client: &dyn ReviewClient) -> Result<Option<UserInfo>, ReviewError> {
    let review = Review {
        kind: "SelfSubjectReview",
        api_version: "authentication.k8s.io/v1",
        spec: NoSpec {},
    };
    let (code, answer) = client.create_review(PATH, review::body(&review)?).await?;
    match code {
        code if code.is_success() => Ok(Some(user(&answer)?)),
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(None),
        code => Err(ReviewError::Unavailable(code.to_string())),
    }
}

fn user(answer: &Bytes) -> Result<UserInfo, ReviewError> {
    let reviewed: Reviewed<ReviewStatus> =
        serde_json::from_slice(answer).map_err(|e| ReviewError::Malformed(e.to_string()))?;
    Ok(reviewed.status.user_info.into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;

    struct Answers(Vec<(u16, &'static str)>, AtomicUsize);

    #[async_trait]
    impl ReviewClient for Answers {
        async fn create_review(
            &self,
            path: &str,
            _: Bytes,
        ) -> Result<(StatusCode, Bytes), ReviewError> {
            assert_eq!(path, PATH);
            let (code, body) = self.0[self.1.fetch_add(1, Ordering::Relaxed)];
            Ok((StatusCode::from_u16(code).unwrap(), body.into()))
        }
    }

    async fn learned(answers: &[(u16, &'static str)]) -> Option<Arc<UserInfo>> {
        let own = OwnUser::default();
        let answers = Answers(answers.to_vec(), AtomicUsize::new(0));
        while !own.learn(&answers).await {}
        own.get()
    }

    #[tokio::test]
    async fn the_user_is_learned_or_stays_unknown() {
        let told = r#"{"status":{"userInfo":{"username":"a","groups":["g"]}}}"#;
        let user = learned(&[(503, ""), (201, "no JSON"), (201, told)]).await;
        let user = user.unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("a", &["g".to_owned()][..])
        );
        assert!(learned(&[(403, "")]).await.is_none());
        assert!(learned(&[(404, "")]).await.is_none());
    }
}
