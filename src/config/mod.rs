//! Makes a checked [`Config`] from a file and flags.
//!
//! ```text
//! file ─parse─▶ raw::FrontConfiguration ◀─override─ Flags
//!                      │ check: defaults, limits, cross-checks, all errors at once
//!                      ▼
//!                   Config ─swap─▶ Live ─▶ start and reload ─settings─▶ rooms
//! ```
//!
//! Most parts of a `Config` are the settings of other rooms, which own the types and
//! know nothing of this room. A flag takes precedence over the value in the file, and
//! that over the default. On reload the same flags are applied to the new file again.

pub mod access;
mod aggregation;
mod api_service;
mod apis;
mod assemble;
mod audit;
mod browsers;
mod cache;
mod check;
mod degraded;
pub mod flags;
mod flow;
mod live;
pub mod observability;
mod overrides;
mod parse;
mod quantity;
mod queries;
pub mod raw;
mod restart;
pub mod serving;
mod shapes;
mod source;
#[cfg(test)]
mod tests;
mod upstream;
mod views;
mod watcher;

use std::path::PathBuf;

use apifront_upstream::{ClientCert, certificate_files};

pub use access::{Access, Authentication, Delegated, Identity};
pub use apis::Apis;
pub use flags::{Flags, VERSION};
pub use kubernetes_wire::api::duration::{format_duration, parse_duration};
pub use live::{LiveConfig, ReloadMetrics};
pub use observability::Observability;
pub use restart::restart_required;
pub use serving::{SecureServing, Serving};
pub use source::{Demo, Source};
pub use upstream::Upstream;
pub use views::Views;
pub use watcher::Watcher;

use crate::aggregation::AggregationSettings;
use crate::audit::AuditSettings;
pub use crate::config_errors::{ConfigErrors, FieldError};
use crate::flow::FlowSettings;
use crate::logging::Logging;
use crate::outage::Degraded;
use crate::queries::QueriesSettings;
use crate::shapes::ShapeRule;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub serving: Serving,
    pub observability: Observability,
    pub logging: Logging,
    pub upstream: Upstream,
    /// `authentication`, `authorization` and `identity`, which are checked together.
    pub access: Access,
    pub flow: FlowSettings,
    pub cache: apifront_watch_cache::Settings,
    /// `cache.degraded`, if it names any reads.
    pub degraded: Option<Degraded>,
    /// `views`, if any caller may have one.
    pub views: Option<Views>,
    pub shapes: Vec<ShapeRule>,
    pub queries: QueriesSettings,
    pub aggregation: AggregationSettings,
    /// The files of the APIServices, and the patterns that found them.
    pub api_service_files: Vec<PathBuf>,
    pub apis: Apis,
}

/// The kind of process, as the log and the banner name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Runs without a file and a kubeconfig, before the program's own API server
    /// with samples.
    Demo,
    /// Runs with `--kubeconfig` alone, like `kubectl proxy`.
    Personal,
    /// Stands in front of a cluster, for its users.
    Front,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Personal => "personal",
            Self::Front => "front",
        }
    }
}

impl Config {
    pub fn mode(&self) -> Mode {
        match (&self.access, &self.upstream) {
            (Access::Delegated(_), _) => Mode::Front,
            (Access::Owner, Upstream::Demo) => Mode::Demo,
            (Access::Owner, _) => Mode::Personal,
        }
    }

    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut cert = |cert: &ClientCert| {
            files.extend([cert.cert_file.clone(), cert.key_file.clone()]);
        };
        if let Some(delegated) = self.access.delegated()
            && let Some(proxy) = &delegated.proxy_client
        {
            cert(proxy);
        }
        if let Upstream::Servers {
            client_cert: Some(client),
            ..
        } = &self.upstream
        {
            cert(client);
        }
        if let Some(secure) = &self.serving.secure {
            files.extend([
                secure.tls_cert_file.clone(),
                secure.tls_private_key_file.clone(),
            ]);
            for sni in &secure.sni_certs {
                files.extend([sni.cert_file.clone(), sni.key_file.clone()]);
            }
        }
        match &self.upstream {
            Upstream::Demo => {}
            Upstream::Kubeconfig { path, context, .. } => {
                files.push(path.clone());
                files.extend(certificate_files(path, context.as_deref()));
            }
            Upstream::Servers {
                ca_file,
                token_file,
                ..
            } => {
                files.push(ca_file.clone());
                files.extend(token_file.clone());
            }
        }
        files.extend(
            self.observability
                .audit
                .iter()
                .flat_map(AuditSettings::files),
        );
        files.extend(self.observability.tracing_config_file.clone());
        if let Some(delegated) = self.access.delegated() {
            let authentication = &delegated.authentication;
            files.extend(authentication.client_ca_file.clone());
            files.extend(
                authentication
                    .request_header
                    .as_ref()
                    .map(|h| h.client_ca_file.clone()),
            );
        }
        files.extend(self.api_service_files.iter().cloned());
        files
    }
}
