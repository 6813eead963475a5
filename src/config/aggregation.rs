//! `aggregation`: extension API groups and their servers.

use std::path::PathBuf;

use apifront_upstream::{ClientCert, Timeouts};

use super::check::Check;
use super::upstream::check_servers;
use super::{api_service, raw};
use crate::aggregation::settings::{
    AggregationSettings, CONSECUTIVE_ERRORS, ConfiguredBackend, EJECTION_TIME,
};

/// `serving.maxRequestsInflight` has the same limit. It is far beyond any use.
const MOST_INFLIGHT: usize = 1_000_000;

pub(super) fn check(
    raw: &raw::Aggregation,
    proxy_client: Option<ClientCert>,
    check: &mut Check,
) -> AggregationSettings {
    const SERVICES: &str = "aggregation.apiServices";
    let patterns = raw.api_services.clone().unwrap_or_default();
    let api_services = api_service::load(SERVICES, &patterns, check);
    let remote = api_services.iter().find(|s| s.service.is_some());
    if let Some(remote) = remote
        && proxy_client.is_none()
    {
        check.error(
            "identity.proxyClientCertFile",
            "",
            &format!(
                "needed for {}: backends believe the names of callers because of it",
                remote.name
            ),
        );
    }
    let backends: Vec<ConfiguredBackend> = (raw.backends.iter().flatten().enumerate())
        .filter_map(|(i, b)| backend(&format!("aggregation.backends[{i}]"), b, check))
        .collect();
    for (i, backend) in backends.iter().enumerate() {
        let same =
            |b: &&ConfiguredBackend| (&b.name, &b.namespace) == (&backend.name, &backend.namespace);
        if backends.iter().take(i).any(|b| same(&b)) {
            let name = format!("{}/{}", backend.namespace, backend.name);
            check.error(
                &format!("aggregation.backends[{i}]"),
                &name,
                "is there twice",
            );
        }
    }
    AggregationSettings {
        api_services,
        backends,
        proxy_client,
    }
}

/// Returns the files that must be watched, and the patterns that found them.
pub(super) fn watched_files(raw: &raw::Aggregation) -> Vec<PathBuf> {
    api_service::watched(raw.api_services.as_deref().unwrap_or_default())
}

fn backend(field: &str, raw: &raw::Backend, check: &mut Check) -> Option<ConfiguredBackend> {
    let name = check.needed_text(&format!("{field}.name"), &raw.name);
    let namespace = check.needed_text(&format!("{field}.namespace"), &raw.namespace);
    let default = Timeouts::default();
    let timing = Timeouts {
        health_check_interval: check.positive_duration(
            &format!("{field}.healthCheckInterval"),
            &raw.health_check_interval,
            default.health_check_interval,
        ),
        connect_timeout: check.positive_duration(
            &format!("{field}.connectTimeout"),
            &raw.connect_timeout,
            default.connect_timeout,
        ),
        request_timeout: check.positive_duration(
            &format!("{field}.requestTimeout"),
            &raw.request_timeout,
            default.request_timeout,
        ),
    };
    let outlier = &raw.outlier_detection;
    Some(ConfiguredBackend {
        servers: check_servers(&format!("{field}.servers"), &raw.servers, check),
        server_name: raw.server_name.clone(),
        timing,
        max_requests_inflight: check.count(
            &format!("{field}.maxRequestsInflight"),
            raw.max_requests_inflight,
            0,
            0..=MOST_INFLIGHT,
        ),
        consecutive_errors: check.count(
            &format!("{field}.outlierDetection.consecutiveErrors"),
            outlier.consecutive_errors,
            CONSECUTIVE_ERRORS as usize,
            0..=1_000,
        ) as u32,
        ejection_time: check.positive_duration(
            &format!("{field}.outlierDetection.ejectionTime"),
            &outlier.ejection_time,
            EJECTION_TIME,
        ),
        name: name?,
        namespace: namespace?,
    })
}
