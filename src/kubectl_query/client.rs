//! Sends the plugin's requests to the API server.

use std::error::Error;
use std::time::Duration;

use apifront_upstream::causes;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, WARNING};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kubernetes_wire::api::warning;

use super::failure::{Failure, Refusal};

/// The most bytes of an answer. A page has at most 16 MiB, and so have the counts.
const MAX_ANSWER_BYTES: usize = 64 << 20;

const JSON: &str = "application/json";

pub(super) struct Client {
    client: kube::Client,
    server: String,
    /// Zero is no limit.
    timeout: Duration,
}

/// An answer whose body is still to be read.
pub(super) struct Opened {
    pub(super) status: StatusCode,
    /// The texts of the `Warning` headers.
    pub(super) warnings: Vec<String>,
    pub(super) body: Body,
}

impl Client {
    pub(super) fn new(config: kube::Config, timeout: Duration) -> Result<Self, Failure> {
        let server = config.cluster_url.to_string();
        let server = server.trim_end_matches('/').to_owned();
        let client = kube::Client::try_from(config)
            .map_err(|error| Failure::Kubeconfig(format!("kubeconfig: {}", causes(&error))))?;
        Ok(Self {
            client,
            server,
            timeout,
        })
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the body of a successful answer.
    pub(super) async fn get(&self, path: &str, accept: &str) -> Result<Bytes, Failure> {
        let request = Request::get(path).header(ACCEPT, accept);
        self.in_time(async {
            let opened = self.send(request, Body::empty()).await?;
            whole(opened.body).await
        })
        .await
    }

    /// Posts a document, and returns the answer's body and its warnings.
    pub(super) async fn post(
        &self,
        path: &str,
        document: Vec<u8>,
    ) -> Result<(Bytes, Vec<String>), Failure> {
        let path = match self.timeout.is_zero() {
            true => path.to_owned(),
            false => format!("{path}?timeout={}ms", self.timeout.as_millis()),
        };
        self.in_time(async {
            let opened = self.send(posted(&path), Body::from(document)).await?;
            Ok((whole(opened.body).await?, opened.warnings))
        })
        .await
    }

    /// Posts a document, and returns when the answer begins.
    pub(super) async fn open(&self, path: &str, document: Vec<u8>) -> Result<Opened, Failure> {
        self.in_time(self.send(posted(path), Body::from(document)))
            .await
    }

    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if self.timeout.is_zero() {
            return answer.await;
        }
        let answer = tokio::time::timeout(self.timeout, answer).await;
        answer.unwrap_or(Err(Failure::Timeout))
    }

    async fn send(&self, request: http::request::Builder, body: Body) -> Result<Opened, Failure> {
        let request = request.body(body).map_err(Failure::unreadable)?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| Failure::Unreachable {
            server: self.server.clone(),
            // kube's own words are only "ServiceError".
            cause: error.source().map_or_else(|| causes(&error), causes),
        })?;
        let (head, body) = Response::into_parts(response);
        if !head.status.is_success() {
            let refusal = Refusal::read(head.status, &whole(body).await?);
            return Err(Failure::Refused(Box::new(refusal)));
        }
        Ok(Opened {
            status: head.status,
            warnings: warnings(&head.headers),
            body,
        })
    }
}

fn posted(path: &str) -> http::request::Builder {
    Request::post(path)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, JSON)
}

async fn whole(body: Body) -> Result<Bytes, Failure> {
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| Failure::BrokenOff(error.to_string()))?;
    Ok(body.to_bytes())
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let warnings = headers.get_all(WARNING).into_iter();
    warnings.filter_map(warning::text).collect()
}
