//! Sends the doctor's requests to one API server.

use std::time::Duration;

use apifront_upstream::causes;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde_json::{Value, json};

/// The most bytes of an answer. The discovery of a large cluster has 2 MB.
const MAX_BODY_BYTES: usize = 32 << 20;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Client(kube::Client);

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Returns the name in the answer to [`Client::who`].
    pub(super) fn user(&self) -> Option<String> {
        let review = self.json()?;
        let user = review.get("status")?.get("userInfo")?.get("username")?;
        user.as_str().map(str::to_owned)
    }

    /// Returns the status code and the message of an error answer.
    pub(super) fn error(&self) -> String {
        let told = self.json();
        let message = told.as_ref().and_then(|told| told.get("message")?.as_str());
        match message {
            Some(message) => format!("{}: {message}", self.status.as_u16()),
            None => self.status.to_string(),
        }
    }
}

impl Client {
    pub(super) fn new(config: &kube::Config) -> Result<Self, String> {
        let mut config = config.clone();
        config.connect_timeout = Some(ANSWER_TIMEOUT);
        config.read_timeout = Some(ANSWER_TIMEOUT);
        let client = kube::Client::try_from(config);
        client.map(Self).map_err(|error| causes(&error))
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, String> {
        let request = Request::get(path).header(ACCEPT, "application/json");
        self.send(request, Body::empty()).await
    }

    pub(super) async fn get_with(
        &self,
        path: &str,
        headers: &[(String, String)],
    ) -> Result<Answer, String> {
        let request = Request::get(path).header(ACCEPT, "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(name.as_str(), value.as_str())
        });
        self.send(request, Body::empty()).await
    }

    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Result<Answer, String> {
        let request = Request::get(path).header(ACCEPT, accept);
        self.send(request, Body::empty()).await
    }

    pub(super) async fn post(
        &self,
        path: &str,
        headers: &[(String, String)],
        body: &Value,
    ) -> Result<Answer, String> {
        let request = Request::post(path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(name.as_str(), value.as_str())
        });
        self.send(request, Body::from(body.to_string().into_bytes()))
            .await
    }

    /// Asks with a SelfSubjectReview which user a request with these headers has.
    pub(super) async fn who(&self, headers: &[(String, String)]) -> Result<Answer, String> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "SelfSubjectReview",
        });
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        self.post(path, headers, &review).await
    }

    async fn send(&self, request: http::request::Builder, body: Body) -> Result<Answer, String> {
        let request = request.body(body).map_err(|error| error.to_string())?;
        let answer = async {
            let response = self.0.send(request).await.map_err(|error| causes(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body,
            })
        };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {ANSWER_TIMEOUT:?}")))
    }
}
