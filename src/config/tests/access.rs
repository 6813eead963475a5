//! Authentication, authorization and views.

use std::time::Duration;

use kubernetes_wire::api::UserInfo;

use super::*;
use crate::authz::CachedRbacUse;
use crate::authz::rbac::RBAC;

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

#[test]
fn cached_rbac_is_asked_for_and_preloads_its_objects() {
    let load =
        |line: &str, more: &str| load_text(&(minimal_with("authorization", line) + more), &[]);
    let (off, on) = (
        load("  constrainedImpersonation: Auto", "").unwrap(),
        load("  cachedRBAC: Allow", "").unwrap(),
    );
    for (config, expected, preloaded) in [
        (off, CachedRbacUse::Disabled, vec![]),
        (on, CachedRbacUse::Allow, RBAC.to_vec()),
    ] {
        let authorization = config.access.delegated().unwrap().authorization;
        assert_eq!(authorization.cached_rbac, expected);
        let preload = config.cache.preload.iter().map(|p| p.to_string());
        assert_eq!(preload.collect::<Vec<_>>(), preloaded);
    }
    for (line, more, error) in [
        (
            "  cachedRBAC: yes",
            "",
            r#"authorization.cachedRBAC: "yes": must be one of Disabled, Allow"#,
        ),
        (
            "  cachedRBAC: Allow",
            "cache:\n  exclude: [roles.rbac.authorization.k8s.io]\n",
            r#"authorization.cachedRBAC: "roles.v1.rbac.authorization.k8s.io": RBAC needs resources that are excluded from the cache"#,
        ),
    ] {
        assert_eq!(load(line, more).unwrap_err(), [error]);
    }
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
