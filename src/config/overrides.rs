//! Maps each flag to the field of the configuration file that it sets, one line
//! each.

use std::collections::BTreeMap;

use super::check::Overrides;
use super::flags::Flags;
use super::raw;

/// Sets the field of each flag that is given. Errors show the names of flags and
/// fields that are written here. A function after `as` converts the flag's value to
/// the field's.
macro_rules! lay {
    ($flags:ident over $document:ident: $($flag:ident $(as $convert:ident)? => $($field:ident).+;)*) => {{
        let mut overrides = Overrides::new();
        $(
            let value = $flags.$flag.clone();
            $(let value = value.map($convert);)?
            if value.is_some() {
                $document.$($field).+ = value;
                let field = field_name(&[$(stringify!($field)),+]);
                overrides.insert(field, flag_name(stringify!($flag)));
            }
        )*
        overrides
    }};
}

impl Flags {
    pub(super) fn apply(&self, raw: &mut raw::FrontConfiguration) -> Overrides {
        lay! {
            self over raw:
            kubeconfig => upstream.kubeconfig;
            context => upstream.context;
            bind_address => serving.bind_address;
            secure_port => serving.secure_port;
            insecure_port => serving.insecure_port;
            tls_cert_file => serving.tls_cert_file;
            tls_private_key_file => serving.tls_private_key_file;
            client_ca_file => authentication.client_ca_file;
            requestheader_client_ca_file => authentication.request_header.client_ca_file;
            requestheader_allowed_names as without_empty => authentication.request_header.allowed_names;
            requestheader_username_headers as without_empty => authentication.request_header.username_headers;
            requestheader_uid_headers as without_empty => authentication.request_header.uid_headers;
            requestheader_group_headers as without_empty => authentication.request_header.group_headers;
            requestheader_extra_headers_prefix as without_empty => authentication.request_header.extra_headers_prefixes;
            proxy_client_cert_file => identity.proxy_client_cert_file;
            proxy_client_key_file => identity.proxy_client_key_file;
            anonymous_auth => authentication.anonymous.enabled;
            authentication_token_webhook_cache_ttl => authentication.token_review.success_ttl;
            authorization_webhook_cache_authorized_ttl => authorization.subject_access_review.allow_ttl;
            authorization_webhook_cache_unauthorized_ttl => authorization.subject_access_review.deny_ttl;
            shutdown_delay_duration => serving.shutdown_delay_duration;
            livez_grace_period => serving.livez_grace_period;
            min_request_timeout as in_seconds => serving.min_request_timeout;
            max_requests_inflight => serving.max_requests_inflight;
            max_mutating_requests_inflight => serving.max_mutating_requests_inflight;
            enable_priority_and_fairness => flow.enable_priority_and_fairness;
            enable_queries => queries.enabled;
            http2_max_streams_per_connection => serving.http2_max_streams_per_connection;
            goaway_chance => serving.goaway_chance;
            cors_allowed_origins as without_empty => serving.cors_allowed_origins;
            strict_transport_security_directives as without_empty => serving.strict_transport_security_directives;
            runtime_config as settings => apis.runtime_config;
            audit_policy_file => observability.audit_policy_file;
            audit_log_path => observability.audit_log_path;
            audit_log_maxage => observability.audit_log_max_age;
            audit_log_maxbackup => observability.audit_log_max_backups;
            audit_log_maxsize => observability.audit_log_max_size;
            show_hidden_metrics_for_version => observability.show_hidden_metrics_for_version;
            audit_log_compress => observability.audit_log_compress;
            audit_log_batch_buffer_size => observability.audit_log_batch_buffer_size;
            audit_log_truncate_enabled => observability.audit_log_truncate_enabled;
            audit_log_truncate_max_event_size => observability.audit_log_truncate_max_event_size;
            audit_webhook_config_file => observability.audit_webhook_config_file;
            audit_webhook_initial_backoff => observability.audit_webhook_initial_backoff;
            audit_webhook_batch_buffer_size => observability.audit_webhook_batch_buffer_size;
            audit_webhook_batch_max_size => observability.audit_webhook_batch_max_size;
            audit_webhook_batch_max_wait => observability.audit_webhook_batch_max_wait;
            audit_webhook_batch_throttle_enable => observability.audit_webhook_batch_throttle_enable;
            audit_webhook_batch_throttle_qps => observability.audit_webhook_batch_throttle_qps;
            audit_webhook_batch_throttle_burst => observability.audit_webhook_batch_throttle_burst;
            audit_webhook_truncate_enabled => observability.audit_webhook_truncate_enabled;
            audit_webhook_truncate_max_event_size => observability.audit_webhook_truncate_max_event_size;
            audit_webhook_truncate_max_batch_size => observability.audit_webhook_truncate_max_batch_size;
            tracing_config_file => observability.tracing_config_file;
            v => logging.verbosity;
            logging_format => logging.format;
        }
    }
}

/// Returns a flag's name: `audit_log_path` is `--audit-log-path`.
fn flag_name(flag: &str) -> String {
    format!("--{}", flag.replace('_', "-"))
}

/// Returns a field's name: `authentication`, `client_ca_file` is
/// `authentication.clientCAFile`.
fn field_name(path: &[&str]) -> String {
    let names: Vec<String> = path.iter().map(|name| camel_case(name)).collect();
    names.join(".")
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        if matches!(word, "ca" | "ttl" | "qps") {
            camel.push_str(&word.to_ascii_uppercase());
            continue;
        }
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// Removes empty items: an empty value is an empty list, as in kube-apiserver.
fn without_empty(list: Vec<String>) -> Vec<String> {
    list.into_iter().filter(|item| !item.is_empty()).collect()
}

/// Reads a plain number as seconds, as kube-apiserver's flag does.
fn in_seconds(text: String) -> String {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        format!("{text}s")
    } else {
        text
    }
}

fn settings(settings: Vec<(String, bool)>) -> BTreeMap<String, bool> {
    let written = settings.into_iter().filter(|(key, _)| !key.is_empty());
    written.collect()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    /// The flags of the program itself set no field.
    #[test]
    fn each_flag_sets_the_field_its_help_names() {
        const OF_THE_PROGRAM: [&str; 3] = ["config", "help", "version"];
        let command = Flags::command();
        let mut count = 0;
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            if OF_THE_PROGRAM.contains(&id) {
                continue;
            }
            let flag = format!("--{}", argument.get_long().unwrap());
            let value = match id {
                "runtime_config" => "apps/v1=false",
                "anonymous_auth" => "true",
                _ if flag.ends_with("-compress") || flag.contains("-enable") => "true",
                _ => "1",
            };
            let given = ["apifront".to_owned(), format!("{flag}={value}")];
            let matches = command.clone().try_get_matches_from(given).unwrap();
            let flags = Flags::from_arg_matches(&matches).unwrap();
            let mut document = raw::FrontConfiguration::default();
            let overrides: Vec<(String, String)> = flags.apply(&mut document).into_iter().collect();
            let [(field, by)] = overrides.as_slice() else {
                panic!("{flag}: {overrides:?}");
            };
            assert_eq!(*by, flag);
            let help = argument.get_help().unwrap().to_string();
            let (_, named) = help.rsplit_once('[').unwrap();
            let named = named.split([';', ']']).next().unwrap();
            assert_eq!(field, named, "{flag}");
            assert_ne!(document, raw::FrontConfiguration::default(), "{flag}");
            count += 1;
        }
        assert!(count >= 50, "{count}");
    }

    #[test]
    fn empty_items_and_seconds() {
        let args = [
            "apifront",
            "--requestheader-allowed-names=a,,b",
            "--min-request-timeout=60",
        ];
        let matches = Flags::command().try_get_matches_from(args).unwrap();
        let flags = Flags::from_arg_matches(&matches).unwrap();
        let mut document = raw::FrontConfiguration::default();
        flags.apply(&mut document);
        let header = document.authentication.request_header;
        assert_eq!(header.allowed_names.unwrap(), ["a", "b"]);
        assert_eq!(document.serving.min_request_timeout.unwrap(), "60s");
    }
}
