//! All API servers: which one a request goes to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::ACCEPT;
use kube::client::Body;

use super::{Endpoint, Settings, SettingsError};
use crate::config::upstream::Timing;
use crate::metrics::{UpstreamKind, UpstreamMetrics};

#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// `causes` from the outermost in: "client error (Connect)" alone helps
    /// nobody.
    #[error("{server}: {causes}")]
    Request { server: String, causes: String },
    #[error("no credentials for {server}: {error}")]
    Credentials {
        server: String,
        error: tower::BoxError,
    },
    #[error("{server}: no answer within {after:?}")]
    Timeout { server: String, after: Duration },
    #[error("no API server is configured")]
    NoServers,
    #[error("cannot build the request: {0}")]
    Build(#[from] http::Error),
}

pub struct Upstream {
    endpoints: Vec<Arc<Endpoint>>,
    turn: AtomicUsize,
    pub(super) timing: Timing,
    metrics: UpstreamMetrics,
}

impl Upstream {
    pub fn new(settings: &Settings, metrics: UpstreamMetrics) -> Result<Self, SettingsError> {
        let endpoints = (0..)
            .zip(&settings.servers)
            .map(|(index, server)| Endpoint::new(server, index, settings.timing).map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            endpoints,
            turn: AtomicUsize::new(0),
            timing: settings.timing,
            metrics,
        })
    }

    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    pub fn any_healthy(&self) -> bool {
        self.endpoints.iter().any(|e| e.is_healthy())
    }

    /// The next API server in turn: healthy before unhealthy, untried before
    /// tried. `None` when all were tried.
    pub fn pick(&self, tried: &[Arc<Endpoint>]) -> Option<Arc<Endpoint>> {
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let candidates = (0..self.endpoints.len())
            .filter_map(|i| self.endpoints.get((start + i) % self.endpoints.len()))
            .filter(|e| !tried.iter().any(|t| Arc::ptr_eq(t, e)));
        candidates
            .clone()
            .find(|e| e.is_healthy())
            .or_else(|| candidates.clone().next())
            .cloned()
    }

    /// A connection failed: others are asked first until a check passes.
    pub fn report_failure(&self, endpoint: &Endpoint, why: impl std::fmt::Display) {
        endpoint.checked(Err(why.to_string()));
    }

    /// GETs `path_and_query` with apifront's own credentials. The answer's
    /// head is bounded in time, its body is not: it may be a watch.
    pub async fn get(
        &self,
        kind: UpstreamKind,
        path_and_query: &str,
    ) -> Result<http::Response<Body>, UpstreamError> {
        self.get_as(kind, path_and_query, "application/json").await
    }

    /// As [`Upstream::get`], in another representation.
    pub async fn get_as(
        &self,
        kind: UpstreamKind,
        path_and_query: &str,
        accept: &str,
    ) -> Result<http::Response<Body>, UpstreamError> {
        self.send(kind, || {
            http::Request::get(path_and_query)
                .header(ACCEPT, accept)
                .body(Body::empty())
        })
        .await
    }

    /// POSTs JSON with apifront's own credentials.
    pub async fn post(
        &self,
        kind: UpstreamKind,
        path: &str,
        body: &[u8],
    ) -> Result<http::Response<Body>, UpstreamError> {
        self.send(kind, || {
            http::Request::post(path)
                .header(ACCEPT, "application/json")
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_vec()))
        })
        .await
    }

    /// Asks one server after the other: what apifront sends itself are reads
    /// and reviews, which change nothing and may be asked again.
    async fn send(
        &self,
        kind: UpstreamKind,
        request: impl Fn() -> Result<http::Request<Body>, http::Error>,
    ) -> Result<http::Response<Body>, UpstreamError> {
        let mut tried = Vec::new();
        let mut last = UpstreamError::NoServers;
        while let Some(endpoint) = self.pick(&tried) {
            match self.timed(kind, &endpoint, request()?).await {
                Ok(response) => return Ok(response),
                Err(error) => {
                    self.report_failure(&endpoint, &error);
                    last = error;
                }
            }
            tried.push(endpoint);
        }
        Err(last)
    }

    pub(super) async fn timed(
        &self,
        kind: UpstreamKind,
        endpoint: &Endpoint,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, UpstreamError> {
        let started = Instant::now();
        let after = self.timing.request_timeout;
        let result = tokio::time::timeout(after, endpoint.send(request))
            .await
            .unwrap_or_else(|_| {
                Err(UpstreamError::Timeout {
                    server: endpoint.name.clone(),
                    after,
                })
            });
        let code = result.as_ref().ok().map(|r| r.status().as_u16());
        self.metrics.observe(kind, code, started.elapsed());
        result
    }
}
