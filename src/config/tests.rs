//! Tests of the configuration as users see it: files, flags, errors, reload.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apifront_watch_cache::MemoryLimit;
use clap::Parser;
use kubernetes_wire::api::UserInfo;
use prometheus::Registry;
use tempfile::TempDir;

use super::*;
use crate::authz::DegradedAuthorization;
use crate::authz::rbac::RBAC;

const MINIMAL: &str = include_str!("../../config/minimal.yaml");

fn shipped(name: &str) -> PathBuf {
    Path::new(".").join("config").join(name)
}

fn load(args: &[&str]) -> Result<Config, ConfigErrors> {
    load_with(Demo::Included, args)
}

fn load_with(demo: Demo, args: &[&str]) -> Result<Config, ConfigErrors> {
    let args = ["apifront"].iter().chain(args);
    Source::new(Flags::try_parse_from(args).unwrap(), demo).load()
}

/// Loads `text` as a file; errors come without the file's name.
fn load_text(text: &str, flags: &[&str]) -> Result<Config, Vec<String>> {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("front.yaml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    load(&[&["--config", file], flags].concat())
        .map_err(|errors| errors.errors.iter().map(ToString::to_string).collect())
}

fn minimal_with(section: &str, lines: &str) -> String {
    let header = format!("{section}:\n");
    if MINIMAL.contains(&header) {
        MINIMAL.replace(&header, &format!("{header}{lines}\n"))
    } else {
        format!("{MINIMAL}{header}{lines}\n")
    }
}

#[test]
fn the_commented_file_holds_the_defaults() {
    let all = load(&[
        "--config",
        shipped("front-configuration.yaml").to_str().unwrap(),
    ])
    .unwrap();
    let minimal = load(&["--config", shipped("minimal.yaml").to_str().unwrap()]).unwrap();
    assert_eq!(all, minimal);
    assert_eq!(all.mode(), Mode::Front);
}

#[test]
fn the_commented_file_names_every_field() {
    let text = fs::read_to_string(shipped("front-configuration.yaml")).unwrap();
    let uncommented: String = text
        .lines()
        .map(|line| {
            let example = line.trim_start().strip_prefix("# ").filter(|rest| {
                let key = rest.trim_start_matches("- ").trim_start();
                let word = key.split(':').next().unwrap_or_default();
                let ends = key.contains(": ") || key.ends_with(':');
                ends && word.chars().all(|c| c.is_ascii_alphanumeric())
            });
            match example {
                Some(example) => format!("{}\n", example.trim_start_matches("- ").trim_start()),
                None => format!("{}\n", line.trim_start()),
            }
        })
        .collect();
    let source = include_str!("raw.rs");
    let mut renamed = None;
    for line in source.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("#[serde(rename = \"") {
            renamed = name.strip_suffix("\")]");
        }
        let Some((field, kind)) = line.strip_prefix("pub ").and_then(|l| l.split_once(": ")) else {
            continue;
        };
        // Removed fields are known only to be refused.
        if field.contains(' ') || kind.contains("IgnoredAny") {
            continue;
        }
        let name = match renamed.take() {
            Some(name) => name.to_owned(),
            None => camel_case(field),
        };
        assert!(
            uncommented.contains(&format!("\n{name}:")) || uncommented.starts_with(&name),
            "{name} is missing"
        );
    }
}

fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        name.push_str(&first.to_ascii_uppercase());
        name.push_str(rest);
    }
    name
}

#[test]
fn without_the_demo_a_start_needs_a_cluster() {
    let errors = load_with(Demo::Absent, &[]).unwrap_err().to_string();
    for named in ["--kubeconfig FILE", "--config FILE", "--features demo"] {
        assert!(errors.contains(named), "{named}: {errors}");
    }
    assert_eq!(errors.lines().count(), 1, "{errors}");
    // The mistakes of other flags are told with it.
    let errors = load_with(Demo::Absent, &["--context", "c", "--v=11"]).unwrap_err();
    assert_eq!(errors.errors.len(), 3, "{errors}");

    for demo in [Demo::Included, Demo::Absent] {
        let personal = load_with(demo, &["--kubeconfig", "k"]).unwrap();
        assert_eq!(personal.mode(), Mode::Personal);
        let file = shipped("minimal.yaml");
        let front = load_with(demo, &["--config", file.to_str().unwrap()]).unwrap();
        assert_eq!(front.mode(), Mode::Front);
    }
}

#[test]
fn each_mode_listens_where_it_should() {
    let demo = load(&[]).unwrap();
    assert_eq!(demo.mode(), Mode::Demo);
    assert_eq!(demo.serving.insecure.unwrap().to_string(), "127.0.0.1:8001");
    assert_eq!(demo.serving.secure, None);
    assert_eq!(demo.observability.address, None);

    let personal = load(&[
        "--kubeconfig",
        "k",
        "--context",
        "c",
        "--insecure-port",
        "8080",
    ]);
    let personal = personal.unwrap();
    assert_eq!(personal.mode(), Mode::Personal);
    assert_eq!(
        personal.serving.insecure.unwrap().to_string(),
        "127.0.0.1:8080"
    );
    assert!(matches!(
        personal.upstream,
        Upstream::Kubeconfig { context: Some(c), .. } if c == "c"
    ));

    // Without the check, a front would start with half of what the flags ask for.
    let errors = load(&["--kubeconfig", "k", "--client-ca-file", "ca.crt"]).unwrap_err();
    assert_eq!(
        errors.to_string().lines().next().unwrap(),
        "identity.proxyClientCertFile: needed by identity.mode RequestHeader \
         (other modes are Impersonate and PassThrough)"
    );
    let front = load(&[
        "--kubeconfig=k",
        "--tls-cert-file=c",
        "--tls-private-key-file=k",
        "--proxy-client-cert-file=c",
        "--proxy-client-key-file=k",
        "--anonymous-auth",
    ])
    .unwrap();
    let headers = [
        "--requestheader-client-ca-file=c",
        "--requestheader-allowed-names=",
    ];
    let config = load_text(MINIMAL, &headers).unwrap();
    let authentication = &config.access.delegated().unwrap().authentication;
    let trusted = authentication.request_header.as_ref().unwrap();
    assert!(trusted.allowed_names.is_empty());
    assert_eq!(trusted.username_headers, ["x-remote-user"]);
    assert!(front.access.delegated().unwrap().authentication.anonymous);
}

#[test]
fn a_flag_overrides_the_file() {
    let text = minimal_with("serving", "  securePort: 7443\n  minRequestTimeout: 1h");
    let config = load_text(&text, &[]).unwrap();
    assert_eq!(config.serving.secure.unwrap().address.port(), 7443);
    assert_eq!(
        config.serving.min_request_timeout,
        Duration::from_secs(3600)
    );
    let flags = ["--secure-port=8443", "--min-request-timeout=60", "-v", "4"];
    let config = load_text(&text, &flags).unwrap();
    assert_eq!(config.serving.secure.unwrap().address.port(), 8443);
    assert_eq!(config.serving.min_request_timeout, Duration::from_secs(60));
    assert_eq!(config.logging.verbosity, 4);
}

#[test]
fn errors_name_field_value_and_what_is_allowed_all_at_once() {
    let text = minimal_with(
        "cache",
        "  consistency: Sometimes\n  shardedListAndWatch: Never\n  maxStaleness: 30\n  exclude: [events, Pods]\n  preload: ['*']",
    );
    let errors = load_text(&text, &["--secure-port=70000", "--logging-format=xml"]).unwrap_err();
    assert_eq!(
        errors,
        [
            r#"--secure-port: "70000": must be between 0 and 65535"#,
            r#"--logging-format: "xml": must be one of text, json"#,
            r#"cache.preload[0]: "*": must name one resource, without *"#,
            r#"cache.consistency: "Sometimes": must be one of Strict, Fresh, Bounded"#,
            r#"cache.shardedListAndWatch: "Never": must be one of Upstream, Always"#,
            r#"cache.maxStaleness: "30": must be a duration like 2m, 10s, 1h30m or 500ms"#,
            r#"cache.exclude[1]: "Pods": must be like pods, deployments.apps, deployments.v1.apps, *.apps or *"#,
        ]
    );
}

#[test]
fn resources_may_be_in_shadow_mode() {
    use apifront_watch_cache::CacheMode::{Serve, Shadow};
    use kubernetes_wire::api::GroupVersionResource;

    let cache = |lines: &str| load_text(&minimal_with("cache", lines), &[]).map(|c| c.cache);
    let pods = GroupVersionResource::new("", "v1", "pods");
    let nodes = GroupVersionResource::new("", "v1", "nodes");
    let modes = "  mode: Shadow\n  resourceModes:\n  - {resources: [pods], mode: Serve}\n  \
                 - {resources: ['*'], mode: Shadow}";
    let shadow = cache(modes).unwrap();
    assert_eq!(shadow.modes.of(&pods), Serve);
    assert_eq!(shadow.modes.of(&nodes), Shadow);
    assert_eq!(shadow.self_check_interval, Duration::from_secs(600));
    let off = cache("  mode: Shadow\n  selfCheck: {interval: 0s}").unwrap();
    assert_eq!(off.self_check_interval, Duration::ZERO);
    let none = cache("  resourceModes: []").unwrap();
    assert_eq!(none.modes.of(&pods), Serve);
    assert_eq!(none.self_check_interval, Duration::ZERO);

    let wrong = "  mode: Mirror\n  resourceModes:\n  - {mode: Serve}\n  - {resources: [Pods]}\n  \
                 shadow: {samplingRatePerMillion: 2000000, maxHeldBytes: 1Ki}";
    assert_eq!(
        cache(wrong).unwrap_err(),
        [
            r#"cache.mode: "Mirror": must be one of Serve, Shadow"#,
            "cache.resourceModes[0].resources: must name a resource",
            r#"cache.resourceModes[1].resources[0]: "Pods": must be like pods, deployments.apps, deployments.v1.apps, *.apps or *"#,
            "cache.resourceModes[1].mode: needed: Serve or Shadow",
            r#"cache.shadow.samplingRatePerMillion: "2000000": must be between 0 and 1000000"#,
            r#"cache.shadow.maxHeldBytes: "1Ki": must be at least 4Mi"#,
        ]
    );
}

#[test]
fn removed_limits_name_what_replaces_them() {
    let flow = "  userConcurrencyLimit: 100\n  groupConcurrencyLimits: {staff: 3}\n  \
                queueLengthLimit: 5\n  queueWait: 2s";
    let removed = load_text(&minimal_with("flow", flow), &[]).unwrap_err();
    assert_eq!(
        removed,
        [
            "flow.userConcurrencyLimit: was removed: a FlowSchema with distinguisherMethod ByUser \
             keeps users apart",
            "flow.groupConcurrencyLimits: was removed: a FlowSchema for the group chooses a \
             PriorityLevelConfiguration",
            "flow.queueLengthLimit: was removed: a PriorityLevelConfiguration has its own \
             queueLengthLimit",
        ]
    );
}

#[test]
fn there_are_seats_to_share() {
    let none = [
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
    ];
    let errors = load_text(MINIMAL, &none).unwrap_err();
    assert_eq!(
        errors,
        [
            "--max-requests-inflight: \"0\": must not be 0 together with \
             maxMutatingRequestsInflight while flow.enablePriorityAndFairness is true"
        ]
    );
    let without = [none[0], none[1], "--enable-priority-and-fairness=false"];
    let config = load_text(MINIMAL, &without).unwrap();
    assert!(!config.flow.enable_priority_and_fairness);
    assert_eq!(config.cache.pinned.len(), 1);
    let config = load_text(MINIMAL, &none[..1]).unwrap();
    assert_eq!(config.flow.in_flight.total_seats(), 200);
    let pinned: Vec<_> = config
        .cache
        .pinned
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        pinned,
        [
            "flowschemas.v1.flowcontrol.apiserver.k8s.io",
            "prioritylevelconfigurations.v1.flowcontrol.apiserver.k8s.io",
            "apiservices.v1.apiregistration.k8s.io",
        ]
    );
}

#[test]
fn impersonation_follows_upstreams_feature_gate() {
    use crate::authz::ConstrainedImpersonation::{Auto, Disabled, Enabled};
    for (value, expected) in [("Auto", Auto), ("Enabled", Enabled), ("Disabled", Disabled)] {
        let line = format!("  constrainedImpersonation: {value}");
        let config = load_text(&minimal_with("authorization", &line), &[]).unwrap();
        let authorization = config.access.delegated().unwrap().authorization;
        assert_eq!(authorization.constrained_impersonation, expected);
    }
    let text = minimal_with("authorization", "  constrainedImpersonation: on");
    let errors = load_text(&text, &[]).unwrap_err();
    assert_eq!(
        errors,
        [r#"authorization.constrainedImpersonation: "on": must be one of Auto, Enabled, Disabled"#]
    );
}

/// Revoked tokens once worked for two minutes.
#[test]
fn tokens_are_believed_as_long_as_by_other_delegating_servers() {
    let review = |config: Config| {
        let review = config
            .access
            .delegated()
            .unwrap()
            .authentication
            .token_review;
        review.unwrap()
    };
    let default = review(load_text(MINIMAL, &[]).unwrap());
    assert_eq!(default.success_ttl, Duration::from_secs(10));
    assert_eq!(default.failure_ttl, Duration::from_secs(10));
    let flag = ["--authentication-token-webhook-cache-ttl=2m"];
    let longer = review(load_text(MINIMAL, &flag).unwrap());
    assert_eq!(longer.success_ttl, Duration::from_secs(120));
}

#[test]
fn degraded_mode_says_what_it_lacks() {
    let degraded = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| format!("    {line}")).collect();
        let text = format!("  degraded:\n{}", lines.join("\n"));
        load_text(&minimal_with("cache", &text), &[])
    };
    let pods = "reads: [{resources: [pods], groups: [system:nodes]}]";
    let config = degraded(&[pods, "maxAge: 10m", "authorization: RBAC"]).unwrap();
    let preloaded: Vec<String> = config.cache.preload.iter().map(|p| p.to_string()).collect();
    assert_eq!(preloaded[0], "pods");
    assert_eq!(preloaded[1..], RBAC);
    let of_this = config.degraded.unwrap();
    assert_eq!(of_this.after, Duration::from_secs(5));
    assert_eq!(of_this.bounds.max_age, Duration::from_secs(600));
    assert_eq!(of_this.bounds.authorization, DegradedAuthorization::Rbac);
    assert_eq!(degraded(&["maxAge: 1s"]).unwrap().degraded, None);
    let not_excluded = ["reads: [{resources: [events], users: [a]}]", "maxAge: 10m"];
    for (lines, expected) in [
        (&[pods][..], "cache.degraded.maxAge: needed with reads"),
        (
            &[pods, "maxAge: 29s"],
            "cache.degraded.maxAge: \"29s\": must not be less than cache.maxStaleness",
        ),
        (
            &[pods, "maxAge: 10m", "after: 1s"],
            "cache.degraded.after: \"1s\": must be at least 2s",
        ),
        (
            &[pods, "maxAge: 10m", "authorization: Nobody"],
            "cache.degraded.authorization: \"Nobody\": must be one of Cached, RBAC",
        ),
        (
            &["reads: [{resources: [pods]}]", "maxAge: 10m"],
            "cache.degraded.reads[0].groups: needed, or users; * is everybody",
        ),
        (
            &["reads: [{resources: [pods], users: ['']}]", "maxAge: 10m"],
            "cache.degraded.reads[0]: a group or a user must not be empty",
        ),
        (
            &["reads: [{groups: [a]}]", "maxAge: 10m"],
            "cache.degraded.reads[0].resources: needed",
        ),
        (
            &["reads: [{resources: [Pods], groups: [a]}]", "maxAge: 10m"],
            "cache.degraded.reads[0].resources[0]: \"Pods\": must be like pods, \
             deployments.apps, deployments.v1.apps, *.apps or *",
        ),
        (
            &not_excluded,
            "cache.degraded.reads[0].resources: \"events\": is excluded from the cache",
        ),
    ] {
        assert_eq!(degraded(lines).unwrap_err(), [expected], "{lines:?}");
    }
    let excluded = "  exclude: ['*.rbac.authorization.k8s.io']\n  degraded: \
                    {maxAge: 10m, authorization: RBAC, reads: [{resources: [pods], users: [a]}]}";
    let errors = load_text(&minimal_with("cache", excluded), &[]).unwrap_err();
    assert_eq!(errors.len(), 4, "{errors:?}");
}

#[test]
fn views_are_for_those_who_are_named() {
    let views = |lines: &str| {
        let text = minimal_with("views", lines);
        load_text(&text, &[]).map(|config| (config.views, config.cache.preload))
    };
    let (none, preload) = views("  reviewTTL: 1m").unwrap();
    assert_eq!((none, preload.len()), (None, 0));
    let (some, preload) = views("  users: [ann]\n  groups: [tenants]").unwrap();
    let some = some.unwrap();
    let preloaded: Vec<String> = preload.iter().map(|p| p.to_string()).collect();
    assert_eq!(preloaded, RBAC);
    assert_eq!(some.review_ttl, Duration::from_secs(300));
    assert_eq!(
        (some.max_views, some.max_grants, some.max_names),
        (2_000, 1_000, 100)
    );
    for (name, groups, expected) in [
        ("ann", &[][..], true),
        ("bob", &["others", "tenants"], true),
        ("bob", &["others"], false),
        ("tenants", &["ann"], false),
    ] {
        let user = UserInfo {
            name: name.to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..UserInfo::default()
        };
        assert_eq!(some.callers.names(&user), expected, "{name} {groups:?}");
    }
    let (by_header, _) = views("  requestHeader: true").unwrap();
    assert!(by_header.is_some_and(|views| views.callers.request_header));
    for (lines, expected) in [
        (
            "  users: [a]\n  reviewTTL: 999ms",
            "views.reviewTTL: \"999ms\": must be at least 1s",
        ),
        (
            "  users: ['']",
            "views: a group or a user must not be empty",
        ),
        (
            "  users: [a]\n  maxViews: 0",
            "views.maxViews: \"0\": must be between 1 and 100000",
        ),
        (
            "  users: [a]\n  maxGrantsPerView: 10001",
            "views.maxGrantsPerView: \"10001\": must be between 1 and 10000",
        ),
        (
            "  users: [a]\n  maxNamesPerNamespace: -1",
            "views.maxNamesPerNamespace: \"-1\": must be between 0 and 10000",
        ),
    ] {
        assert_eq!(views(lines).unwrap_err(), [expected], "{lines}");
    }
    let excluded = "  exclude: ['roles.rbac.authorization.k8s.io']\nviews:\n  users: [a]";
    assert_eq!(
        load_text(&minimal_with("cache", excluded), &[]).unwrap_err(),
        [
            "views: \"roles.v1.rbac.authorization.k8s.io\": RBAC needs resources that are excluded from the cache"
        ]
    );
}

#[test]
fn contradictions_are_refused() {
    let base = "apiVersion: apifront.dev/v1alpha1\nkind: FrontConfiguration\n";
    let rest = "serving: {securePort: 0, insecurePort: 8001}\nidentity: {mode: Impersonate}\n";
    for (text, expected) in [
        ("upstream: {}\n", "upstream: needs kubeconfig or servers"),
        (
            "upstream: {kubeconfig: k, servers: ['https://a']}\n",
            "upstream.kubeconfig: \"k\": cannot be combined with upstream.servers",
        ),
        (
            "upstream: {kubeconfig: k, tokenFile: t}\n",
            "upstream.tokenFile: \"t\": belongs to upstream.servers; a kubeconfig has its own",
        ),
        (
            "upstream: {servers: ['http://10.0.0.1:6443']}\n",
            "upstream.servers[0]: \"http://10.0.0.1:6443\": must be https; plain http only to a \
             loopback address",
        ),
        (
            "upstream: {servers: ['https://a/path']}\n",
            "upstream.servers[0]: \"https://a/path\": must have neither path nor query",
        ),
        (
            "upstream: {servers: ['https://a'], clientCertFile: c}\n",
            "upstream.clientKeyFile: needed with upstream.clientCertFile",
        ),
        (
            "upstream: {kubeconfig: k}\nauthentication: {tokenReview: {enabled: false}}\n",
            "authentication: nobody could log in: set clientCAFile, tokenReview, requestHeader or \
             anonymous",
        ),
        (
            "upstream: {kubeconfig: k}\nobservability: {bindAddress: 0.0.0.0}\n",
            "observability.bindAddress: \"0.0.0.0\": must be a loopback address, this port is \
             plain HTTP without authentication; /metrics and the health paths are on the secure \
             port too",
        ),
    ] {
        let errors = load_text(&format!("{base}{rest}{text}"), &[]).unwrap_err();
        assert!(errors.iter().any(|e| e == expected), "{text}: {errors:?}");
    }
    let errors = load_text(&format!("{base}upstream: {{kubeconfig: k}}\n"), &[]).unwrap_err();
    assert!(errors.iter().any(|e| {
        e == "serving.tlsCertFile: needed to serve HTTPS on port 6443 \
              (serving.securePort: 0 turns it off)"
    }));
    let pass = minimal_with("authentication", "  clientCAFile: ca.crt")
        .replace("identity:\n", "identity:\n  mode: PassThrough\n");
    let errors = load_text(&pass, &[]).unwrap_err();
    assert!(
        errors
            .iter()
            .any(|e| e.starts_with("authentication.clientCAFile: \"ca.crt\": "))
    );
}

#[test]
fn hidden_metrics_are_shown_for_the_previous_release_alone() {
    for (version, expected) in [
        ("", Ok(false)),
        ("1.36", Ok(true)),
        ("1.37", Err(())),
        ("1.35", Err(())),
        ("x", Err(())),
    ] {
        let line = format!("  showHiddenMetricsForVersion: '{version}'");
        let loaded = load_text(&minimal_with("observability", &line), &[]);
        let shown = loaded.map(|c| c.observability.show_hidden_metrics);
        assert_eq!(shown.map_err(drop), expected, "{version}");
    }
    let flag = "--show-hidden-metrics-for-version=1.35";
    let errors = load_text(&minimal_with("logging", "  format: text"), &[flag]).unwrap_err();
    assert!(
        errors[0].contains("must be omitted or have the value \"1.36\""),
        "{errors:?}"
    );
}

#[test]
fn the_flag_takes_the_place_of_the_runtime_config() {
    let text = minimal_with("apis", "  runtimeConfig: {batch/v1: false}");
    let version = |text: &str| kubernetes_wire::api::GroupVersion::parse(text).unwrap();
    let config = load_text(&text, &[]).unwrap().apis.runtime_config;
    assert!(!config.is_enabled(&version("batch/v1")));
    let flag = "--runtime-config=apps/v1=false, policy/v1=false,,v1";
    let config = load_text(&text, &[flag]).unwrap().apis.runtime_config;
    let enabled =
        ["batch/v1", "apps/v1", "policy/v1", "v1"].map(|v| config.is_enabled(&version(v)));
    assert_eq!(enabled, [true, false, false, true]);
    assert_eq!(
        load_text(&text, &["--runtime-config", "api/beta=true,a/b/c/d=true"])
            .unwrap_err()
            .len(),
        1
    );
    assert!(Flags::try_parse_from(["apifront", "--runtime-config=v1=maybe"]).is_err());
}

#[test]
fn an_audit_policy_makes_the_other_keys_count() {
    let load = |keys: &str, flags: &[&str]| {
        load_text(&minimal_with("observability", keys), flags).map(|c| {
            let files = c.files();
            (c.observability.audit, files)
        })
    };
    let (audit, _) = load("  auditLogPath: a.log", &[]).unwrap();
    assert_eq!(audit, None);
    let (audit, files) = load("  auditPolicyFile: p.yaml", &[]).unwrap();
    let audit = audit.unwrap();
    let log = audit.log.unwrap();
    assert_eq!(log.path.as_os_str(), "-");
    assert_eq!(log.rotation.max_bytes, Some(100 << 20));
    assert!(files.contains(&"p.yaml".into()));
    let keys = "  auditPolicyFile: p.yaml\n  auditLogPath: ''\n  auditWebhookConfigFile: w.yaml";
    let flags = [
        "--audit-webhook-batch-max-size=7",
        "--audit-webhook-truncate-enabled",
    ];
    let (audit, files) = load(keys, &flags).unwrap();
    let audit = audit.unwrap();
    assert_eq!(audit.log, None);
    let webhook = audit.webhook.unwrap();
    assert_eq!(webhook.max_batch_events, 7);
    assert!(webhook.truncate.is_some() && webhook.throttle.is_some());
    assert!(files.contains(&"w.yaml".into()));
    for (keys, expected) in [
        (
            "  auditWebhookBatchThrottleQPS: 0",
            "observability.auditWebhookBatchThrottleQPS: \"0\": must be more than 0",
        ),
        (
            "  auditLogMaxSize: -1",
            "observability.auditLogMaxSize: \"-1\": must be between 0 and 1048576",
        ),
        (
            "  auditWebhookTruncateMaxBatchSize: 1",
            "observability.auditWebhookTruncateMaxBatchSize: \"1\": must not be less than \
             observability.auditWebhookTruncateMaxEventSize",
        ),
    ] {
        assert_eq!(load(keys, &[]).unwrap_err(), [expected]);
    }
}

#[test]
fn a_limit_of_memory_is_a_quantity() {
    let load = |limit: &str| {
        let text = minimal_with("cache", &format!("  memoryLimit: {limit}"));
        load_text(&text, &[]).map(|config| config.cache.memory_limit)
    };
    for (limit, expected) in [
        ("0", MemoryLimit::Unlimited),
        ("~", MemoryLimit::Automatic),
        ("1000", MemoryLimit::Bytes(1000)),
        ("2Gi", MemoryLimit::Bytes(2 << 30)),
    ] {
        assert_eq!(load(limit), Ok(expected), "{limit}");
    }
    assert_eq!(
        load("-1").unwrap_err(),
        ["cache.memoryLimit: \"-1\": must be bytes like 512Mi, 2Gi or 1000000000"]
    );
}

#[test]
fn a_document_that_does_not_fit_is_explained_field_by_field() {
    let text = minimal_with("cache", "  consistancy: Strict").replace(
        "serving:\n",
        "upsteam: {a: 1, b: 2}\nserving:\n  securePort: many\n",
    );
    assert_eq!(
        load_text(&text, &[]).unwrap_err(),
        [
            "cache.consistancy: unknown field `consistancy`, expected one of `mode`, \
             `resourceModes`, `shadow`, `consistency`, `shardedListAndWatch`, `maxStaleness`, `idleTimeout`, `selfCheck`, `memoryLimit`, \
             `include`, `exclude`, `aggregated`, `preload`, `degraded`, `directory`, `persistence`",
            "serving.securePort: \"many\": invalid type: string \"many\", expected i64",
            "upsteam: unknown field `upsteam`, expected one of `apiVersion`, `kind`, `serving`, \
             `observability`, `logging`, `upstream`, `authentication`, `authorization`, \
             `identity`, `flow`, `cache`, `views`, `aggregation`, `apis`",
        ]
    );
    let one = minimal_with("authentication", "  tokenReview:\n    enabled: yes");
    assert_eq!(
        load_text(&one, &[]).unwrap_err(),
        [
            "authentication.tokenReview.enabled: \"yes\": invalid type: string \"yes\", \
             expected a boolean (line 15, column 14)"
        ]
    );
    // A section may be left empty.
    assert!(load_text(&minimal_with("cache", "  preload:\n"), &[]).is_ok());
    assert!(load_text(&format!("{MINIMAL}cache:\n"), &[]).is_ok());
    for (text, part) in [
        ("a: [", "line"),
        ("", "apiVersion: must be apifront.dev/v1alpha1"),
        ("kind: FrontConfiguration\nkind: x\n", "duplicate"),
        (
            "serving: &a {securePort: 1}\ncache: *a\n",
            "unknown field `securePort`",
        ),
    ] {
        let errors = load_text(text, &[]).unwrap_err();
        assert!(
            errors.iter().any(|e| e.contains(part)),
            "{text}: {errors:?}"
        );
    }
    let deep = format!("apis: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(load_text(&deep, &[]).is_err());
    assert!(load(&["--config", "/nonexistent"]).is_err());
}

#[test]
fn stores_are_saved_without_secrets_unless_there_is_a_key() {
    let load = |lines: &str| load_text(&minimal_with("cache", lines), &[]);
    assert_eq!(load("  idleTimeout: 1m").unwrap().cache.persistence, None);
    let saved = |lines: &str| load(lines).unwrap().cache.persistence.unwrap();
    let persistence = saved("  directory: /stores");
    assert_eq!(persistence.directory, Path::new("/stores"));
    assert_eq!(persistence.interval, Duration::from_secs(60));
    assert_eq!(persistence.encryption_key_file, None);
    assert_eq!(persistence.exclude.len(), 1);
    assert_eq!(persistence.exclude[0].to_string(), "secrets");
    let all = "  directory: /stores\n  persistence: {exclude: [], encryptionKeyFile: /key}";
    assert_eq!(saved(all).exclude, []);

    let needed = "cache.persistence.encryptionKeyFile: needed, because \
                  cache.persistence.exclude lacks secrets";
    for (lines, expected) in [
        ("directory: /s\n  persistence: {exclude: []}", needed),
        ("directory: /s\n  persistence: {exclude: [pods]}", needed),
        ("directory: ''", "cache.directory: must not be empty"),
        (
            "persistence: {interval: 5s}",
            "cache.persistence: needs cache.directory",
        ),
        (
            "directory: /s\n  persistence: {interval: 10ms}",
            "cache.persistence.interval: \"10ms\": must be at least 1s",
        ),
        (
            "directory: /s\n  persistence: {exclude: [secrets, Pods]}",
            "cache.persistence.exclude[1]: \"Pods\": must be like pods, deployments.apps, \
             deployments.v1.apps, *.apps or *",
        ),
    ] {
        assert_eq!(
            load(&format!("  {lines}")).unwrap_err(),
            [expected],
            "{lines}"
        );
    }
    for enough in ["[secrets]", "['*']", "[secrets.v1]"] {
        saved(&format!(
            "  directory: /s\n  persistence: {{exclude: {enough}}}"
        ));
    }
    let (one, other) = (
        load("  directory: /s").unwrap(),
        load("  directory: /t").unwrap(),
    );
    assert_eq!(restart_required(&one, &other), ["cache.directory"]);
}

#[test]
fn a_restart_is_asked_for_where_one_is_needed() {
    let old = load_text(MINIMAL, &[]).unwrap();
    let same = load_text(&minimal_with("logging", "  verbosity: 4"), &[]).unwrap();
    assert_eq!(restart_required(&old, &same), Vec::<&str>::new());
    let new = minimal_with(
        "serving",
        "  securePort: 7443\n  requestHeaderTimeout: 5s\n  idleTimeout: 5m\n  maxConnections: 1\n  \
         maxConnectionsPerClient: 0",
    );
    let new = load_text(&new.replace("upstream.kubeconfig", "other"), &[]).unwrap();
    assert_eq!(
        restart_required(&old, &new),
        [
            "serving.securePort",
            "serving.requestHeaderTimeout",
            "serving.idleTimeout",
            "serving.maxConnections",
            "serving.maxConnectionsPerClient",
        ]
    );
}

fn live(source: &Source) -> std::sync::Arc<LiveConfig> {
    let metrics = ReloadMetrics::register(&Registry::new()).unwrap();
    LiveConfig::new(source.load().unwrap(), metrics)
}

#[test]
fn a_bad_file_leaves_the_running_configuration() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("front.yaml");
    fs::write(&file, MINIMAL).unwrap();
    let flags = Flags::try_parse_from(["apifront", "--config", file.to_str().unwrap()]).unwrap();
    let source = Source::new(flags, Demo::Absent);
    let live = live(&source);
    let mut generation = live.subscribe();

    fs::write(&file, minimal_with("cache", "  maxStaleness: soon")).unwrap();
    assert!(live.reload(&source).is_err());
    assert_eq!(live.load().cache.max_staleness, Duration::from_secs(30));
    let error = live.last_error().unwrap();
    assert!(
        error.contains("front.yaml: cache.maxStaleness: \"soon\": "),
        "{error}"
    );
    assert!(!generation.has_changed().unwrap());

    fs::write(&file, minimal_with("cache", "  maxStaleness: 5s")).unwrap();
    assert_eq!(live.reload(&source).unwrap(), [""; 0]);
    assert_eq!(live.load().cache.max_staleness, Duration::from_secs(5));
    assert_eq!(live.last_error(), None);
    assert!(generation.has_changed().unwrap());
    generation.mark_unchanged();
}

/// Kubernetes replaces the file of a mounted ConfigMap through the symlink `..data`.
#[tokio::test]
async fn the_symlink_swap_of_a_config_map_is_noticed() {
    use std::os::unix::fs::symlink;
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (version, text) in [("..1", "old"), ("..2", "new")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("front.yaml"), text).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/front.yaml", at("front.yaml")).unwrap();
    let mut watcher = Watcher::new(vec![at("front.yaml")]).unwrap();

    // Reading the file, or a change of another file, is no change.
    fs::read(at("front.yaml")).unwrap();
    fs::write(at("other"), "x").unwrap();
    let wait = tokio::time::timeout(Duration::from_millis(600), watcher.changed());
    assert!(wait.await.is_err());

    symlink("..2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    let wait = tokio::time::timeout(Duration::from_secs(20), watcher.changed());
    wait.await.expect("the swap is noticed");
    assert_eq!(fs::read_to_string(at("front.yaml")).unwrap(), "new");
}

#[test]
fn flags_are_consistent() {
    use clap::CommandFactory;
    Flags::command().debug_assert();
    let help = Flags::command().render_long_help().to_string();
    assert!(help.contains("--requestheader-extra-headers-prefix <PREFIXES>"));
}
