//! The pool of all API servers, which picks the server for each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use apifront_source::{JSON, VERSION, release_in};
use http::header::{ACCEPT, HeaderName};
use kube::client::Body;
use kubernetes_wire::api::Release;

use super::{Endpoint, OutlierDetection, ResponseBody, Settings, SettingsError, Unreachable};
use crate::Timeouts;
use crate::health_check::{CHECK_TIMEOUT, LOOP_CHECK};
use crate::metrics::{UpstreamKind, UpstreamMetrics};
use crate::shared_release::SharedRelease;

#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The request failed. `causes` starts with the outermost error and names the
    /// inner ones, too: "client error (Connect)" alone helps nobody.
    #[error("{server}: {causes}")]
    Request {
        server: String,
        causes: String,
        /// Set if the request was not sent because the server could not be reached.
        unreachable: Option<Unreachable>,
    },
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

impl UpstreamError {
    pub(super) fn unreachable(&self) -> Option<Unreachable> {
        match self {
            Self::Request { unreachable, .. } => unreachable.clone(),
            _ => None,
        }
    }
}

pub struct Upstream {
    endpoints: Vec<Arc<Endpoint>>,
    turn: AtomicUsize,
    pub(super) timing: Timeouts,
    outliers: OutlierDetection,
    metrics: UpstreamMetrics,
    pub(super) release: SharedRelease,
}

impl Upstream {
    pub fn new(settings: &Settings, metrics: UpstreamMetrics) -> Result<Self, SettingsError> {
        let endpoints = (0..)
            .zip(&settings.servers)
            .map(|(index, server)| {
                let number = settings.group.wrapping_add(index);
                Endpoint::new(server, number, settings.timing, &metrics).map(Arc::new)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            endpoints,
            turn: AtomicUsize::new(0),
            timing: settings.timing,
            outliers: settings.outliers,
            metrics,
            release: SharedRelease::default(),
        })
    }

    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    pub fn any_healthy(&self) -> bool {
        self.endpoints.iter().any(|e| e.is_healthy())
    }

    /// Tells whether no server can be reached: each refused its last connection or
    /// did not answer its last check. A server that answers with errors counts as
    /// reached.
    pub fn is_lost(&self) -> bool {
        !self.endpoints.is_empty() && !self.endpoints.iter().any(|e| e.is_reached())
    }

    /// Takes over what `before` knew about the servers that both have, so that
    /// a reload during an outage does not look like the end of the outage.
    pub fn continue_from(&self, before: &Self) {
        for endpoint in &self.endpoints {
            let known = before.endpoints.iter().find(|e| e.name == endpoint.name);
            if let Some(known) = known {
                endpoint.continue_from(known);
            }
        }
    }

    /// Returns the next API server in turn. Healthy servers come before ejected
    /// ones, and those before unhealthy ones; servers in `tried` are left out.
    /// The result is `None` when all were tried.
    pub fn pick(&self, tried: &[Arc<Endpoint>]) -> Option<Arc<Endpoint>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let start = turn.checked_rem(self.endpoints.len())?;
        let (last, first) = self.endpoints.split_at_checked(start)?;
        let candidates = first
            .iter()
            .chain(last)
            .filter(|e| !tried.iter().any(|t| Arc::ptr_eq(t, e)));
        let now = Instant::now();
        candidates
            .clone()
            .find(|e| e.is_healthy() && !e.ejection.is_on(now))
            .or_else(|| candidates.clone().find(|e| e.is_healthy()))
            .or_else(|| candidates.clone().next())
            .cloned()
    }

    /// Returns a number that grows with each request.
    pub(super) fn picked(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// Records that a connection could not be made. If that is the server's
    /// fault, other servers are asked first until a check passes. No other
    /// failure of a request counts, since one caller could cause it.
    pub fn could_not_connect(&self, endpoint: &Endpoint, why: Option<Unreachable>) {
        if let Some(why) = why {
            endpoint.reached(false);
            endpoint.checked(Err(why.to_string()));
        }
    }

    /// Records that a server has answered a request with this code.
    pub fn answered(&self, endpoint: &Endpoint, code: u16) {
        let Endpoint { ejection, name, .. } = endpoint;
        ejection.answered(name, code, self.outliers);
    }

    /// GETs `path_and_query` with apifront's own credentials. The time until
    /// the answer's head is bounded, the time for its body is not: the body may
    /// be a watch.
    pub async fn get(
        &self,
        kind: UpstreamKind,
        path_and_query: &str,
    ) -> Result<http::Response<ResponseBody>, UpstreamError> {
        self.get_with(kind, path_and_query, &[(ACCEPT, JSON)]).await
    }

    /// Returns the release of Kubernetes. Asks for it, unless a recent answer or health
    /// check told it. `None` if no answer tells the release.
    pub async fn recent_release(&self) -> Option<Release> {
        let lately = LOOP_CHECK.saturating_add(CHECK_TIMEOUT);
        self.release.get_within(lately, || self.ask_release()).await
    }

    pub(super) async fn ask_release(&self) -> Option<Release> {
        let response = self.get(UpstreamKind::Discovery, VERSION).await.ok()?;
        release_in(response).await
    }

    /// Like [`Upstream::get`], but with these headers.
    pub async fn get_with(
        &self,
        kind: UpstreamKind,
        path_and_query: &str,
        headers: &[(HeaderName, &str)],
    ) -> Result<http::Response<ResponseBody>, UpstreamError> {
        self.send(kind, || {
            headers
                .iter()
                .fold(
                    http::Request::get(path_and_query),
                    |request, (name, value)| request.header(name, *value),
                )
                .body(Body::empty())
        })
        .await
    }

    /// GETs from this server only, with apifront's own credentials.
    pub async fn get_from(
        &self,
        endpoint: &Endpoint,
        kind: UpstreamKind,
        path: &str,
    ) -> Result<http::Response<ResponseBody>, UpstreamError> {
        let request = http::Request::get(path).body(Body::empty())?;
        self.timed(kind, endpoint, request).await
    }

    /// POSTs JSON with apifront's own credentials.
    pub async fn post(
        &self,
        kind: UpstreamKind,
        path: &str,
        body: &[u8],
    ) -> Result<http::Response<ResponseBody>, UpstreamError> {
        self.send(kind, || {
            http::Request::post(path)
                .header(ACCEPT, JSON)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_vec()))
        })
        .await
    }

    /// Tries one server after the other. apifront itself sends only reads and
    /// reviews, which change nothing and may be sent again.
    async fn send(
        &self,
        kind: UpstreamKind,
        request: impl Fn() -> Result<http::Request<Body>, http::Error>,
    ) -> Result<http::Response<ResponseBody>, UpstreamError> {
        let mut tried = Vec::new();
        let mut last = UpstreamError::NoServers;
        while let Some(endpoint) = self.pick(&tried) {
            match self.timed(kind, &endpoint, request()?).await {
                Ok(response) => return Ok(response),
                Err(error) => {
                    self.could_not_connect(&endpoint, error.unreachable());
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
    ) -> Result<http::Response<ResponseBody>, UpstreamError> {
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    use crate::{Credentials, Server};

    fn upstream(addresses: &[SocketAddr]) -> Upstream {
        let server = |address: &SocketAddr| {
            let url = format!("http://{address}").parse().unwrap();
            Server::from_files(url, None, None, None, &Credentials::Own).unwrap()
        };
        let settings = Settings {
            servers: addresses.iter().map(server).collect(),
            timing: Timeouts {
                connect_timeout: Duration::from_millis(300),
                ..Timeouts::default()
            },
            outliers: OutlierDetection {
                consecutive_errors: 2,
                ejection_time: Duration::from_millis(50),
            },
            ..Settings::default()
        };
        Upstream::new(
            &settings,
            UpstreamMetrics::register(&prometheus::Registry::new()).unwrap(),
        )
        .unwrap()
    }

    fn gone(upstream: &Upstream, endpoint: &Endpoint) {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        upstream.could_not_connect(endpoint, Unreachable::by_io(&refused));
    }

    async fn alive() -> SocketAddr {
        serving(200).await
    }

    async fn serving(code: u16) -> SocketAddr {
        use hyper::service::service_fn;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let service = service_fn(move |_| async move {
                    let answer = http::Response::builder().status(code);
                    answer.body("ok".to_owned())
                });
                let io = hyper_util::rt::TokioIo::new(tcp);
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(io, service),
                );
            }
        });
        address
    }

    async fn dead() -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn servers_take_turns_and_the_healthy_come_first() {
        let addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let upstream = upstream(&addresses);
        let picked = |tried: &[usize]| {
            let tried: Vec<_> = tried
                .iter()
                .map(|n| upstream.endpoints[*n].clone())
                .collect();
            let found = upstream.pick(&tried)?;
            upstream
                .endpoints
                .iter()
                .position(|e| Arc::ptr_eq(e, &found))
        };
        let queue: Vec<_> = (0..6).map(|_| picked(&[])).collect();
        assert_eq!(queue, [0, 1, 2, 0, 1, 2].map(Some));
        gone(&upstream, &upstream.endpoints[1]);
        assert!((0..6).all(|_| picked(&[]) != Some(1)));
        assert_eq!(picked(&[0, 2]), Some(1));
        assert_eq!(picked(&[0, 1, 2]), None);
        assert!(!upstream.is_lost());
        for endpoint in upstream.endpoints() {
            gone(&upstream, endpoint);
        }
        assert!(!upstream.any_healthy() && upstream.is_lost());
        assert!(picked(&[]).is_some());
    }

    #[tokio::test]
    async fn a_server_that_answers_with_errors_is_passed_over_for_a_while() {
        let addresses = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let upstream = upstream(&addresses);
        let [first, second] = upstream.endpoints() else {
            panic!()
        };
        let picks = |endpoint| (0..4).any(|_| Arc::ptr_eq(&upstream.pick(&[]).unwrap(), endpoint));
        for (code, still) in [(503, true), (200, true), (500, true), (503, false)] {
            upstream.answered(first, code);
            assert_eq!(picks(first), still, "{code}");
        }
        // While no other server is healthy, the ejected one is used.
        gone(&upstream, second);
        assert!(picks(first) && !picks(second));
        tokio::time::sleep(Duration::from_millis(60)).await;
        upstream.endpoints[1].checked(Ok(()));
        assert!(picks(first) && picks(second));
    }

    #[tokio::test]
    async fn a_read_goes_to_the_next_server_when_one_is_dead() {
        let upstream = upstream(&[dead().await, alive().await]);
        for _ in 0..4 {
            let answer = upstream
                .get(UpstreamKind::List, "/api/v1/pods")
                .await
                .unwrap();
            assert_eq!(answer.status(), 200);
        }
        let healthy: Vec<_> = upstream
            .endpoints()
            .iter()
            .map(|e| e.is_healthy())
            .collect();
        assert_eq!(healthy, [false, true]);
        // A check finds out which server is back.
        gone(&upstream, &upstream.endpoints[1]);
        assert!(upstream.health_check_pause(false) <= Duration::from_secs(1));
        upstream.check_health().await;
        let healthy: Vec<_> = upstream
            .endpoints()
            .iter()
            .map(|e| e.is_healthy())
            .collect();
        assert_eq!(healthy, [false, true]);
        let interval = Timeouts::default().health_check_interval;
        assert_eq!(upstream.health_check_pause(false), interval);
        assert_eq!(upstream.health_check_pause(true), interval * 3);
    }

    #[tokio::test]
    async fn with_all_servers_dead_each_is_asked_once() {
        let upstream = upstream(&[dead().await, dead().await]);
        let error = upstream.get(UpstreamKind::List, "/").await.unwrap_err();
        assert!(matches!(error, UpstreamError::Request { .. }), "{error}");
        assert_eq!(upstream.metrics.total(), 2);
        let nobody = upstream_of_none().get(UpstreamKind::List, "/").await;
        assert!(matches!(nobody, Err(UpstreamError::NoServers)));
    }

    #[tokio::test]
    async fn servers_that_answer_with_errors_are_not_lost() {
        let dead = upstream(&[dead().await, dead().await]);
        assert!(!dead.is_lost(), "nobody has tried yet");
        dead.check_health().await;
        assert!(dead.is_lost() && !dead.any_healthy());
        // A reload keeps the knowledge about the same servers, and about no others.
        let addresses = [0, 1].map(|n| dead.endpoints[n].name.parse().unwrap());
        let reloaded = upstream(&addresses);
        reloaded.continue_from(&dead);
        assert!(reloaded.is_lost() && !reloaded.any_healthy());
        let (alive, unready) = (serving(200).await, serving(500).await);
        let other = upstream(&[alive, addresses[0]]);
        other.continue_from(&dead);
        assert!(!other.is_lost() && other.any_healthy());
        let unready = upstream(&[unready]);
        gone(&unready, &unready.endpoints[0]);
        assert!(unready.is_lost());
        unready.check_health().await;
        assert!(!unready.is_lost() && !unready.any_healthy());
        assert!(!upstream_of_none().is_lost());
    }

    fn upstream_of_none() -> Upstream {
        upstream(&[])
    }
}
