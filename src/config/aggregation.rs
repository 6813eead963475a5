//! `aggregation` and `apis`: extension API groups and what of the API is shown.

use url::Url;

use super::check::Check;
use super::raw;
use super::runtime_config::RuntimeConfig;
use super::upstream::check_servers;
use crate::api::GroupVersion;

/// Checked `aggregation`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregation {
    /// Glob patterns of files.
    pub api_services: Vec<String>,
    pub backends: Vec<Backend>,
}

/// The addresses of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    pub name: String,
    pub namespace: String,
    /// At least one. Scheme, host and port alone.
    pub servers: Vec<Url>,
}

/// Checked `apis`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Apis {
    pub runtime_config: RuntimeConfig,
    pub deprecations: Vec<Deprecation>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Deprecation {
    pub group_version: GroupVersion,
    /// `None`: every kind of the version.
    pub kind: Option<String>,
    /// Kubernetes (major, minor).
    pub deprecated: (u32, u32),
    pub removed: Option<(u32, u32)>,
    pub replacement: Option<String>,
}

impl Aggregation {
    pub(super) fn check(raw: &raw::Aggregation, check: &mut Check) -> Self {
        let api_services = raw.api_services.clone().unwrap_or_default();
        for (i, pattern) in api_services.iter().enumerate() {
            if let Err(error) = glob::Pattern::new(pattern) {
                check.error(
                    &format!("aggregation.apiServices[{i}]"),
                    pattern,
                    &format!("must be a file name, * and ? allowed: {}", error.msg),
                );
            }
        }
        let backends = raw.backends.iter().flatten().enumerate();
        Self {
            api_services,
            backends: backends
                .filter_map(|(i, b)| {
                    Backend::check(&format!("aggregation.backends[{i}]"), b, check)
                })
                .collect(),
        }
    }
}

impl Backend {
    fn check(field: &str, raw: &raw::Backend, check: &mut Check) -> Option<Self> {
        let name = check.needed_text(&format!("{field}.name"), &raw.name);
        let namespace = check.needed_text(&format!("{field}.namespace"), &raw.namespace);
        if raw.servers.is_none() {
            check.error(&format!("{field}.servers"), "", "needs at least one URL");
        }
        Some(Self {
            servers: check_servers(&format!("{field}.servers"), &raw.servers, check),
            name: name?,
            namespace: namespace?,
        })
    }
}

impl Apis {
    pub(super) fn check(raw: &raw::Apis, check: &mut Check) -> Self {
        let deprecations = raw.deprecations.iter().flatten().enumerate();
        Self {
            runtime_config: RuntimeConfig::check(&raw.runtime_config, check),
            deprecations: deprecations
                .filter_map(|(i, d)| {
                    Deprecation::check(&format!("apis.deprecations[{i}]"), d, check)
                })
                .collect(),
        }
    }
}

impl Deprecation {
    fn check(field: &str, raw: &raw::Deprecation, check: &mut Check) -> Option<Self> {
        let group_version = check.needed_text(&format!("{field}.groupVersion"), &raw.group_version);
        let group_version = group_version.and_then(|text| {
            let parsed = GroupVersion::parse(&text);
            if parsed.is_none() {
                check.error(
                    &format!("{field}.groupVersion"),
                    &text,
                    "must be like batch/v1beta1 or v1",
                );
            }
            parsed
        });
        let deprecated = check.needed_text(&format!("{field}.deprecated"), &raw.deprecated);
        let deprecated =
            deprecated.and_then(|v| release(&format!("{field}.deprecated"), &v, check));
        let removed = match &raw.removed {
            Some(v) => Some(release(&format!("{field}.removed"), v, check)?),
            None => None,
        };
        Some(Self {
            group_version: group_version?,
            kind: raw.kind.clone(),
            deprecated: deprecated?,
            removed,
            replacement: raw.replacement.clone(),
        })
    }
}

/// `1.25`.
fn release(field: &str, text: &str, check: &mut Check) -> Option<(u32, u32)> {
    let parsed = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    if parsed.is_none() {
        check.error(field, text, "must be a Kubernetes release like 1.25");
    }
    parsed
}
