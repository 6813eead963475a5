//! The configuration file as written: `FrontConfiguration`.
//!
//! Every field is optional here. Defaults and limits are applied in one place,
//! when the file becomes a [`Config`](super::Config). Durations are text in
//! Go's form (`2m`, `1h30m`, `500ms`), and numbers are wider than allowed, so
//! that the check can name the field of a wrong value.
//! `config/front-configuration.yaml` lists the same fields with every default.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::quantity::Quantity;

pub const API_VERSION: &str = "apifront.dev/v1alpha1";
pub const KIND: &str = "FrontConfiguration";

/// The listeners, and the limits of a single connection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Serving {
    /// IP address of the secure port. Default `0.0.0.0`.
    pub bind_address: Option<String>,
    /// Port for HTTPS, 0 for none. Default 6443.
    pub secure_port: Option<i64>,
    /// PEM file: server certificate, then its intermediates. Needed with
    /// `securePort`: no certificate is made up.
    pub tls_cert_file: Option<String>,
    /// PEM file: private key of `tlsCertFile`.
    pub tls_private_key_file: Option<String>,
    /// Certificates chosen by the name a client asks for. Default none.
    pub sni_certs: Option<Vec<SniCert>>,
    /// Port for plain HTTP on 127.0.0.1, 0 for none. Default 0.
    pub insecure_port: Option<i64>,
    /// Time for which requests are still taken after SIGTERM, while `/readyz`
    /// already fails. Duration, default `0s`.
    pub shutdown_delay_duration: Option<String>,
    /// Time for requests in flight to end, once no new ones are accepted.
    /// Duration, default `60s`.
    pub shutdown_grace_period: Option<String>,
    /// Time for which `/livez` ignores failing checks of the boot sequence.
    /// Duration, default `0s`.
    pub livez_grace_period: Option<String>,
    /// A watch without `timeoutSeconds` lasts between this and twice this.
    /// Duration, default `30m`.
    pub min_request_timeout: Option<String>,
    /// Time a client has for its TLS handshake, and then for the headers of each
    /// request. Duration, default `30s`.
    pub request_header_timeout: Option<String>,
    /// The most bytes of a request's headers. Default 1048576.
    pub max_request_header_bytes: Option<i64>,
    /// Time for which a connection may be open without a request. Duration,
    /// default `90s`.
    pub idle_timeout: Option<String>,
    /// Connections that clients may have open. 0 leaves only the limit of open
    /// files. Default 20000.
    pub max_connections: Option<i64>,
    /// Open connections of one client address, 0 for no limit. Default 2000.
    pub max_connections_per_client: Option<i64>,
    /// Requests and watches at a time on one HTTP/2 connection. Default 1000.
    pub http2_max_streams_per_connection: Option<i64>,
    /// The part of HTTP/2 requests after which the connection ends in order (GOAWAY), so
    /// that a load balancer may give the client another replica. At most 0.02. Default 0.
    pub goaway_chance: Option<f64>,
    /// Origins whose pages may read answers (CORS), as regular expressions in the
    /// syntax of RE2. Default none.
    pub cors_allowed_origins: Option<Vec<String>>,
    /// The directives of `Strict-Transport-Security` on answers over TLS:
    /// `max-age=SECONDS`, `includeSubDomains`, `preload`. Default none.
    pub strict_transport_security_directives: Option<Vec<String>>,
    /// The seats for requests, together with `maxMutatingRequestsInflight`.
    /// Without `flow.enablePriorityAndFairness`: reads in flight, 0 for no limit.
    /// Watches do not count then. Default 400.
    pub max_requests_inflight: Option<i64>,
    /// The rest of the seats. Without `flow.enablePriorityAndFairness`: writes in
    /// flight, 0 for no limit. Default 200.
    pub max_mutating_requests_inflight: Option<i64>,
}

/// A certificate for some server names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SniCert {
    /// Host names, `*.example.com` allowed. Default: the names in the certificate.
    pub names: Option<Vec<String>>,
    /// PEM file: certificate chain.
    pub cert_file: Option<String>,
    /// PEM file: private key.
    pub key_file: Option<String>,
}

/// The second listener for metrics and health, the audit log and traces.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Observability {
    /// Loopback IP address, because this port is plain HTTP without
    /// authentication. Default `127.0.0.1`.
    pub bind_address: Option<String>,
    /// Port, 0 for none. Default 9443; 0 without a configuration file.
    pub port: Option<i64>,
    /// An `audit.k8s.io/v1` Policy. Default none: no audit.
    pub audit_policy_file: Option<String>,
    /// The file for audit events. `-` is standard output, empty is no log.
    /// Default `-`.
    pub audit_log_path: Option<String>,
    /// Days that rotated audit logs are kept, 0 for ever. Default 366.
    pub audit_log_max_age: Option<i64>,
    /// Rotated audit logs that are kept, 0 for all. Default 100.
    pub audit_log_max_backups: Option<i64>,
    /// MiB of an audit log before it is rotated, 0 for no rotation. Default 100.
    pub audit_log_max_size: Option<i64>,
    /// Compress rotated audit logs with gzip. Default false.
    pub audit_log_compress: Option<bool>,
    /// Audit events that may wait to be written to the log, half of them of one
    /// caller. Default 10000.
    pub audit_log_batch_buffer_size: Option<i64>,
    /// Leave the objects out of large audit events in the log. Default false.
    pub audit_log_truncate_enabled: Option<bool>,
    /// The most bytes of an audit event in the log that keeps its objects.
    /// Default 102400.
    pub audit_log_truncate_max_event_size: Option<i64>,
    /// A kubeconfig: audit events are sent to its server. Default none.
    pub audit_webhook_config_file: Option<String>,
    /// Time before a batch of audit events is sent again after the first failure.
    /// Duration, default `10s`.
    pub audit_webhook_initial_backoff: Option<String>,
    /// Audit events that may wait to be sent, half of them of one caller. Default
    /// 10000.
    pub audit_webhook_batch_buffer_size: Option<i64>,
    /// Audit events in a batch. Default 400.
    pub audit_webhook_batch_max_size: Option<i64>,
    /// Time before a batch that is not full is sent. Duration, default `30s`.
    pub audit_webhook_batch_max_wait: Option<String>,
    /// Limit the rate of batches. Default true.
    pub audit_webhook_batch_throttle_enable: Option<bool>,
    /// Batches per second. Default 10.
    #[serde(rename = "auditWebhookBatchThrottleQPS")]
    pub audit_webhook_batch_throttle_qps: Option<f64>,
    /// Batches at the same moment after a pause. Default 15.
    pub audit_webhook_batch_throttle_burst: Option<i64>,
    /// Leave the objects out of large audit events, and split large batches. Default
    /// false.
    pub audit_webhook_truncate_enabled: Option<bool>,
    /// The most bytes of a sent audit event that keeps its objects. Default
    /// 102400.
    pub audit_webhook_truncate_max_event_size: Option<i64>,
    /// The most bytes of a batch that is not split. Default 10485760.
    pub audit_webhook_truncate_max_batch_size: Option<i64>,
    /// An `apiserver.config.k8s.io/v1` TracingConfiguration, as kube-apiserver reads it.
    /// Default none: no spans.
    pub tracing_config_file: Option<String>,
    /// Show metrics hidden since this version (`1.36`). Default empty.
    pub show_hidden_metrics_for_version: Option<String>,
}

/// The log on standard error.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Logging {
    /// `text` or `json`. Default `text`.
    pub format: Option<String>,
    /// 0 logs events of the process, 2 also every request, 4 is debug, 6 trace.
    /// Default 0.
    pub verbosity: Option<i64>,
}

/// The API servers behind apifront: `kubeconfig` or `servers`, not both.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Upstream {
    /// A kubeconfig file.
    pub kubeconfig: Option<String>,
    /// The kubeconfig's context. Default: its current-context.
    pub context: Option<String>,
    /// URLs of API servers of one cluster: `https://10.0.0.1:6443`.
    pub servers: Option<Vec<String>>,
    /// PEM file: CAs that sign `servers`' certificates. Default: the CA of the
    /// pod's service account if there is one.
    pub ca_file: Option<String>,
    /// PEM file: client certificate for `servers`.
    pub client_cert_file: Option<String>,
    /// PEM file: private key of `clientCertFile`.
    pub client_key_file: Option<String>,
    /// Bearer token for `servers`, read again when it changes.
    pub token_file: Option<String>,
    /// Time between `/readyz` probes of each server. Duration, default `10s`.
    pub health_check_interval: Option<String>,
    /// Time to connect, TLS included. Duration, default `5s`.
    pub connect_timeout: Option<String>,
    /// Time for a request that is neither a watch nor a stream. Duration,
    /// default `60s`.
    pub request_timeout: Option<String>,
}

/// Authentication of callers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Authentication {
    /// PEM file: CAs of client certificates. Default none.
    #[serde(rename = "clientCAFile")]
    pub client_ca_file: Option<String>,
    pub token_review: TokenReview,
    pub request_header: RequestHeader,
    pub anonymous: Anonymous,
}

/// Authentication by bearer tokens, which the upstream reviews.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TokenReview {
    /// Default true.
    pub enabled: Option<bool>,
    /// Time for which a good token is remembered, at most until its own expiry.
    /// Duration, default `10s`.
    #[serde(rename = "successTTL")]
    pub success_ttl: Option<String>,
    /// Time for which a bad token is remembered. Duration, default `10s`.
    #[serde(rename = "failureTTL")]
    pub failure_ttl: Option<String>,
}

/// A trusted proxy in front of apifront that names the user in headers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestHeader {
    /// PEM file: CAs of that proxy's client certificate. Default none, and no
    /// proxy is trusted.
    #[serde(rename = "clientCAFile")]
    pub client_ca_file: Option<String>,
    /// Common names that the proxy may have. Default empty: any name that the
    /// CA signed.
    pub allowed_names: Option<Vec<String>>,
    /// Default `[X-Remote-User]`.
    pub username_headers: Option<Vec<String>>,
    /// Default `[X-Remote-Uid]`.
    pub uid_headers: Option<Vec<String>>,
    /// Default `[X-Remote-Group]`.
    pub group_headers: Option<Vec<String>>,
    /// Default `[X-Remote-Extra-]`.
    pub extra_headers_prefixes: Option<Vec<String>>,
}

/// Callers without credentials.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Anonymous {
    /// Accept them as `system:anonymous`. Default false.
    pub enabled: Option<bool>,
}

/// Authorization of callers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Authorization {
    pub subject_access_review: SubjectAccessReview,
    /// Whether RBAC objects in the cache may allow requests without a
    /// SubjectAccessReview: `Disabled` or `Allow`. Default `Disabled`.
    #[serde(rename = "cachedRBAC")]
    pub cached_rbac: Option<String>,
    /// State of the upstream's feature gate `ConstrainedImpersonation`: `Auto`,
    /// `Enabled` or `Disabled`. Default `Auto`: on from release 1.36.
    pub constrained_impersonation: Option<String>,
}

/// Decisions, which the upstream makes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SubjectAccessReview {
    /// Time for which an allowance is remembered. Duration, default `10s`.
    #[serde(rename = "allowTTL")]
    pub allow_ttl: Option<String>,
    /// Time for which a denial is remembered. Duration, default `10s`.
    #[serde(rename = "denyTTL")]
    pub deny_ttl: Option<String>,
}

/// The way in which the upstream learns the user of a forwarded request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Identity {
    /// `RequestHeader`, `Impersonate` or `PassThrough`. Default `RequestHeader`.
    pub mode: Option<String>,
    /// PEM file: client certificate that the upstream trusts as a front proxy.
    /// Needed by `RequestHeader`.
    pub proxy_client_cert_file: Option<String>,
    /// PEM file: private key of `proxyClientCertFile`.
    pub proxy_client_key_file: Option<String>,
}

/// The resources that are served from memory, and how fresh they must be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cache {
    /// `Serve` answers reads from memory. `Shadow` forwards every read, and
    /// compares upstream's answer with the one from memory for a sample of
    /// them. Default `Serve`.
    pub mode: Option<String>,
    /// The resources with another mode. The first that names a resource counts.
    /// Default none.
    pub resource_modes: Option<Vec<ResourceMode>>,
    /// The comparisons of the mode `Shadow`.
    pub shadow: Shadow,
    /// `Strict`, `Fresh` or `Bounded`, for reads without a resourceVersion.
    /// Default `Strict`.
    pub consistency: Option<String>,
    /// `Upstream` or `Always`, for lists and watches with a `shardSelector`.
    /// Default `Upstream`.
    pub sharded_list_and_watch: Option<String>,
    /// `Upstream` or `Always`, for reads with `drop=metadata.managedFields` in their
    /// Accept header. Default `Upstream`.
    pub drop_managed_fields: Option<String>,
    /// Age of the last proof of freshness after which the cache stops
    /// answering. Duration, default `30s`.
    pub max_staleness: Option<String>,
    /// A resource that nobody read or watched for this long is dropped, and
    /// cached again when it is asked for; 0 for never. Duration, default `30m`.
    pub idle_timeout: Option<String>,
    /// The comparison of the cache with upstream.
    pub self_check: SelfCheck,
    /// Memory for the cached objects and everything kept with them, as a
    /// Kubernetes quantity (`2Gi`); 0 for no limit. Default: two fifths of the
    /// container's memory, or of the machine's.
    pub memory_limit: Option<Quantity>,
    /// Resources that may be cached: `pods`, `deployments.apps`,
    /// `deployments.v1.apps`, `*.apps`, `*`. Default `["*"]`.
    pub include: Option<Vec<String>>,
    /// Resources that may not be cached, whatever `include` says. Default
    /// `["events"]`.
    pub exclude: Option<Vec<String>>,
    /// Resources of extension API servers (behind an APIService of the cluster, or
    /// of `aggregation`) that may be cached: their server shows every caller who
    /// may list all objects the same ones, in one order, and a list of a namespace
    /// is a part of the list of all. Default none: such servers may answer each
    /// caller differently.
    pub aggregated: Option<Vec<String>>,
    /// Resources read before `/readyz` succeeds; no `*`. Default none.
    pub preload: Option<Vec<String>>,
    /// The reads that go on while no API server can be reached.
    pub degraded: Degraded,
    /// Directory in which cached resources outlive the process. Only its owner
    /// may write to it. Default none: nothing is saved.
    pub directory: Option<String>,
    /// The way in which resources are saved in `directory`.
    pub persistence: Persistence,
}

/// The mode of some resources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResourceMode {
    /// Patterns as in `include`.
    pub resources: Option<Vec<String>>,
    /// `Serve` or `Shadow`.
    pub mode: Option<String>,
}

/// How much is compared in the mode `Shadow`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Shadow {
    /// Reads and watches that are compared, of each million. Default 100000.
    pub sampling_rate_per_million: Option<i64>,
    /// Bytes of upstream's answers that are held at a time for comparison, as a
    /// Kubernetes quantity. Default `128Mi`.
    pub max_held_bytes: Option<Quantity>,
}

/// The reads that are answered from the last known state while no API server
/// can be reached, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Degraded {
    /// The reads and their callers. Default none, which turns the mode off.
    pub reads: Option<Vec<DegradedReads>>,
    /// Time without any API server after which the mode begins. Duration of at
    /// least `2s`, default `5s`.
    pub after: Option<String>,
    /// Age of the last proof that a resource was as upstream, beyond which
    /// reads fail as without the mode. Duration, not less than `maxStaleness`;
    /// needed with `reads`.
    pub max_age: Option<String>,
    /// `Cached`: rights are those that upstream confirmed within `maxAge`.
    /// `RBAC`: RBAC objects in memory are evaluated here, and nothing else.
    /// Default `Cached`.
    pub authorization: Option<String>,
}

/// Resources, and the callers who may read them in degraded mode.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DegradedReads {
    /// Resources, as in `include`. `secrets` must be named; no `*` means them.
    /// Those that are named one by one are preloaded. Needed.
    pub resources: Option<Vec<String>>,
    /// Groups whose members may read them; `*` is everybody. Default none.
    pub groups: Option<Vec<String>>,
    /// Users who may read them. Default none.
    pub users: Option<Vec<String>>,
}

/// The way in which cached resources are saved.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Persistence {
    /// Time between two saves of a resource that changes. All are saved when
    /// the process stops. Duration, default `1m`, at least `1s`.
    pub interval: Option<String>,
    /// File with a key of 32 bytes, as they are or in base64, with which the
    /// files are encrypted. Default none: they have checksums.
    pub encryption_key_file: Option<String>,
    /// Resources that are not saved, as in `exclude`. A key is needed if
    /// secrets are not among them. Default `["secrets"]`.
    pub exclude: Option<Vec<String>>,
}

/// The comparison of the cache with upstream's list of the same version, byte
/// by byte.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SelfCheck {
    /// Time between two comparisons of each cached resource. Each costs
    /// upstream a whole list. 0 for never. Duration, default `0s`.
    pub interval: Option<String>,
}

/// The order of the requests in flight, and the limits of those that are
/// forwarded. Watches count until their initial events are sent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Flow {
    /// Whether the cluster's FlowSchemas and PriorityLevelConfigurations decide
    /// which requests wait, as with kube-apiserver's
    /// `--enable-priority-and-fairness`. Otherwise `serving.maxRequestsInflight`
    /// and `serving.maxMutatingRequestsInflight` refuse what exceeds them.
    /// Default true.
    pub enable_priority_and_fairness: Option<bool>,
    /// The longest time for which a request waits before it is refused. A
    /// request that names a timeout waits for a quarter of that at most.
    /// Duration, default `15s`.
    pub queue_wait: Option<String>,
    /// Forwarded requests that upstream has not answered yet, 0 for no limit.
    /// Default 4000.
    pub forwarded_limit: Option<i64>,
    /// Such requests of one user. Default 1000.
    pub user_forwarded_limit: Option<i64>,
    /// Forwarded requests that stay open at a time: watches and logs that the
    /// cache does not answer, exec, attach, port-forward and proxies.
    /// `system:masters` is not exempt. 0 for no limit. Default 10000.
    pub long_running_limit: Option<i64>,
    /// Forwarded requests of one user that stay open at a time. Default 1000.
    pub user_long_running_limit: Option<i64>,
}

/// Lists and watches over all namespaces for callers who may only read some of
/// them: each sees the objects that they may read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Views {
    /// Users who get a view instead of a 403; `*` is everybody. Default none.
    pub users: Option<Vec<String>>,
    /// Groups whose members get one; `*` is everybody. Default none.
    pub groups: Option<Vec<String>>,
    /// Whether everybody gets one who asks with `X-Apifront-View: true`.
    /// Default false.
    pub request_header: Option<bool>,
    /// Age of a SubjectAccessReview after which it is asked again while a watch
    /// uses it. Duration of at least `1s`, default `5m`.
    #[serde(rename = "reviewTTL")]
    pub review_ttl: Option<String>,
    /// Views that are kept at a time: one for each user, resource and verb.
    /// Default 2000.
    pub max_views: Option<i64>,
    /// Namespaces and single names of one view. Default 1000.
    pub max_grants_per_view: Option<i64>,
    /// Single names of one view in one namespace. More are left out. Default 100.
    pub max_names_per_namespace: Option<i64>,
}

/// A rule about the shape in which some reads are answered. The first rule that names
/// a read decides. A rule names the reads that fit everything it lists.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ShapeRule {
    /// A unique name, which metrics and reports show.
    pub name: Option<String>,
    /// Users whose reads it names; `*` is everybody. Default: groups and userAgents
    /// decide.
    pub users: Option<Vec<String>>,
    /// Groups whose members' reads it names; `*` is everybody.
    pub groups: Option<Vec<String>>,
    /// Beginnings of the User-Agent headers of the reads: `kube-state-metrics/`.
    /// Default: all.
    pub user_agents: Option<Vec<String>>,
    /// The resources: `pods`, `deployments.apps`, `*.apps` or `*`. Default `[*]`.
    pub resources: Option<Vec<String>>,
    /// `Drop` or `Keep`: whether answers lack `metadata.managedFields`.
    pub managed_fields: Option<String>,
}

/// Extension API groups.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Aggregation {
    /// Files with APIService manifests; names may contain `*`. Default none.
    pub api_services: Option<Vec<String>>,
    /// The servers of services. Default: each service is reached by its name,
    /// as in a cluster.
    pub backends: Option<Vec<Backend>>,
}

/// The servers of one service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Backend {
    /// `spec.service.name` of the APIService.
    pub name: Option<String>,
    /// `spec.service.namespace` of the APIService.
    pub namespace: Option<String>,
    /// URLs, which are used in turn: `https://127.0.0.1:8444`. Default:
    /// `https://NAME.NAMESPACE.svc:PORT`.
    pub servers: Option<Vec<String>>,
    /// The name in the servers' certificates. Default `NAME.NAMESPACE.svc`.
    pub server_name: Option<String>,
    /// Time between probes of each server. Duration, default `10s`.
    pub health_check_interval: Option<String>,
    /// Time to connect, TLS included. Duration, default `5s`.
    pub connect_timeout: Option<String>,
    /// Time for a request that is neither a watch nor a stream. Duration,
    /// default `60s`.
    pub request_timeout: Option<String>,
    /// Requests forwarded at a time, without watches and streams; further ones
    /// get 429. A user may have as many as stay free: half, if nobody else has any.
    /// 0 for no limit. Default 0.
    pub max_requests_inflight: Option<i64>,
    pub outlier_detection: OutlierDetection,
}

/// A server that answers with errors gets no requests for a while, as long as
/// other servers can be asked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OutlierDetection {
    /// Answers of 500 and above in a row before a server gets no requests; 0
    /// for never. Default 5.
    pub consecutive_errors: Option<i64>,
    /// Time for which the server gets none. Duration, default `30s`.
    pub ejection_time: Option<String>,
}

/// The APIs that are hidden, and those that are answered with a warning.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Apis {
    /// `group/version: false` hides that version, `group/version/resource:
    /// false` a resource. `api/all`, `api/ga`, `api/beta` and `api/alpha` mean
    /// all such versions of Kubernetes' own groups. Default empty.
    pub runtime_config: Option<BTreeMap<String, bool>>,
    /// Deprecated versions in addition to those that upstream names. Default
    /// none.
    pub deprecations: Option<Vec<Deprecation>>,
}

/// The API group `query.apifront.dev`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Queries {
    /// Whether apifront answers for the group. Default false.
    pub enabled: Option<bool>,
}

/// One deprecated kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Deprecation {
    /// `batch/v1beta1`.
    pub group_version: Option<String>,
    /// `CronJob`. Default: every kind of the version.
    pub kind: Option<String>,
    /// `1.21`.
    pub deprecated: Option<String>,
    /// `1.25`.
    pub removed: Option<String>,
    /// The API to use instead: `batch/v1 CronJob`.
    pub replacement: Option<String>,
}

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FrontConfiguration {
    /// `apifront.dev/v1alpha1`.
    pub api_version: Option<String>,
    /// `FrontConfiguration`.
    pub kind: Option<String>,
    pub serving: Serving,
    pub observability: Observability,
    pub logging: Logging,
    pub upstream: Upstream,
    pub authentication: Authentication,
    pub authorization: Authorization,
    pub identity: Identity,
    pub flow: Flow,
    pub cache: Cache,
    pub views: Views,
    pub shapes: Vec<ShapeRule>,
    pub queries: Queries,
    pub aggregation: Aggregation,
    pub apis: Apis,
}
