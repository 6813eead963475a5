//! TokenReview: the question and the answer.

use std::collections::BTreeMap;

use kubernetes_wire::api::UserInfo;
use serde::{Deserialize, Serialize};

pub const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question<'a> {
    kind: &'static str,
    api_version: &'static str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    token: &'a str,
}

impl<'a> Question<'a> {
    pub fn new(token: &'a str) -> Self {
        Self {
            kind: "TokenReview",
            api_version: "authentication.k8s.io/v1",
            spec: Spec { token },
        }
    }
}

#[derive(Deserialize)]
pub struct Answer {
    #[serde(default)]
    status: AnswerStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerStatus {
    authenticated: bool,
    user: AnswerUser,
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerUser {
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

impl Answer {
    /// Returns the token's user. The error is the reason why there is none,
    /// which may be empty.
    pub fn user(self) -> Result<UserInfo, String> {
        let AnswerStatus {
            authenticated,
            user,
            error,
        } = self.status;
        if !authenticated {
            return Err(error);
        }
        Ok(UserInfo {
            name: user.username,
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        })
    }
}
