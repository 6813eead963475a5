//! Keys of the document whose function this version does not have yet.
//!
//! They are part of the contract, so they parse and are checked; asking for what
//! they would do is refused: nothing is silently ignored. An entry leaves this
//! list in the commit that builds its function.

use super::check::Check;
use super::raw;

pub(super) fn check(raw: &raw::FrontConfiguration, check: &mut Check) {
    let observability = &raw.observability;
    let asked = [(
        "observability.showHiddenMetricsForVersion",
        observability
            .show_hidden_metrics_for_version
            .as_ref()
            .is_some_and(|v| !v.is_empty()),
    )];
    for (field, _) in asked.into_iter().filter(|(_, asked)| *asked) {
        check.error(field, "", "is not supported by this version");
    }
}
