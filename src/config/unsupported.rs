//! Keys of the document whose function this version does not have yet.
//!
//! They are part of the contract, so they parse and are checked; asking for what
//! they would do is refused, because a front that silently did not audit or hide
//! a version would be worse than none. An entry leaves this list in the commit
//! that builds its function.

use super::check::Check;
use super::raw;

pub(super) fn check(raw: &raw::FrontConfiguration, check: &mut Check) {
    let observability = &raw.observability;
    let asked = [
        (
            "observability.auditPolicyFile",
            observability.audit_policy_file.is_some(),
        ),
        (
            "observability.showHiddenMetricsForVersion",
            observability
                .show_hidden_metrics_for_version
                .as_ref()
                .is_some_and(|v| !v.is_empty()),
        ),
        (
            "aggregation.apiServices",
            raw.aggregation
                .api_services
                .as_ref()
                .is_some_and(|files| !files.is_empty()),
        ),
        (
            "apis.runtimeConfig",
            raw.apis
                .runtime_config
                .as_ref()
                .is_some_and(|config| !config.is_empty()),
        ),
    ];
    for (field, _) in asked.into_iter().filter(|(_, asked)| *asked) {
        check.error(field, "", "is not supported by this version");
    }
}
