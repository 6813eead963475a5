//! Makes the server's settings of a configuration.

use crate::config::{Access, Config, Mode};
use crate::server::state::settings::ServerSettings;

pub(super) fn server_settings(config: &Config) -> ServerSettings {
    let serving = &config.serving;
    let decision_ttl = match &config.access {
        Access::Owner => None,
        Access::Delegated(delegated) => {
            let authorization = &delegated.authorization;
            Some(authorization.allow_ttl.max(authorization.deny_ttl))
        }
    };
    ServerSettings {
        mode: config.mode().as_str(),
        has_own_user: config.mode() == Mode::Personal,
        cache: config.cache.clone(),
        runtime_config: config.apis.runtime_config.clone(),
        deprecations: config.apis.deprecations.clone(),
        degraded: config.degraded.clone(),
        views: config.views.as_ref().map(|views| views.callers.clone()),
        queries: config.queries,
        browsers: serving.browsers.clone(),
        enable_priority_and_fairness: config.flow.enable_priority_and_fairness,
        decision_ttl,
        max_request_header_bytes: serving.connection.max_request_header_bytes,
        min_request_timeout: serving.min_request_timeout,
        upstream_request_timeout: config.upstream.timing().request_timeout,
        shutdown_delay: serving.shutdown_delay_duration,
        shutdown_grace_period: serving.shutdown_grace_period,
    }
}
