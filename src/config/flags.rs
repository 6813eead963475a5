//! The command line. Flags have kube-apiserver's names where they mean the
//! same.

use std::path::PathBuf;

use clap::Parser;

use super::assemble::Shape;
use super::raw;
use crate::runtime_config::parse_setting;

pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), ", Kubernetes v1.37 semantics");

/// The flags of a start.
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

    /// Seats for requests, together with the next flag; without priority and fairness:
    /// read requests in flight, 0 for no limit [serving.maxRequestsInflight; default: 400]
    #[arg(long, value_name = "COUNT")]
    pub max_requests_inflight: Option<i64>,

    /// The rest of the seats; without priority and fairness: writes in flight, 0 for no
    /// limit [serving.maxMutatingRequestsInflight; default: 200]
    #[arg(long, value_name = "COUNT")]
    pub max_mutating_requests_inflight: Option<i64>,

    /// Let the cluster's FlowSchemas and PriorityLevelConfigurations decide who waits
    /// [flow.enablePriorityAndFairness; default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub enable_priority_and_fairness: Option<bool>,

    /// Answer questions about what is in memory: select, sort, count and page, for
    /// `kubectl query` [queries.enabled; default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub enable_queries: Option<bool>,

    /// Requests and watches at a time on one HTTP/2 connection
    /// [serving.http2MaxStreamsPerConnection; default: 1000]
    #[arg(long, value_name = "COUNT")]
    pub http2_max_streams_per_connection: Option<i64>,

    /// The part of HTTP/2 requests, at most 0.02, after which the connection ends in
    /// order, so that clients spread over replicas [serving.goawayChance; default: 0]
    #[arg(long, value_name = "PART")]
    pub goaway_chance: Option<f64>,

    /// Origins whose pages may read answers (CORS), as regular expressions, comma
    /// separated [serving.corsAllowedOrigins; default: none]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub cors_allowed_origins: Option<Vec<String>>,

    /// Directives of Strict-Transport-Security on answers over TLS, comma separated
    /// [serving.strictTransportSecurityDirectives; default: none]
    #[arg(long, value_name = "DIRECTIVES", value_delimiter = ',')]
    pub strict_transport_security_directives: Option<Vec<String>>,

    /// APIs to hide: `batch/v1=false`, `batch/v1/jobs=false`, `api/beta=false`, comma
    /// separated [apis.runtimeConfig]
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', value_parser = parse_setting)]
    pub runtime_config: Option<Vec<(String, bool)>>,

    /// Show metrics that are hidden since this version; only the previous minor one is
    /// allowed [observability.showHiddenMetricsForVersion]
    #[arg(long, value_name = "VERSION")]
    pub show_hidden_metrics_for_version: Option<String>,

    /// An apiserver.config.k8s.io/v1 TracingConfiguration [observability.tracingConfigFile]
    #[arg(long, value_name = "FILE")]
    pub tracing_config_file: Option<String>,

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
    pub v: Option<i64>,

    /// Log format: text or json [logging.format; default: text]
    #[arg(long, value_name = "FORMAT")]
    pub logging_format: Option<String>,
}

impl Flags {
    /// Returns the kind of process that the flags ask for. A flag that only matters
    /// for the requests of others makes a front even without a file: otherwise it
    /// would be ignored.
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
                .contains(&field.as_str())
        });
        if self.config.is_some() || for_others {
            Shape::Front
        } else if self.kubeconfig.is_some() {
            Shape::Personal
        } else {
            Shape::Demo
        }
    }
}
