//! The command line. Names are kube-apiserver's where the meaning is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Parser;

use super::check::Shape;
use super::raw;
use super::runtime_config::parse_setting;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), ", Kubernetes v1.36 semantics");

/// Reverse proxy, watch cache and API aggregation layer in front of Kubernetes
/// API servers.
///
/// With --config it stands in front of a cluster for its users. With
/// --kubeconfig alone it serves you, like `kubectl proxy`, on
/// http://127.0.0.1:8001. With neither it serves an embedded API server with
/// sample objects there. A flag overrides its field in the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Parser)]
#[command(name = "apifront", version = VERSION, max_term_width = 100)]
pub struct Flags {
    /// FrontConfiguration file (YAML), read again when it changes
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Kubeconfig of the cluster behind [upstream.kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<String>,

    /// Context of the kubeconfig [upstream.context; default: its current-context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Check the configuration and the files it names, say what is wrong, and exit
    #[arg(long)]
    pub validate_only: bool,

    /// IP address of the secure port [serving.bindAddress; default: 0.0.0.0]
    #[arg(long, value_name = "IP")]
    pub bind_address: Option<String>,

    /// HTTPS port, 0 for none [serving.securePort; default: 6443, 0 without --config]
    #[arg(long, value_name = "PORT")]
    pub secure_port: Option<i64>,

    /// Plain HTTP port on 127.0.0.1, 0 for none [serving.insecurePort; default: 0, 8001
    /// without --config]
    #[arg(long, value_name = "PORT")]
    pub insecure_port: Option<i64>,

    /// Server certificate and intermediates, PEM [serving.tlsCertFile]
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<String>,

    /// Private key of the server certificate, PEM [serving.tlsPrivateKeyFile]
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<String>,

    /// CAs of client certificates, PEM [authentication.clientCAFile]
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<String>,

    /// CAs of a trusted front proxy, PEM [authentication.requestHeader.clientCAFile]
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<String>,

    /// Common names of the trusted front proxy, comma separated; empty is any
    /// [authentication.requestHeader.allowedNames]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub requestheader_allowed_names: Option<Vec<String>>,

    /// Headers with the user's name [authentication.requestHeader.usernameHeaders; default:
    /// X-Remote-User]
    #[arg(long, value_name = "HEADERS", value_delimiter = ',')]
    pub requestheader_username_headers: Option<Vec<String>>,

    /// Headers with the user's UID [authentication.requestHeader.uidHeaders; default:
    /// X-Remote-Uid]
    #[arg(long, value_name = "HEADERS", value_delimiter = ',')]
    pub requestheader_uid_headers: Option<Vec<String>>,

    /// Headers with the user's groups [authentication.requestHeader.groupHeaders; default:
    /// X-Remote-Group]
    #[arg(long, value_name = "HEADERS", value_delimiter = ',')]
    pub requestheader_group_headers: Option<Vec<String>>,

    /// Prefixes of headers with the user's extra
    /// [authentication.requestHeader.extraHeadersPrefixes; default: X-Remote-Extra-]
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Option<Vec<String>>,

    /// Client certificate shown to the upstream as its trusted front proxy, PEM
    /// [identity.proxyClientCertFile]
    #[arg(long, value_name = "FILE")]
    pub proxy_client_cert_file: Option<String>,

    /// Private key of that certificate, PEM [identity.proxyClientKeyFile]
    #[arg(long, value_name = "FILE")]
    pub proxy_client_key_file: Option<String>,

    /// Let callers without credentials in as system:anonymous
    /// [authentication.anonymous.enabled; default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub anonymous_auth: Option<bool>,

    /// How long a good bearer token is remembered, a duration
    /// [authentication.tokenReview.successTTL; default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub authentication_token_webhook_cache_ttl: Option<String>,

    /// How long an allowance is remembered, a duration
    /// [authorization.subjectAccessReview.allowTTL; default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub authorization_webhook_cache_authorized_ttl: Option<String>,

    /// How long a denial is remembered, a duration
    /// [authorization.subjectAccessReview.denyTTL; default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub authorization_webhook_cache_unauthorized_ttl: Option<String>,

    /// How long requests are still taken after SIGTERM while /readyz fails, a duration
    /// [serving.shutdownDelayDuration; default: 0s]
    #[arg(long, value_name = "DURATION")]
    pub shutdown_delay_duration: Option<String>,

    /// How long /livez forgives checks of the boot sequence, a duration
    /// [serving.livezGracePeriod; default: 0s]
    #[arg(long, value_name = "DURATION")]
    pub livez_grace_period: Option<String>,

    /// Least duration of a watch without timeoutSeconds, in seconds or as a duration
    /// [serving.minRequestTimeout; default: 1800]
    #[arg(long, value_name = "SECONDS")]
    pub min_request_timeout: Option<String>,

    /// Read requests in flight, 0 for no limit [serving.maxRequestsInflight; default: 400]
    #[arg(long, value_name = "COUNT")]
    pub max_requests_inflight: Option<i64>,

    /// Writes in flight, 0 for no limit [serving.maxMutatingRequestsInflight; default: 200]
    #[arg(long, value_name = "COUNT")]
    pub max_mutating_requests_inflight: Option<i64>,

    /// Requests and watches at a time on one HTTP/2 connection
    /// [serving.http2MaxStreamsPerConnection; default: 1000]
    #[arg(long, value_name = "COUNT")]
    pub http2_max_streams_per_connection: Option<i64>,

    /// APIs to hide: `batch/v1=false`, `batch/v1/jobs=false`, `api/beta=false`, comma
    /// separated [apis.runtimeConfig]
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', value_parser = parse_setting)]
    pub runtime_config: Option<Vec<(String, bool)>>,

    /// Show metrics that are hidden since this version; only the previous minor one is
    /// allowed [observability.showHiddenMetricsForVersion]
    #[arg(long, value_name = "VERSION")]
    pub show_hidden_metrics_for_version: Option<String>,

    /// An audit.k8s.io/v1 Policy [observability.auditPolicyFile]
    #[arg(long, value_name = "FILE")]
    pub audit_policy_file: Option<String>,

    /// Where audit events go, - is standard output, empty is no log
    /// [observability.auditLogPath; default: -]
    #[arg(long, value_name = "FILE")]
    pub audit_log_path: Option<String>,

    /// Days that rotated audit logs are kept, 0 for ever [observability.auditLogMaxAge;
    /// default: 366]
    #[arg(long, value_name = "DAYS")]
    pub audit_log_maxage: Option<i64>,

    /// Rotated audit logs that are kept, 0 for all [observability.auditLogMaxBackups;
    /// default: 100]
    #[arg(long, value_name = "COUNT")]
    pub audit_log_maxbackup: Option<i64>,

    /// MiB of an audit log before it is rotated, 0 for no rotation
    /// [observability.auditLogMaxSize; default: 100]
    #[arg(long, value_name = "MEGABYTES")]
    pub audit_log_maxsize: Option<i64>,

    /// Compress rotated audit logs with gzip [observability.auditLogCompress; default:
    /// false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub audit_log_compress: Option<bool>,

    /// Audit events that may wait to be written to the log
    /// [observability.auditLogBatchBufferSize; default: 10000]
    #[arg(long, value_name = "COUNT")]
    pub audit_log_batch_buffer_size: Option<i64>,

    /// Leave the objects out of large audit events in the log
    /// [observability.auditLogTruncateEnabled; default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub audit_log_truncate_enabled: Option<bool>,

    /// Bytes of an audit event in the log that is not large
    /// [observability.auditLogTruncateMaxEventSize; default: 102400]
    #[arg(long, value_name = "BYTES")]
    pub audit_log_truncate_max_event_size: Option<i64>,

    /// A kubeconfig: audit events are sent to its server
    /// [observability.auditWebhookConfigFile; default: none]
    #[arg(long, value_name = "FILE")]
    pub audit_webhook_config_file: Option<String>,

    /// Time before a batch of audit events is sent again after the first failure, a
    /// duration [observability.auditWebhookInitialBackoff; default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub audit_webhook_initial_backoff: Option<String>,

    /// Audit events that may wait to be sent [observability.auditWebhookBatchBufferSize;
    /// default: 10000]
    #[arg(long, value_name = "COUNT")]
    pub audit_webhook_batch_buffer_size: Option<i64>,

    /// Audit events in a batch [observability.auditWebhookBatchMaxSize; default: 400]
    #[arg(long, value_name = "COUNT")]
    pub audit_webhook_batch_max_size: Option<i64>,

    /// Time before a batch is sent that is not full, a duration
    /// [observability.auditWebhookBatchMaxWait; default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub audit_webhook_batch_max_wait: Option<String>,

    /// Limit how often batches are sent [observability.auditWebhookBatchThrottleEnable;
    /// default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub audit_webhook_batch_throttle_enable: Option<bool>,

    /// Batches per second [observability.auditWebhookBatchThrottleQPS; default: 10]
    #[arg(long, value_name = "RATE")]
    pub audit_webhook_batch_throttle_qps: Option<f64>,

    /// Batches at the same moment after a pause
    /// [observability.auditWebhookBatchThrottleBurst; default: 15]
    #[arg(long, value_name = "COUNT")]
    pub audit_webhook_batch_throttle_burst: Option<i64>,

    /// Leave the objects out of large audit events, and split large batches
    /// [observability.auditWebhookTruncateEnabled; default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub audit_webhook_truncate_enabled: Option<bool>,

    /// Bytes of an audit event to be sent that is not large
    /// [observability.auditWebhookTruncateMaxEventSize; default: 102400]
    #[arg(long, value_name = "BYTES")]
    pub audit_webhook_truncate_max_event_size: Option<i64>,

    /// Bytes of a batch that is not large
    /// [observability.auditWebhookTruncateMaxBatchSize; default: 10485760]
    #[arg(long, value_name = "BYTES")]
    pub audit_webhook_truncate_max_batch_size: Option<i64>,

    /// Log level: 0 what happens, 2 every request, 4 debug, 6 trace [logging.verbosity;
    /// default: 0]
    #[arg(short = 'v', long = "v", value_name = "LEVEL")]
    pub verbosity: Option<i64>,

    /// Log format: text or json [logging.format; default: text]
    #[arg(long, value_name = "FORMAT")]
    pub logging_format: Option<String>,
}

/// Which flag set which field.
pub(super) type Overrides = BTreeMap<&'static str, &'static str>;

impl Flags {
    /// What the process is asked to be. A flag that only means something for
    /// other people's requests makes a front even without a file, so that it is
    /// never ignored.
    pub(super) fn shape(&self) -> Shape {
        let mut front = raw::FrontConfiguration::default();
        let overrides = self.apply(&mut front);
        let for_others = overrides.keys().any(|field| {
            ["authentication.", "authorization.", "identity."]
                .iter()
                .any(|section| field.starts_with(section))
                || [
                    "serving.bindAddress",
                    "serving.securePort",
                    "serving.tlsCertFile",
                    "serving.tlsPrivateKeyFile",
                ]
                .contains(field)
        });
        if self.config.is_some() || for_others {
            Shape::Front
        } else if self.kubeconfig.is_some() {
            Shape::Personal
        } else {
            Shape::Demo
        }
    }

    /// Lays the flags over the document.
    pub(super) fn apply(&self, raw: &mut raw::FrontConfiguration) -> Overrides {
        let mut set = Overrides::new();
        let serving = &mut raw.serving;
        let observability = &mut raw.observability;
        let authentication = &mut raw.authentication;
        let header = &mut authentication.request_header;
        let review = &mut raw.authorization.subject_access_review;
        let mut over = Over(&mut set);
        over.lay(
            &self.kubeconfig,
            &mut raw.upstream.kubeconfig,
            ("upstream.kubeconfig", "--kubeconfig"),
        );
        over.lay(
            &self.context,
            &mut raw.upstream.context,
            ("upstream.context", "--context"),
        );
        over.lay(
            &self.bind_address,
            &mut serving.bind_address,
            ("serving.bindAddress", "--bind-address"),
        );
        over.lay(
            &self.secure_port,
            &mut serving.secure_port,
            ("serving.securePort", "--secure-port"),
        );
        over.lay(
            &self.insecure_port,
            &mut serving.insecure_port,
            ("serving.insecurePort", "--insecure-port"),
        );
        over.lay(
            &self.tls_cert_file,
            &mut serving.tls_cert_file,
            ("serving.tlsCertFile", "--tls-cert-file"),
        );
        over.lay(
            &self.tls_private_key_file,
            &mut serving.tls_private_key_file,
            ("serving.tlsPrivateKeyFile", "--tls-private-key-file"),
        );
        over.lay(
            &self.client_ca_file,
            &mut authentication.client_ca_file,
            ("authentication.clientCAFile", "--client-ca-file"),
        );
        over.lay(
            &self.requestheader_client_ca_file,
            &mut header.client_ca_file,
            (
                "authentication.requestHeader.clientCAFile",
                "--requestheader-client-ca-file",
            ),
        );
        over.lay(
            &listed(&self.requestheader_allowed_names),
            &mut header.allowed_names,
            (
                "authentication.requestHeader.allowedNames",
                "--requestheader-allowed-names",
            ),
        );
        over.lay(
            &listed(&self.requestheader_username_headers),
            &mut header.username_headers,
            (
                "authentication.requestHeader.usernameHeaders",
                "--requestheader-username-headers",
            ),
        );
        over.lay(
            &listed(&self.requestheader_uid_headers),
            &mut header.uid_headers,
            (
                "authentication.requestHeader.uidHeaders",
                "--requestheader-uid-headers",
            ),
        );
        over.lay(
            &listed(&self.requestheader_group_headers),
            &mut header.group_headers,
            (
                "authentication.requestHeader.groupHeaders",
                "--requestheader-group-headers",
            ),
        );
        over.lay(
            &listed(&self.requestheader_extra_headers_prefix),
            &mut header.extra_headers_prefixes,
            (
                "authentication.requestHeader.extraHeadersPrefixes",
                "--requestheader-extra-headers-prefix",
            ),
        );
        over.lay(
            &self.proxy_client_cert_file,
            &mut raw.identity.proxy_client_cert_file,
            ("identity.proxyClientCertFile", "--proxy-client-cert-file"),
        );
        over.lay(
            &self.proxy_client_key_file,
            &mut raw.identity.proxy_client_key_file,
            ("identity.proxyClientKeyFile", "--proxy-client-key-file"),
        );
        over.lay(
            &self.anonymous_auth,
            &mut authentication.anonymous.enabled,
            ("authentication.anonymous.enabled", "--anonymous-auth"),
        );
        over.lay(
            &self.authentication_token_webhook_cache_ttl,
            &mut authentication.token_review.success_ttl,
            (
                "authentication.tokenReview.successTTL",
                "--authentication-token-webhook-cache-ttl",
            ),
        );
        over.lay(
            &self.authorization_webhook_cache_authorized_ttl,
            &mut review.allow_ttl,
            (
                "authorization.subjectAccessReview.allowTTL",
                "--authorization-webhook-cache-authorized-ttl",
            ),
        );
        over.lay(
            &self.authorization_webhook_cache_unauthorized_ttl,
            &mut review.deny_ttl,
            (
                "authorization.subjectAccessReview.denyTTL",
                "--authorization-webhook-cache-unauthorized-ttl",
            ),
        );
        over.lay(
            &self.shutdown_delay_duration,
            &mut serving.shutdown_delay_duration,
            ("serving.shutdownDelayDuration", "--shutdown-delay-duration"),
        );
        over.lay(
            &self.livez_grace_period,
            &mut serving.livez_grace_period,
            ("serving.livezGracePeriod", "--livez-grace-period"),
        );
        // kube-apiserver's flag counts seconds.
        let min_request_timeout = self.min_request_timeout.as_ref().map(|text| {
            if text.bytes().all(|b| b.is_ascii_digit()) {
                format!("{text}s")
            } else {
                text.clone()
            }
        });
        over.lay(
            &min_request_timeout,
            &mut serving.min_request_timeout,
            ("serving.minRequestTimeout", "--min-request-timeout"),
        );
        over.lay(
            &self.max_requests_inflight,
            &mut serving.max_requests_inflight,
            ("serving.maxRequestsInflight", "--max-requests-inflight"),
        );
        over.lay(
            &self.max_mutating_requests_inflight,
            &mut serving.max_mutating_requests_inflight,
            (
                "serving.maxMutatingRequestsInflight",
                "--max-mutating-requests-inflight",
            ),
        );
        over.lay(
            &self.http2_max_streams_per_connection,
            &mut serving.http2_max_streams_per_connection,
            (
                "serving.http2MaxStreamsPerConnection",
                "--http2-max-streams-per-connection",
            ),
        );
        let runtime_config = self.runtime_config.as_ref().map(|settings| {
            let written = settings.iter().filter(|(key, _)| !key.is_empty());
            written.cloned().collect()
        });
        over.lay(
            &runtime_config,
            &mut raw.apis.runtime_config,
            ("apis.runtimeConfig", "--runtime-config"),
        );
        over.lay(
            &self.audit_policy_file,
            &mut observability.audit_policy_file,
            ("observability.auditPolicyFile", "--audit-policy-file"),
        );
        over.lay(
            &self.audit_log_path,
            &mut observability.audit_log_path,
            ("observability.auditLogPath", "--audit-log-path"),
        );
        over.lay(
            &self.audit_log_maxage,
            &mut observability.audit_log_max_age,
            ("observability.auditLogMaxAge", "--audit-log-maxage"),
        );
        over.lay(
            &self.audit_log_maxbackup,
            &mut observability.audit_log_max_backups,
            ("observability.auditLogMaxBackups", "--audit-log-maxbackup"),
        );
        over.lay(
            &self.audit_log_maxsize,
            &mut observability.audit_log_max_size,
            ("observability.auditLogMaxSize", "--audit-log-maxsize"),
        );
        over.lay(
            &self.show_hidden_metrics_for_version,
            &mut observability.show_hidden_metrics_for_version,
            (
                "observability.showHiddenMetricsForVersion",
                "--show-hidden-metrics-for-version",
            ),
        );
        over.lay(
            &self.audit_log_compress,
            &mut observability.audit_log_compress,
            ("observability.auditLogCompress", "--audit-log-compress"),
        );
        over.lay(
            &self.audit_log_batch_buffer_size,
            &mut observability.audit_log_batch_buffer_size,
            (
                "observability.auditLogBatchBufferSize",
                "--audit-log-batch-buffer-size",
            ),
        );
        over.lay(
            &self.audit_log_truncate_enabled,
            &mut observability.audit_log_truncate_enabled,
            (
                "observability.auditLogTruncateEnabled",
                "--audit-log-truncate-enabled",
            ),
        );
        over.lay(
            &self.audit_log_truncate_max_event_size,
            &mut observability.audit_log_truncate_max_event_size,
            (
                "observability.auditLogTruncateMaxEventSize",
                "--audit-log-truncate-max-event-size",
            ),
        );
        over.lay(
            &self.audit_webhook_config_file,
            &mut observability.audit_webhook_config_file,
            (
                "observability.auditWebhookConfigFile",
                "--audit-webhook-config-file",
            ),
        );
        over.lay(
            &self.audit_webhook_initial_backoff,
            &mut observability.audit_webhook_initial_backoff,
            (
                "observability.auditWebhookInitialBackoff",
                "--audit-webhook-initial-backoff",
            ),
        );
        over.lay(
            &self.audit_webhook_batch_buffer_size,
            &mut observability.audit_webhook_batch_buffer_size,
            (
                "observability.auditWebhookBatchBufferSize",
                "--audit-webhook-batch-buffer-size",
            ),
        );
        over.lay(
            &self.audit_webhook_batch_max_size,
            &mut observability.audit_webhook_batch_max_size,
            (
                "observability.auditWebhookBatchMaxSize",
                "--audit-webhook-batch-max-size",
            ),
        );
        over.lay(
            &self.audit_webhook_batch_max_wait,
            &mut observability.audit_webhook_batch_max_wait,
            (
                "observability.auditWebhookBatchMaxWait",
                "--audit-webhook-batch-max-wait",
            ),
        );
        over.lay(
            &self.audit_webhook_batch_throttle_enable,
            &mut observability.audit_webhook_batch_throttle_enable,
            (
                "observability.auditWebhookBatchThrottleEnable",
                "--audit-webhook-batch-throttle-enable",
            ),
        );
        over.lay(
            &self.audit_webhook_batch_throttle_qps,
            &mut observability.audit_webhook_batch_throttle_qps,
            (
                "observability.auditWebhookBatchThrottleQPS",
                "--audit-webhook-batch-throttle-qps",
            ),
        );
        over.lay(
            &self.audit_webhook_batch_throttle_burst,
            &mut observability.audit_webhook_batch_throttle_burst,
            (
                "observability.auditWebhookBatchThrottleBurst",
                "--audit-webhook-batch-throttle-burst",
            ),
        );
        over.lay(
            &self.audit_webhook_truncate_enabled,
            &mut observability.audit_webhook_truncate_enabled,
            (
                "observability.auditWebhookTruncateEnabled",
                "--audit-webhook-truncate-enabled",
            ),
        );
        over.lay(
            &self.audit_webhook_truncate_max_event_size,
            &mut observability.audit_webhook_truncate_max_event_size,
            (
                "observability.auditWebhookTruncateMaxEventSize",
                "--audit-webhook-truncate-max-event-size",
            ),
        );
        over.lay(
            &self.audit_webhook_truncate_max_batch_size,
            &mut observability.audit_webhook_truncate_max_batch_size,
            (
                "observability.auditWebhookTruncateMaxBatchSize",
                "--audit-webhook-truncate-max-batch-size",
            ),
        );
        over.lay(
            &self.verbosity,
            &mut raw.logging.verbosity,
            ("logging.verbosity", "--v"),
        );
        over.lay(
            &self.logging_format,
            &mut raw.logging.format,
            ("logging.format", "--logging-format"),
        );
        set
    }
}

/// An empty value is an empty list, as in kube-apiserver.
fn listed(flag: &Option<Vec<String>>) -> Option<Vec<String>> {
    let list = flag.as_ref()?;
    Some(list.iter().filter(|s| !s.is_empty()).cloned().collect())
}

struct Over<'a>(&'a mut Overrides);

impl Over<'_> {
    fn lay<T: Clone>(
        &mut self,
        flag: &Option<T>,
        field: &mut Option<T>,
        (path, name): (&'static str, &'static str),
    ) {
        if flag.is_some() {
            field.clone_from(flag);
            self.0.insert(path, name);
        }
    }
}
