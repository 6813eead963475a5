//! The section `cache`.

use std::time::Duration;

use apifront_watch_cache::MemoryLimit;

use super::*;
use crate::authz::DegradedAuthorization;
use crate::authz::rbac::RBAC;

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
    assert_eq!(shadow.modes.for_resource(&pods), Serve);
    assert_eq!(shadow.modes.for_resource(&nodes), Shadow);
    assert_eq!(shadow.self_check_interval, Duration::from_secs(600));
    let off = cache("  mode: Shadow\n  selfCheck: {interval: 0s}").unwrap();
    assert_eq!(off.self_check_interval, Duration::ZERO);
    let none = cache("  resourceModes: []").unwrap();
    assert_eq!(none.modes.for_resource(&pods), Serve);
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
