//! Connection settings for one API server and one set of credentials.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::client::ConfigExt;
use pingora_core::protocols::ALPN;
use pingora_core::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use rustls::pki_types::ServerName;

use super::HeaderSource;
use super::certificates::{authorities, certificate_only, client_certificate};
use crate::Timeouts;

/// The most requests on one upstream connection. kube-apiserver needs fewer to
/// be busy, and the loss of a connection affects few callers.
const H2_STREAMS_PER_CONNECTION: usize = 100;

/// The bytes that one stream, and one connection, may hold before readers take
/// them. pingora's default is 8 MiB for both: a few answers that one caller does
/// not read would fill the connection's window, and every other answer on it would
/// stop. With these values, a fifth of the connection's window stays free even if
/// all its streams are full and unread.
///
/// The connection's window also bounds the memory of its unread answers: 32 MiB for
/// each hundred requests in flight. The stream's window limits one answer to a
/// window per round trip: 128 MB/s at 2 ms, which is far within one cluster, 5 MB/s
/// at 50 ms.
const H2_STREAM_WINDOW: u32 = 256 << 10;
const H2_CONNECTION_WINDOW: u32 = 32 << 20;
const _: () = assert!(
    H2_STREAMS_PER_CONNECTION as u64 * (H2_STREAM_WINDOW as u64) < H2_CONNECTION_WINDOW as u64
);

/// After this many requests were given up, new requests use new connections. A late
/// answer to such a request counts as a local reset, sometimes several times. After
/// 1024 of them, h2 ends the connection with the requests of all callers on it.
/// pingora has no setting for that limit.
const GIVEN_UP_AT_MOST: u64 = 200;

/// The time after which an idle upstream connection is dropped, before the API
/// server (or a load balancer on the way) drops it during a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two pings on a connection shared by many requests, as in
/// client-go. pingora gives up 5 s later, and reads are sent to another server.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// The purpose of a connection. Different purposes never share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Short requests, multiplexed.
    Short,
    /// Watches and logs: one lost connection must not end many of them.
    LongRunning,
    /// Requests with large heads, or with bodies that were read before. Each is
    /// alone on its connection.
    Alone,
}

/// The bit in a group's key that separates the connections of [`Purpose::Alone`].
const ALONE_BIT: u64 = 1 << 63;

pub struct Transport {
    pub headers: HeaderSource,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub server_name: ServerName<'static>,
    template: HttpPeer,
    given_up: AtomicU64,
}

impl Transport {
    pub(super) fn new(
        config: &kube::Config,
        headers: HeaderSource,
        group: u64,
        timing: Timeouts,
    ) -> Result<Self, String> {
        let host = config
            .cluster_url
            .host()
            .ok_or("the URL has no host")?
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let name = config.tls_server_name.clone().unwrap_or(host);
        let server_name =
            ServerName::try_from(name.clone()).map_err(|e| format!("{name:?} is no host: {e}"))?;
        let secure = config.cluster_url.scheme_str() == Some("https");
        let tls = secure
            .then(|| certificate_only(config).rustls_client_config())
            .transpose()
            .map_err(|e| e.to_string())?
            .map(Arc::new);

        // The address is set for each connection. An empty SNI would switch
        // certificate verification off, but `name` is never empty.
        let unset = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut template = HttpPeer::new(unset, secure, name);
        template.group_key = group;
        // Upgrades never pass through pingora: see `long_running.rs`. Without this
        // policy, pingora would complete an `Upgrade: websocket` that no
        // `Connection` names.
        template.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
        if secure {
            template.options.alpn = ALPN::H2H1;
            template.options.max_h2_streams = H2_STREAMS_PER_CONNECTION;
            template.options.h2_stream_window_size = Some(H2_STREAM_WINDOW);
            template.options.h2_connection_window_size = Some(H2_CONNECTION_WINDOW);
            template.options.h2_ping_interval = Some(PING_INTERVAL);
            template.options.ca = authorities(config)?;
            template.client_cert_key = client_certificate(config)?;
            if config.accept_invalid_certs {
                template.options.verify_cert = false;
                template.options.verify_hostname = false;
            }
        }
        template.options.connection_timeout = Some(timing.connect_timeout);
        template.options.total_connection_timeout = Some(timing.connect_timeout);
        template.options.idle_timeout = Some(IDLE_TIMEOUT);
        template.options.read_timeout = Some(timing.request_timeout);
        Ok(Self {
            headers,
            tls,
            server_name,
            template,
            given_up: AtomicU64::new(0),
        })
    }

    /// Counts a request whose answer was not read to its end.
    pub fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub fn peer(&self, address: SocketAddr, purpose: Purpose) -> HttpPeer {
        let mut peer = self.template.clone();
        peer._address = address.into();
        // pingora's connections are shared within a group. The connections of
        // earlier groups end when they have been idle.
        let generation = self.given_up.load(Ordering::Relaxed) / GIVEN_UP_AT_MOST;
        peer.group_key = peer.group_key.wrapping_add(generation << 32);
        match purpose {
            Purpose::Short => {}
            Purpose::LongRunning => {
                peer.options.alpn = ALPN::H1;
                peer.group_key ^= 1;
                // A watch may be silent for any time.
                peer.options.read_timeout = None;
            }
            Purpose::Alone => {
                peer.options.alpn = ALPN::H1;
                peer.group_key ^= ALONE_BIT;
            }
        }
        peer
    }
}
