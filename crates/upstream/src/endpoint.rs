//! One API server: its address, health, credentials and connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apifront_source::ResponseBody;
use arc_swap::ArcSwapOption;
use kube::client::Body;
use parking_lot::Mutex;

use super::cdn_loop::{self, CDN_LOOP};
use super::certificates::certificate_only;
use super::ejection::Ejection;
use super::health_check::LOOP_CHECK;
use super::shared_connections::SharedConnections;
use super::silence::Silence;
use super::{HeaderSource, Server, SettingsError, Transport, Unreachable, UpstreamError};
use crate::Timeouts;
use crate::metrics::UpstreamMetrics;

/// When a name has several addresses, an address that takes longer to accept a
/// connection is passed over.
const TRY_ADDRESS: Duration = Duration::from_secs(1);

pub struct Endpoint {
    /// `host:port`.
    pub name: String,
    /// Sends apifront's own requests over HTTP/1.1, with a connection per
    /// request in flight: a watch never shares its connection.
    client: kube::Client,
    pub own: Transport,
    pub forward: Transport,
    /// The connections that callers' watches and logs share.
    pub(super) shared_connections: SharedConnections,
    address: ArcSwapOption<SocketAddr>,
    healthy: AtomicBool,
    /// True if the last attempt to reach the server had an answer, even an error.
    reached: AtomicBool,
    /// True if the last check found that requests to the server come back.
    looping: AtomicBool,
    /// The time of the last loop check, and the address that was asked.
    loop_checked: Mutex<Option<(Instant, SocketAddr)>>,
    pub(super) ejection: Ejection,
    pub(super) silence: Silence,
}

impl Endpoint {
    pub(super) fn new(
        server: &Server,
        index: u64,
        timing: Timeouts,
        metrics: &UpstreamMetrics,
    ) -> Result<Self, SettingsError> {
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
        // kube waits for 30 s by default. Each request would wait that long
        // until the health check has noticed a server that is off the network.
        let mut client = certificate_only(&server.own);
        client.connect_timeout = Some(timing.connect_timeout);
        // Each of the two sets of credentials has two purposes.
        let group = index.wrapping_mul(4);
        let headers =
            |config: &kube::Config| HeaderSource::new(config).map_err(|e| wrong(e.to_string()));
        let own = headers(&server.own)?;
        let forward = if server.forwards_as_own {
            own.clone()
        } else {
            headers(&server.forward)?
        };
        Ok(Self {
            client: kube::Client::try_from(client).map_err(|e| wrong(e.to_string()))?,
            own: Transport::new(&server.own, own, group, timing).map_err(wrong)?,
            forward: Transport::new(&server.forward, forward, group.wrapping_add(2), timing)
                .map_err(wrong)?,
            shared_connections: SharedConnections::new(metrics.shared_connections.clone()),
            address: ArcSwapOption::empty(),
            // The server counts as healthy until a check fails, so that the first
            // request need not wait.
            healthy: AtomicBool::new(true),
            reached: AtomicBool::new(true),
            looping: AtomicBool::new(false),
            loop_checked: Mutex::default(),
            ejection: Ejection::default(),
            silence: Silence::default(),
            name,
        })
    }

    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Tells whether the server could be reached lately. A server that answers with
    /// errors is unhealthy, but it can be reached.
    pub(super) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    pub(super) fn reached(&self, reached: bool) {
        self.reached.store(reached, Ordering::Relaxed);
    }

    /// Takes over what an earlier endpoint of the same server knew about it.
    pub(super) fn continue_from(&self, before: &Self) {
        self.healthy.store(before.is_healthy(), Ordering::Relaxed);
        self.reached(before.is_reached());
    }

    /// Records the result of a health check, or of a request that could not
    /// connect. A change is logged, with its reason.
    pub(super) fn checked(&self, result: Result<(), String>) {
        let healthy = result.is_ok();
        if self.healthy.swap(healthy, Ordering::Relaxed) == healthy {
            return;
        }
        match result {
            Ok(()) => tracing::info!(server = %self.name, "API server is healthy"),
            Err(why) => tracing::warn!(server = %self.name, why, "API server is not healthy"),
        }
    }

    /// Records whether requests to the server come back. The start of a loop is
    /// logged even if the server was unhealthy before.
    pub(super) fn loops(&self, looping: bool) {
        let before = self.looping.swap(looping, Ordering::Relaxed);
        if looping && !before {
            tracing::error!(
                server = %self.name,
                "requests to the API server come back: this apifront, or one on the way, \
                 is its own upstream"
            );
        }
    }

    pub(super) fn is_looping(&self) -> bool {
        self.looping.load(Ordering::Relaxed)
    }

    /// Tells whether a loop check is due now, and records that it begins.
    pub(super) fn begins_loop_check(&self, now: Instant) -> bool {
        let Some(address) = self.address.load_full() else {
            return true;
        };
        let mut checked = self.loop_checked.lock();
        let lately = checked.is_some_and(|(at, of)| {
            of == *address && now.saturating_duration_since(at) < LOOP_CHECK
        });
        let begins = !lately || !self.is_healthy();
        if begins {
            *checked = Some((now, *address));
        }
        begins
    }

    /// Returns the address to connect to. Names are looked up on first use and
    /// again by the health check, so that a request rarely waits for DNS.
    pub async fn address(&self) -> std::io::Result<SocketAddr> {
        match self.address.load_full() {
            Some(address) => Ok(*address),
            None => self.resolve().await,
        }
    }

    pub(super) async fn resolve(&self) -> std::io::Result<SocketAddr> {
        let found = tokio::net::lookup_host(&self.name).await?.collect();
        let address = first_that_accepts(found).await.ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::NotFound,
                format!("no address for {}", self.name),
            )
        })?;
        self.address.store(Some(address.into()));
        Ok(address)
    }

    /// Sends one of apifront's own requests.
    pub async fn send(
        &self,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<ResponseBody>, UpstreamError> {
        let own = self.own.headers.headers(request.headers()).await;
        let own = own.map_err(|error| UpstreamError::Credentials {
            server: self.name.clone(),
            error,
        })?;
        for (name, value) in &own {
            request.headers_mut().append(name, value.clone());
        }
        request
            .headers_mut()
            .append(CDN_LOOP, cdn_loop::own_entry());
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| UpstreamError::Request {
            server: self.name.clone(),
            causes: causes(&error),
            unreachable: Unreachable::by_client(&error),
        })?;
        self.silence.heard(true);
        self.reached(true);
        Ok(response.map(|body| self.silence.bound(body)))
    }
}

/// Returns the text of an error and of its causes, without repetitions.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// Returns the first address that accepts a connection. `localhost` has two
/// addresses, and a server may listen on one of them. When no address accepts,
/// the result is the first.
async fn first_that_accepts(addresses: Vec<SocketAddr>) -> Option<SocketAddr> {
    if addresses.len() > 1 {
        for address in &addresses {
            let connect = tokio::net::TcpStream::connect(address);
            if let Ok(Ok(_)) = tokio::time::timeout(TRY_ADDRESS, connect).await {
                return Some(*address);
            }
        }
    }
    addresses.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_with_a_dead_address_leads_to_the_live_one() {
        let open = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = open.local_addr().unwrap();
        // Nobody listens on port 1, and the system gives it to no socket by
        // chance.
        let dead = SocketAddr::from(([127, 0, 0, 1], 1));
        for (addresses, expected) in [
            (vec![], None),
            (vec![dead], Some(dead)),
            (vec![dead, live], Some(live)),
            (vec![live, dead], Some(live)),
            (vec![dead, dead], Some(dead)),
        ] {
            assert_eq!(first_that_accepts(addresses).await, expected);
        }
    }
}
