//! `observability` and `logging`: what the process says about itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::audit::Audit;
use super::check::Check;
use super::raw;

/// Checked `observability`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observability {
    /// Plain HTTP on loopback with `/metrics` and the health paths.
    pub address: Option<SocketAddr>,
    /// `None`: nothing is audited.
    pub audit: Option<Audit>,
}

/// Checked `logging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    pub format: LogFormat,
    /// As kube components count: 0, 2, 4, 6.
    pub verbosity: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Observability {
    pub(super) fn check(raw: &raw::Observability, default_port: u16, check: &mut Check) -> Self {
        let ip = check.ip(
            "observability.bindAddress",
            &raw.bind_address,
            IpAddr::V4(Ipv4Addr::LOCALHOST),
        );
        if !ip.is_loopback() {
            check.error(
                "observability.bindAddress",
                &ip.to_string(),
                "must be a loopback address, this port is plain HTTP without authentication; \
                 /metrics and the health paths are on the secure port too",
            );
        }
        let port = check.port("observability.port", raw.port, default_port);
        Self {
            address: (port != 0).then(|| SocketAddr::new(ip, port)),
            audit: Audit::check(raw, check),
        }
    }
}

impl Logging {
    pub(super) fn check(raw: &raw::Logging, check: &mut Check) -> Self {
        Self {
            format: check.one_of(
                "logging.format",
                &raw.format,
                LogFormat::Text,
                &[("text", LogFormat::Text), ("json", LogFormat::Json)],
            ),
            verbosity: check.count("logging.verbosity", raw.verbosity, 0, 0..=10) as u8,
        }
    }
}
