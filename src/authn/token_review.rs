//! TokenReview: request and answer.

use std::collections::BTreeMap;

use apifront_upstream::review::Review;
use kubernetes_wire::api::UserInfo;
use serde::{Deserialize, Serialize};

pub(super) const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

#[derive(Serialize)]
pub(super) struct Spec<'a> {
    token: &'a str,
}

pub(super) fn review(token: &str) -> Review<Spec<'_>> {
    Review {
        kind: "TokenReview",
        api_version: "authentication.k8s.io/v1",
        spec: Spec { token },
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    authenticated: bool,
    user: User,
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct User {
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

impl Status {
    /// Returns the token's user. The error is the API server's reason, which may be
    /// empty.
    pub(super) fn user(self) -> Result<UserInfo, String> {
        let Self {
            authenticated,
            user,
            error,
        } = self;
        if !authenticated {
            return Err(error);
        }
        Ok(user.into())
    }
}

impl From<User> for UserInfo {
    fn from(user: User) -> Self {
        Self {
            name: user.username,
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }
    }
}
