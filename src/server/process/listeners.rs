//! The listeners of the process: with TLS and without TLS for clients, and one for
//! metrics and health.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pingora_core::apps::http_app::HttpServer;
use pingora_core::listeners::tls::Acceptor;
use pingora_core::protocols::http::v2::server::default_h2_options;
use pingora_core::server::ShutdownWatch;
use pingora_core::server::configuration::ServerConf;
use pingora_proxy::{HttpProxy, http_proxy};
use tokio::task::JoinHandle;

use super::open_files;
use super::start_error::StartError;
use crate::config::{self, Config};
use crate::server::answer::own::observability::Observability;
use crate::server::exchange::port_app::PortApp;
use crate::server::listener::connection_deadlines::Deadlines;
use crate::server::listener::connections::{Connections, Limits};
use crate::server::listener::head::HeadLimits;
use crate::server::listener::http2::Http2Options;
use crate::server::listener::large_heads::LargeHeads;
use crate::server::listener::listen::{ConnectionSettings, ListenError, Listener};
use crate::server::listener::slow_client::SlowClientGuard;
use crate::server::listener::tls::{self, AnyClientCertificate, ServerCertificates};
use crate::server::proxy::Proxy;
use crate::server::state::generation::Generation;

/// How many streams of one connection the server resets before it ends the
/// connection. The server resets a stream for what the client sends on it. A correct
/// client causes no reset, but each reset stream may have begun work
/// (CVE-2025-8671). h2's default is 1024.
const STREAM_ERRORS: usize = 100;

/// The flow-control window of a connection and of each stream. HTTP/2's default is
/// one byte less. With it, a client that uploads fills the window with four frames
/// and a frame of one byte.
const FLOW_CONTROL_WINDOW_BYTES: u32 = 64 << 10;

/// The bytes that h2's limit of heads has above the configured limit. Heads over the
/// configured limit are refused before h2 reads them ([`Http2Heads`]).
///
/// [`Http2Heads`]: crate::server::listener::http2_head::Http2Heads
const BESIDE_HEADS: usize = 4 << 10;

/// Each Prometheus server keeps one connection. The tools of people connect only now
/// and then.
const OBSERVABILITY_CONNECTIONS: Limits = Limits {
    total: 256,
    per_client: 0,
};

/// The number of idle upstream connections that are kept. With pingora's 128,
/// connections would be closed at every burst of concurrent requests.
const UPSTREAM_POOL: usize = 1024;

pub(super) struct Listeners {
    pub(super) secure: Option<Listener>,
    pub(super) insecure: Option<Listener>,
    pub(super) observability: Option<Listener>,
}

impl Listeners {
    pub(super) fn bind(config: &Config) -> Result<Self, ListenError> {
        let bind = |address: Option<_>| address.map(Listener::bind).transpose();
        Ok(Self {
            secure: bind(config.serving.secure.as_ref().map(|s| s.address))?,
            insecure: bind(config.serving.insecure)?,
            observability: bind(config.observability.address)?,
        })
    }

    /// Serves on each socket until `stop` turns true.
    pub(super) fn serve(
        self,
        config: &Config,
        current: &Arc<ArcSwap<Generation>>,
        certificates: Option<Arc<ServerCertificates>>,
        client_certificates: Arc<AnyClientCertificate>,
        stop: &ShutdownWatch,
    ) -> Result<Vec<JoinHandle<()>>, StartError> {
        let mut serving = Vec::new();
        let large = LargeHeads::default();
        let clients = Connections::new(connection_limits(config));
        if let (Some(listener), Some(certificates)) = (self.secure, certificates) {
            let tls = tls_acceptor(certificates, client_certificates)?;
            let settings = connection_settings(config, current, "secure", &clients, &large);
            let app = proxy_app(current, &large);
            serving.push(listener.serve(app, Some(tls), settings, stop.clone()));
        }
        if let Some(listener) = self.insecure {
            let settings = connection_settings(config, current, "insecure", &clients, &large);
            let app = proxy_app(current, &large);
            serving.push(listener.serve(app, None, settings, stop.clone()));
        }
        if let Some(listener) = self.observability {
            // These connections are counted separately, so that a flood of clients
            // does not keep scrapes out.
            let connections = Connections::new(OBSERVABILITY_CONNECTIONS);
            let settings =
                connection_settings(config, current, "observability", &connections, &large);
            let current = current.clone();
            let app = HttpServer::new_app(PortApp(Observability { current }));
            serving.push(listener.serve(app, None, settings, stop.clone()));
        }
        Ok(serving)
    }
}

fn tls_acceptor(
    certificates: Arc<ServerCertificates>,
    clients: Arc<AnyClientCertificate>,
) -> Result<Acceptor, StartError> {
    tls::acceptor(certificates, clients).map_err(|e| StartError::Tls(e.to_string()))
}

fn proxy_app(
    current: &Arc<ArcSwap<Generation>>,
    large_heads: &LargeHeads,
) -> SlowClientGuard<HttpProxy<Proxy>> {
    let conf = ServerConf {
        // All requests share the connections to a few API servers.
        upstream_keepalive_pool_size: UPSTREAM_POOL,
        ..ServerConf::default()
    };
    let proxy = http_proxy(
        &Arc::new(conf),
        Proxy {
            current: current.clone(),
            large_heads: large_heads.clone(),
        },
    );
    SlowClientGuard::new(proxy, current.load().metrics.flow.clone())
}

fn connection_limits(config: &Config) -> Limits {
    let configured = Limits {
        total: config.serving.connection.max_connections,
        per_client: config.serving.connection.max_connections_per_client,
    };
    let needed = configured.total.saturating_mul(2);
    let limits = configured.within_open_files(open_files::raise_limit(needed));
    // In the modes for one person, half of the usual 1,024 files is enough.
    if limits != configured && config.mode() == config::Mode::Front {
        tracing::info!(
            configured = configured.total,
            limit = limits.total,
            "serving.maxConnections is more than half of the files this process may have open"
        );
    }
    limits
}

fn connection_settings(
    config: &Config,
    current: &Arc<ArcSwap<Generation>>,
    listener: &'static str,
    connections: &Connections,
    large: &LargeHeads,
) -> ConnectionSettings {
    let connection = &config.serving.connection;
    let mut h2 = default_h2_options();
    h2.max_concurrent_streams(connection.http2_max_streams_per_connection);
    h2.max_local_error_reset_streams(Some(STREAM_ERRORS));
    h2.initial_window_size(FLOW_CONTROL_WINDOW_BYTES);
    h2.initial_connection_window_size(FLOW_CONTROL_WINDOW_BYTES);
    let header_bytes = connection.max_request_header_bytes;
    let http2_bytes = header_bytes.saturating_add(BESIDE_HEADS);
    h2.max_header_list_size(u32::try_from(http2_bytes).unwrap_or(u32::MAX));
    ConnectionSettings {
        connections: connections.clone(),
        metrics: current.load().metrics.connections.listener(listener),
        deadlines: Deadlines {
            header: connection.request_header_timeout,
            idle: connection.idle_timeout,
        },
        heads: HeadLimits {
            max_bytes: header_bytes,
            large: large.clone(),
        },
        http2: Http2Options {
            h2,
            max_streams: connection.http2_max_streams_per_connection,
            goaway_chance: connection.goaway_chance,
        },
    }
}
