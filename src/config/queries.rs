//! `queries`: the API group that apifront answers itself.

use super::check::Check;
use super::raw;
use crate::aggregation::AggregationSettings;
use crate::queries::{GROUP, QueriesSettings};

pub(super) fn check(
    raw: &raw::Queries,
    aggregation: &AggregationSettings,
    check: &mut Check,
) -> QueriesSettings {
    let enabled = raw.enabled.unwrap_or_default();
    if enabled {
        let services = aggregation.api_services.iter();
        for service in services.filter(|s| s.group_version.group == GROUP) {
            let file = service.file.display();
            let problem = format!(
                "aggregation.apiServices registers {} of the same group ({file}); only one of \
                 the two can answer",
                service.name
            );
            check.error("queries.enabled", "true", &problem);
        }
    }
    QueriesSettings { enabled }
}
