mod floods;
mod impersonation;
mod outage;

use kubernetes_wire::api::GroupVersionResource;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::advance;

use super::impersonation_mode::Mode;
use super::*;
use crate::authn::Impersonation;
use crate::authn::testing::FakeApiServer;
use crate::authz::ConstrainedImpersonation;
use crate::authz::testing::Saved;

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|g| g.to_string()).collect(),
        ..UserInfo::default()
    }
}

fn pods(verb: &str, name: &str, subresource: &str) -> Attributes {
    Attributes::Resource {
        verb: verb.to_owned(),
        gvr: GroupVersionResource::new("", "v1", "pods"),
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        field_selector: String::new(),
        label_selector: String::new(),
    }
}

fn path(path: &str) -> Attributes {
    Attributes::NonResource {
        verb: "get".to_owned(),
        path: path.to_owned(),
    }
}

fn answer(status: Value) -> Result<(u16, String), ReviewError> {
    Ok((
        201,
        json!({"kind": "SubjectAccessReview", "status": status}).to_string(),
    ))
}

fn authorizer_of(server: Arc<FakeApiServer>, ttl: Duration) -> (Authorizer, Registry) {
    let registry = Registry::new();
    let settings = AuthzSettings {
        allow_ttl: ttl,
        deny_ttl: ttl,
        outage: Duration::ZERO,
        degraded: Duration::ZERO,
        cached_rbac: CachedRbacUse::Disabled,
    };
    let metrics = AuthzMetrics::register(&registry).unwrap();
    (
        Authorizer::new(server, settings, metrics, Arc::new(Saved::default())),
        registry,
    )
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn answers_become_decisions() {
    let server = FakeApiServer::new(|at, review| {
        assert_eq!(at, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
        match review["spec"]["nonResourceAttributes"]["path"].as_str() {
            Some("/allowed") => answer(json!({"allowed": true, "reason": "because"})),
            Some("/denied") => answer(json!({"allowed": false, "denied": true, "reason": "no"})),
            Some("/both") => answer(json!({"allowed": true, "denied": true})),
            Some("/down") => Err(ReviewError::Unavailable("refused".to_owned())),
            Some("/forbidden") => Ok((403, "may not create reviews".to_owned())),
            _ => answer(json!({"allowed": false})),
        }
    });
    let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
    let jane = user("jane", &["devs"]);
    for (at, expected) in [
        ("/allowed", "because"),
        (
            "/denied",
            r#"403 Forbidden: forbidden: User "jane" cannot get path "/denied": no"#,
        ),
        (
            "/unknown",
            r#"403 Forbidden: forbidden: User "jane" cannot get path "/unknown""#,
        ),
        ("/both", "500"),
        ("/down", "503"),
        ("/forbidden", "500"),
        // A path below a health check is not the health check.
        (
            "/readyz/etcd",
            r#"403 Forbidden: forbidden: User "jane" cannot get path "/readyz/etcd""#,
        ),
        ("/readyz", ""),
        ("/livez", ""),
        ("/healthz", ""),
    ] {
        let ruling = authorizer
            .authorize_request(&jane, &path(at), Purpose::Usual)
            .await;
        let result = match (ruling.outcome, ruling.verdict) {
            (Ok(()), Some(verdict)) => verdict.reason.clone(),
            (Ok(()), None) => "allowed by nobody".to_owned(),
            (Err(status), verdict) => {
                assert_eq!(verdict.is_none(), status.code >= 500, "{at}");
                status.to_string()
            }
        };
        let matches = match expected {
            "500" | "503" => result.starts_with(expected),
            _ => result == expected,
        };
        assert!(matches, "{at}: {result}");
    }
    let as_somebody = Attributes::NonResource {
        verb: "impersonate-on:user-info:get".to_owned(),
        path: "/readyz".to_owned(),
    };
    let ruling = authorizer
        .authorize_request(&jane, &as_somebody, Purpose::Usual)
        .await;
    assert!(ruling.outcome.is_err());
    let before = server.calls();
    let masters = user("root", &["devs", "system:masters"]);
    let attributes = pods("delete", "x", "");
    let ruling = authorizer
        .authorize_request(&masters, &attributes, Purpose::Usual)
        .await;
    assert!(ruling.outcome.is_ok());
    assert_eq!(server.calls(), before, "system:masters is not asked about");
}

#[tokio::test]
async fn decisions_are_shared_and_remembered_but_errors_are_not() {
    let server = FakeApiServer::new(|_, review| match review["spec"]["user"].as_str() {
        Some("down") => Err(ReviewError::Timeout),
        _ => answer(json!({"allowed": true})),
    });
    let (authorizer, registry) = authorizer_of(server.clone(), MINUTE);
    let (jane, attributes) = (user("jane", &[]), pods("list", "", ""));
    let herd = (0..50).map(|_| authorizer.authorize_request(&jane, &attributes, Purpose::Usual));
    let rulings = futures::future::join_all(herd).await;
    assert!(rulings.iter().all(|ruling| ruling.outcome.is_ok()));
    assert_eq!(server.calls(), 1);
    let down = user("down", &[]);
    let long = path(&"/x".repeat(5_000));
    for (who, what, calls) in [
        (&jane, &attributes, 0),
        (&user("jane", &["devs"]), &attributes, 1),
        (&jane, &pods("watch", "", ""), 1),
        (&down, &attributes, 1),
        (&down, &attributes, 1),
        (&jane, &long, 1),
        (&jane, &long, 0),
    ] {
        let before = server.calls();
        let _ = authorizer
            .authorize_request(who, what, Purpose::Usual)
            .await;
        assert_eq!(server.calls() - before, calls, "{who:?} {what:?}");
    }
    let families = registry.gather();
    let names: Vec<_> = families.iter().map(|f| f.name()).collect();
    assert_eq!(
        names,
        [
            "apifront_self_subject_access_reviews_total",
            "apifront_subject_access_review_cache_total",
            "apifront_subject_access_reviews_refused_total",
            "authorization_attempts_total",
            "authorization_duration_seconds"
        ]
    );
}

#[tokio::test]
async fn a_zero_ttl_remembers_nothing() {
    let server = FakeApiServer::new(|_, _| answer(json!({"allowed": true})));
    let (authorizer, _) = authorizer_of(server.clone(), Duration::ZERO);
    for _ in 0..3 {
        let jane = user("jane", &[]);
        let _ = authorizer
            .authorize_request(&jane, &path("/x"), Purpose::Usual)
            .await;
    }
    assert_eq!(server.calls(), 3);
}

/// Otherwise an authorizer could fill memory with long reasons.
#[tokio::test]
async fn a_decision_with_a_long_reason_is_asked_for_again() {
    for (length, calls) in [(8_192, 1), (8_193, 3)] {
        let reason = "r".repeat(length);
        let server =
            FakeApiServer::new(move |_, _| answer(json!({"allowed": true, "reason": reason})));
        let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
        let (jane, path) = (user("jane", &[]), path("/x"));
        for _ in 0..3 {
            let asked = authorizer.authorize_request(&jane, &path, Purpose::Usual);
            assert_eq!(asked.await.verdict.unwrap().reason.len(), length);
        }
        assert_eq!(server.calls(), calls);
    }
}

#[tokio::test]
async fn commands_in_pods_need_create_even_by_get() {
    let server = FakeApiServer::new(|_, review| {
        let attributes = &review["spec"]["resourceAttributes"];
        let creator = review["spec"]["user"] == "creator";
        answer(json!({"allowed": creator || attributes["verb"] == "get", "reason": "r"}))
    });
    let (authorizer, _) = authorizer_of(server, MINUTE);
    for (who, subresource, verb, expected) in [
        ("reader", "exec", "get", Some("pods \"x\" is forbidden: r")),
        (
            "reader",
            "attach",
            "get",
            Some("pods \"x\" is forbidden: r"),
        ),
        (
            "reader",
            "portforward",
            "get",
            Some("pods \"x\" is forbidden: r"),
        ),
        ("reader", "log", "get", None),
        ("reader", "proxy", "get", None),
        ("creator", "exec", "get", None),
        ("creator", "exec", "create", None),
    ] {
        let attributes = pods(verb, "x", subresource);
        let ruling = authorizer
            .authorize_request(&user(who, &[]), &attributes, Purpose::Usual)
            .await;
        // The audit log gets the decision about the request itself.
        let decision = ruling.verdict.map(|verdict| verdict.decision);
        assert_eq!(decision, Some(Decision::Allow));
        let message = ruling.outcome.err().map(|status| status.message);
        assert_eq!(message.as_deref(), expected, "{who} {verb} {subresource}");
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const TEN_AND_THIRTY: AuthzSettings = AuthzSettings {
    allow_ttl: Duration::from_secs(10),
    deny_ttl: Duration::from_secs(10),
    outage: Duration::from_secs(30),
    degraded: Duration::ZERO,
    cached_rbac: CachedRbacUse::Disabled,
};

fn authorizer_with(server: Arc<dyn ReviewClient>, settings: AuthzSettings) -> Authorizer {
    let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
    Authorizer::new(server, settings, metrics, Arc::new(Saved::default()))
}

async fn code_of(authorizer: &Authorizer, user: &UserInfo, attributes: &Attributes) -> u16 {
    let ruling = authorizer
        .authorize_request(user, attributes, Purpose::Usual)
        .await;
    ruling.outcome.map_or_else(|status| status.code, |()| 200)
}
