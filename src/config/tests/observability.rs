//! Metrics and the audit log.

use super::*;

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
