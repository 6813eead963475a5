//! The log on standard error.
//!
//! The levels of `-v` are those of Kubernetes components: 0 logs events of the
//! process, 2 also every request, 4 is debug, 6 trace. The access log is the target
//! [`ACCESS`] at level info. Request headers are never fields, because they carry
//! credentials.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// The target of the access log: `tracing::info!(target: logging::ACCESS, …)`.
pub const ACCESS: &str = "apifront::access";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    pub format: LogFormat,
    /// The verbosity of Kubernetes components: 0, 2, 4 or 6.
    pub verbosity: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Changes the verbosity of a running process.
#[derive(Clone)]
pub struct LogControl(reload::Handle<Targets, Registry>);

impl LogControl {
    pub fn set_verbosity(&self, verbosity: u8) {
        // This fails only when the subscriber is gone, and the process with it.
        let _ = self.0.reload(targets(verbosity));
    }
}

#[derive(Debug, thiserror::Error)]
#[error("logging cannot be set up: {0}")]
pub struct LoggingError(#[from] tracing_subscriber::util::TryInitError);

/// Installs the log of this process, also for libraries that use the `log` crate.
pub fn init(logging: Logging) -> Result<LogControl, LoggingError> {
    let (filter, handle) = reload::Layer::new(targets(logging.verbosity));
    let output = match logging.format {
        LogFormat::Text => fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .boxed(),
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(std::io::stderr)
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(output.with_filter(filter))
        .try_init()?;
    Ok(LogControl(handle))
}

fn targets(verbosity: u8) -> Targets {
    let own = match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // A target is a prefix, and the names of this project's crates begin with
    // `apifront`. Libraries log each connection that a client drops, which apifront
    // logs itself. At debug, libraries log their decisions; only at trace, each
    // frame and poll.
    let libraries = match verbosity {
        0..=5 => LevelFilter::WARN,
        6..=7 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let access = if verbosity >= 2 {
        own
    } else {
        LevelFilter::WARN
    };
    // Clients could fill the log: pingora logs a client's reset or bad handshake as
    // an `error!`, and h2 logs an unexpected frame as a `warn!`. The same holds for
    // a connection that is wanted at the moment at which it was put back. apifront
    // itself logs failed connections in kube and untrusted certificates.
    let pingora = if verbosity >= 4 {
        libraries
    } else {
        LevelFilter::OFF
    };
    Targets::new()
        .with_default(libraries)
        .with_target("apifront", own)
        .with_target(ACCESS, access)
        .with_target("h2", pingora)
        .with_target("pingora_core::apps", pingora)
        .with_target("pingora_core::connectors", pingora)
        .with_target("pingora_core::protocols", pingora)
        .with_target("pingora_proxy", pingora)
        .with_target("kube_client", pingora)
        .with_target("rustls_platform_verifier", pingora)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn verbosity_opens_targets_in_turn() {
        for (verbosity, target, level, expected) in [
            (0, "apifront_watch_cache", Level::INFO, true),
            (0, "apifront_watch_cache", Level::DEBUG, false),
            (0, ACCESS, Level::INFO, false),
            (2, ACCESS, Level::INFO, true),
            (4, "apifront_watch_cache", Level::DEBUG, true),
            (6, "apifront_upstream", Level::TRACE, true),
            (0, "hyper_util::client", Level::INFO, false),
            (0, "rustls::conn", Level::WARN, true),
            (0, "pingora_proxy", Level::ERROR, false),
            (0, "h2::proto::ping_pong", Level::WARN, false),
            (4, "pingora_proxy", Level::WARN, true),
        ] {
            assert_eq!(
                targets(verbosity).would_enable(target, &level),
                expected,
                "-v {verbosity} {target} {level}"
            );
        }
    }
}
