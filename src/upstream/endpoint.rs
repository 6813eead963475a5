//! One API server.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use kube::client::Body;

use super::{Server, SettingsError, Transport, UpstreamError};
use crate::config::upstream::Timing;

pub struct Endpoint {
    /// `host:port`.
    pub name: String,
    /// For apifront's own requests, HTTP/1.1, a connection per request in
    /// flight: a watch never shares its connection.
    client: kube::Client,
    pub own: Transport,
    pub forward: Transport,
    address: ArcSwapOption<SocketAddr>,
    healthy: AtomicBool,
}

impl Endpoint {
    pub(super) fn new(server: &Server, index: u64, timing: Timing) -> Result<Self, SettingsError> {
        let url = &server.own.cluster_url;
        let host = url.host().unwrap_or_default();
        let default_port = if url.scheme_str() == Some("http") {
            80
        } else {
            443
        };
        let name = format!("{host}:{}", url.port_u16().unwrap_or(default_port));
        let wrong = |error: String| SettingsError::Transport {
            server: name.clone(),
            error,
        };
        // kube waits for 30 s by default: as long for each request until the
        // health check has noticed a server that is off the network.
        let mut own = server.own.clone();
        own.connect_timeout = Some(timing.connect_timeout);
        // Two purposes for each of the two sets of credentials.
        let group = index * 4;
        Ok(Self {
            client: kube::Client::try_from(own).map_err(|e| wrong(e.to_string()))?,
            own: Transport::new(&server.own, group, timing).map_err(wrong)?,
            forward: Transport::new(&server.forward, group + 2, timing).map_err(wrong)?,
            address: ArcSwapOption::empty(),
            // Until a check says otherwise: the first request need not wait.
            healthy: AtomicBool::new(true),
            name,
        })
    }

    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    pub(super) fn set_healthy(&self, healthy: bool) {
        if self.healthy.swap(healthy, Ordering::Relaxed) != healthy {
            if healthy {
                tracing::info!(server = %self.name, "API server is healthy");
            } else {
                tracing::warn!(server = %self.name, "API server is not healthy");
            }
        }
    }

    /// Where to connect. Names are looked up on first use and again by the
    /// health check, so that a request rarely waits for DNS.
    pub async fn address(&self) -> std::io::Result<SocketAddr> {
        match self.address.load_full() {
            Some(address) => Ok(*address),
            None => self.resolve().await,
        }
    }

    pub(super) async fn resolve(&self) -> std::io::Result<SocketAddr> {
        let found = tokio::net::lookup_host(&self.name).await?.next();
        let address = found.ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::NotFound,
                format!("no address for {}", self.name),
            )
        })?;
        self.address.store(Some(address.into()));
        Ok(address)
    }

    /// Sends a request of apifront's own.
    pub async fn send(
        &self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, UpstreamError> {
        self.client
            .send(request)
            .await
            .map_err(|error| UpstreamError::Request {
                server: self.name.clone(),
                error: Box::new(error),
            })
    }
}
