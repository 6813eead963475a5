//! `apis`: hidden APIs and deprecations.

use std::collections::BTreeMap;

use kubernetes_wire::api::GroupVersion;

use super::check::Check;
use super::raw;
use crate::deprecation::Deprecation;
use crate::runtime_config::RuntimeConfig;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Apis {
    pub runtime_config: RuntimeConfig,
    pub deprecations: Vec<Deprecation>,
}

impl Apis {
    pub(super) fn check(raw: &raw::Apis, check: &mut Check) -> Self {
        let deprecations = raw.deprecations.iter().flatten().enumerate();
        Self {
            runtime_config: runtime_config(&raw.runtime_config, check),
            deprecations: deprecations
                .filter_map(|(i, d)| deprecation(&format!("apis.deprecations[{i}]"), d, check))
                .collect(),
        }
    }
}

fn runtime_config(raw: &Option<BTreeMap<String, bool>>, check: &mut Check) -> RuntimeConfig {
    let Some(settings) = raw else {
        return RuntimeConfig::default();
    };
    RuntimeConfig::parse(settings).unwrap_or_else(|errors| {
        for (setting, problem) in errors {
            check.error("apis.runtimeConfig", &setting, problem);
        }
        RuntimeConfig::default()
    })
}

fn deprecation(field: &str, raw: &raw::Deprecation, check: &mut Check) -> Option<Deprecation> {
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
    let deprecated = deprecated.and_then(|v| release(&format!("{field}.deprecated"), &v, check));
    let removed = match &raw.removed {
        Some(v) => Some(release(&format!("{field}.removed"), v, check)?),
        None => None,
    };
    Some(Deprecation {
        group_version: group_version?,
        kind: raw.kind.clone(),
        deprecated: deprecated?,
        removed,
        replacement: raw.replacement.clone(),
    })
}

fn release(field: &str, text: &str, check: &mut Check) -> Option<(u32, u32)> {
    let parsed = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    if parsed.is_none() {
        check.error(field, text, "must be a Kubernetes release like 1.25");
    }
    parsed
}
