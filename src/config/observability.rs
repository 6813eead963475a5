//! `observability` and `logging`: metrics, health, the audit log, traces and the
//! log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::check::Check;
use super::{audit, raw};
use crate::audit::AuditSettings;
use crate::logging::{LogFormat, Logging};
use crate::metrics::KUBERNETES;

#[derive(Clone, Debug, PartialEq)]
pub struct Observability {
    /// The address of the plain HTTP listener on loopback, with `/metrics` and
    /// the health paths.
    pub address: Option<SocketAddr>,
    /// `None` if nothing is audited.
    pub audit: Option<AuditSettings>,
    /// A TracingConfiguration. `None` if nothing is traced.
    pub tracing_config_file: Option<PathBuf>,
    /// Whether deprecated metrics are shown that this release hides.
    pub show_hidden_metrics: bool,
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
            audit: audit::check(raw, check),
            tracing_config_file: check
                .file("observability.tracingConfigFile", &raw.tracing_config_file),
            show_hidden_metrics: show_hidden_metrics(raw, check),
        }
    }
}

/// Checks the release. Only the previous minor release may be named, so that
/// everybody who upgrades notices which metrics go next (component-base
/// `metrics/options.go`).
fn show_hidden_metrics(raw: &raw::Observability, check: &mut Check) -> bool {
    let asked = raw.show_hidden_metrics_for_version.as_deref();
    let Some(version) = asked.filter(|version| !version.is_empty()) else {
        return false;
    };
    let (major, minor) = KUBERNETES;
    let previous = format!("{major}.{}", minor.saturating_sub(1));
    if version != previous {
        check.error(
            "observability.showHiddenMetricsForVersion",
            version,
            &format!(
                "must be omitted or have the value {previous:?}: only the previous minor version \
                 is allowed"
            ),
        );
    }
    true
}

pub(super) fn logging(raw: &raw::Logging, check: &mut Check) -> Logging {
    Logging {
        format: check.one_of(
            "logging.format",
            &raw.format,
            LogFormat::Text,
            &[("text", LogFormat::Text), ("json", LogFormat::Json)],
        ),
        verbosity: check.count("logging.verbosity", raw.verbosity, 0, 0..=10) as u8,
    }
}
