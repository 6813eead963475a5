//! The section `serving`: listeners, and the limits of connections and
//! requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::check::Check;
use super::{browsers, raw};
use crate::browsers::Browsers;

/// At least one of the two listeners is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Serving {
    /// HTTPS.
    pub secure: Option<SecureServing>,
    /// Plain HTTP, on loopback.
    pub insecure: Option<SocketAddr>,
    pub shutdown_delay_duration: Duration,
    pub shutdown_grace_period: Duration,
    pub livez_grace_period: Duration,
    pub min_request_timeout: Duration,
    pub connection: ConnectionLimits,
    pub browsers: Browsers,
}

/// The limits of clients' connections, and of each one.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionLimits {
    pub request_header_timeout: Duration,
    /// The time that a connection may be open without a request.
    pub idle_timeout: Duration,
    /// 0: no limit.
    pub max_connections: usize,
    /// The most connections of one client address. 0: no limit.
    pub max_connections_per_client: usize,
    pub max_request_header_bytes: usize,
    pub http2_max_streams_per_connection: u32,
    /// The part of HTTP/2 requests after which their connection ends in order.
    pub goaway_chance: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SecureServing {
    pub address: SocketAddr,
    pub tls_cert_file: PathBuf,
    pub tls_private_key_file: PathBuf,
    pub sni_certs: Vec<SniCert>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SniCert {
    /// In lower case. Empty means the names in the certificate.
    pub names: Vec<String>,
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// kube-apiserver refuses more: clients would only open connections.
const MAX_GOAWAY_CHANCE: f64 = 0.02;

#[derive(Clone, Copy)]
pub(super) struct DefaultPorts {
    pub secure: u16,
    pub insecure: u16,
}

impl Serving {
    /// Checks the section. `front` says that callers are authenticated.
    pub(super) fn check(
        raw: &raw::Serving,
        ports: DefaultPorts,
        front: bool,
        check: &mut Check,
    ) -> Self {
        let secure = Self::check_secure(raw, ports.secure, check);
        let insecure_port = check.port("serving.insecurePort", raw.insecure_port, ports.insecure);
        let insecure = (insecure_port != 0)
            .then(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), insecure_port));
        if raw.secure_port.unwrap_or(ports.secure.into()) == 0 && insecure.is_none() {
            check.error(
                "serving",
                "",
                "nothing to listen on: set securePort or insecurePort",
            );
        }
        Self {
            secure,
            insecure,
            shutdown_delay_duration: check.duration(
                "serving.shutdownDelayDuration",
                &raw.shutdown_delay_duration,
                Duration::ZERO,
            ),
            shutdown_grace_period: check.duration(
                "serving.shutdownGracePeriod",
                &raw.shutdown_grace_period,
                Duration::from_secs(60),
            ),
            livez_grace_period: check.duration(
                "serving.livezGracePeriod",
                &raw.livez_grace_period,
                Duration::ZERO,
            ),
            min_request_timeout: check.positive_duration(
                "serving.minRequestTimeout",
                &raw.min_request_timeout,
                Duration::from_secs(1800),
            ),
            connection: ConnectionLimits::check(raw, check),
            browsers: browsers::check(raw, front, check),
        }
    }

    fn check_secure(
        raw: &raw::Serving,
        default_port: u16,
        check: &mut Check,
    ) -> Option<SecureServing> {
        let address = check.ip(
            "serving.bindAddress",
            &raw.bind_address,
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        );
        let port = check.port("serving.securePort", raw.secure_port, default_port);
        let sni_certs = raw
            .sni_certs
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(i, sni)| SniCert::check(&format!("serving.sniCerts[{i}]"), sni, check))
            .collect();
        if port == 0 {
            return None;
        }
        let why =
            format!("needed to serve HTTPS on port {port} (serving.securePort: 0 turns it off)");
        Some(SecureServing {
            address: SocketAddr::new(address, port),
            tls_cert_file: check.needed_file("serving.tlsCertFile", &raw.tls_cert_file, &why)?,
            tls_private_key_file: check.needed_file(
                "serving.tlsPrivateKeyFile",
                &raw.tls_private_key_file,
                &why,
            )?,
            sni_certs,
        })
    }
}

impl ConnectionLimits {
    fn check(raw: &raw::Serving, check: &mut Check) -> Self {
        Self {
            request_header_timeout: check.positive_duration(
                "serving.requestHeaderTimeout",
                &raw.request_header_timeout,
                Duration::from_secs(30),
            ),
            // kube-apiserver has this value because Go's clients have it.
            idle_timeout: check.positive_duration(
                "serving.idleTimeout",
                &raw.idle_timeout,
                Duration::from_secs(90),
            ),
            // An idle connection takes some 30 KB, so these take 600 MB. Five
            // thousand nodes have three or four clients each.
            max_connections: check.count(
                "serving.maxConnections",
                raw.max_connections,
                20_000,
                0..=1 << 20,
            ),
            // A tenth of all connections, so that a few hosts cannot keep all others
            // out. The pods behind one node's address need fewer.
            max_connections_per_client: check.count(
                "serving.maxConnectionsPerClient",
                raw.max_connections_per_client,
                2_000,
                0..=1 << 20,
            ),
            // kube-apiserver's limit. Large heads share a budget
            // (`server/listener/large_heads.rs`).
            max_request_header_bytes: check.count(
                "serving.maxRequestHeaderBytes",
                raw.max_request_header_bytes,
                1 << 20,
                4 << 10..=1 << 20,
            ),
            http2_max_streams_per_connection: check.count(
                "serving.http2MaxStreamsPerConnection",
                raw.http2_max_streams_per_connection,
                // The informers of a client share a connection, and a watch is
                // a stream for half an hour. kube-apiserver's 100 is too few
                // here.
                1000,
                1..=1 << 20,
            ) as u32,
            goaway_chance: goaway_chance(raw, check),
        }
    }
}

/// kube-apiserver's `--goaway-chance`, with its limit.
fn goaway_chance(raw: &raw::Serving, check: &mut Check) -> f64 {
    let chance = raw.goaway_chance.unwrap_or(0.0);
    if (0.0..=MAX_GOAWAY_CHANCE).contains(&chance) {
        return chance;
    }
    let needed = format!("must be between 0 and {MAX_GOAWAY_CHANCE}");
    check.error("serving.goawayChance", &chance.to_string(), &needed);
    0.0
}

impl SniCert {
    fn check(field: &str, raw: &raw::SniCert, check: &mut Check) -> Option<Self> {
        let names = raw.names.clone().unwrap_or_default();
        for name in &names {
            let host = name.strip_prefix("*.").unwrap_or(name);
            if host.is_empty() || host.contains(['*', '/', ':', ' ']) {
                check.error(
                    &format!("{field}.names"),
                    name,
                    "must be a host name; * only as the whole first label",
                );
            }
        }
        let cert_file = check.needed_file(&format!("{field}.certFile"), &raw.cert_file, "needed");
        let key_file = check.needed_file(&format!("{field}.keyFile"), &raw.key_file, "needed");
        Some(Self {
            names: names.iter().map(|n| n.to_ascii_lowercase()).collect(),
            cert_file: cert_file?,
            key_file: key_file?,
        })
    }
}
