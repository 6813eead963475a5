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

/// Grants `verb resource[/subresource]` to anybody, for any name.
fn granting(grants: &'static [&'static str]) -> Arc<FakeApiServer> {
    FakeApiServer::new(move |_, review| {
        let attributes = &review["spec"]["resourceAttributes"];
        let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
        let mut asked = format!("{} {}", text("verb"), text("resource"));
        if !text("subresource").is_empty() {
            asked = format!("{asked}/{}", text("subresource"));
        }
        if !text("name").is_empty() {
            asked = format!("{asked} {}", text("name"));
        }
        let allowed = grants
            .iter()
            .any(|g| asked == *g || asked.starts_with(&format!("{g} ")));
        answer(json!({ "allowed": allowed }))
    })
}

async fn impersonate(
    server: &Arc<FakeApiServer>,
    requestor: &UserInfo,
    wanted: UserInfo,
) -> Result<Impersonated, Status> {
    let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
    ImpersonationAuthorizer::new(Arc::new(authorizer), || Some((1, 36)))
        .impersonate(
            requestor,
            &Impersonation { wanted },
            &pods("list", "", ""),
            Purpose::Usual,
        )
        .await
}

#[tokio::test]
async fn impersonation_is_authorized_field_by_field() {
    let jane = user("jane", &["devs"]);
    let mut whole = user("bob", &["a", "b"]);
    whole.uid = "7".to_owned();
    whole
        .extra
        .insert("acme.io/k".to_owned(), vec!["v".to_owned()]);
    let legacy: &[&str] = &[
        "impersonate users bob",
        "impersonate groups a",
        "impersonate groups b",
        "impersonate uids 7",
        "impersonate userextras/acme.io/k v",
    ];
    let done = impersonate(&granting(legacy), &jane, whole.clone())
        .await
        .unwrap();
    assert_eq!(done.mode, Mode::Legacy);
    assert_eq!(done.user.groups, ["a", "b", "system:authenticated"]);
    assert_eq!(
        (&done.user.uid, &done.user.extra),
        (&whole.uid, &whole.extra)
    );

    for (what, grants, wanted, groups) in [
        (
            "service accounts have their groups",
            &["impersonate serviceaccounts sa"] as &[_],
            user("system:serviceaccount:ns:sa", &[]),
            &[
                "system:serviceaccounts",
                "system:serviceaccounts:ns",
                "system:authenticated",
            ] as &[_],
        ),
        (
            "unless groups are asked for",
            &["impersonate serviceaccounts sa", "impersonate groups"],
            user("system:serviceaccount:ns:sa", &["a"]),
            &["a", "system:authenticated"],
        ),
        (
            "anonymous is unauthenticated",
            &["impersonate users"],
            user("system:anonymous", &[]),
            &["system:unauthenticated"],
        ),
        (
            "nobody is both",
            &["impersonate users", "impersonate groups"],
            user("bob", &["system:unauthenticated"]),
            &["system:unauthenticated"],
        ),
        (
            "nodes, constrained",
            &[
                "impersonate-on:arbitrary-node:list pods",
                "impersonate:arbitrary-node nodes n1",
            ],
            user("system:node:n1", &[]),
            &["system:nodes", "system:authenticated"],
        ),
        (
            "legacy gives nodes no group",
            &["impersonate users system:node:n1"],
            user("system:node:n1", &[]),
            &["system:authenticated"],
        ),
    ] {
        let done = impersonate(&granting(grants), &jane, wanted).await.unwrap();
        assert_eq!(done.user.groups, groups, "{what}");
    }
}

#[tokio::test]
async fn the_first_refusal_is_the_answer() {
    let jane = user("jane", &[]);
    let cannot = |what: &str| format!("{what} at the cluster scope");
    for (grants, wanted, message) in [
        (
            &[] as &[_],
            user("bob", &[]),
            r#"pods is forbidden: User "jane" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "ns""#.to_owned(),
        ),
        (
            &["impersonate-on:user-info:list pods", "impersonate users"],
            user("bob", &["system:masters"]),
            cannot(r#"users.authentication.k8s.io "bob" is forbidden: User "jane" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io""#),
        ),
        (
            &["impersonate-on:user-info:list pods", "impersonate:user-info users", "impersonate:user-info groups"],
            user("bob", &["system:masters"]),
            cannot(r#"groups.authentication.k8s.io "system:masters" is forbidden: User "jane" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io""#)
                + ": impersonating the system:masters group is not allowed",
        ),
    ] {
        let status = impersonate(&granting(grants), &jane, wanted).await.unwrap_err();
        assert_eq!((status.code, status.message), (403, message));
    }
    let down = FakeApiServer::new(|_, _| Err(ReviewError::Timeout));
    let status = impersonate(&down, &jane, user("bob", &[]))
        .await
        .unwrap_err();
    assert_eq!(status.code, 503, "not a 403: nobody refused");
}

#[tokio::test]
async fn constrained_modes_ask_for_many_at_once_and_are_remembered() {
    let server = granting(&[
        "impersonate-on:user-info:list pods",
        "impersonate:user-info users",
        "impersonate:user-info groups *",
        "impersonate users",
    ]);
    let (authorizer, _) = authorizer_of(server.clone(), Duration::ZERO);
    let impersonator = ImpersonationAuthorizer::new(Arc::new(authorizer), || Some((1, 36)));
    let wanted = user("bob", &["a", "b", "c", "d"]);
    let jane = user("jane", &[]);
    let attributes = pods("list", "", "");
    let ask = |wanted: UserInfo| {
        let (impersonator, jane, attributes) = (&impersonator, &jane, &attributes);
        async move {
            let asked = Impersonation { wanted };
            impersonator
                .impersonate(jane, &asked, attributes, Purpose::Usual)
                .await
        }
    };
    assert_eq!(ask(wanted.clone()).await.unwrap().mode, Mode::UserInfo);
    assert_eq!(server.calls(), 3);
    // Only the legacy mode allows a malformed name of a service account.
    let odd = user("system:serviceaccount:NS:x", &[]);
    assert_eq!(ask(odd).await.unwrap().mode, Mode::UserInfo);
}

/// Rights to `*` in an older cluster once became rights to modes that it does not
/// have.
#[tokio::test]
async fn an_upstream_without_constrained_impersonation_is_not_asked_about_it() {
    use ConstrainedImpersonation::{Auto, Disabled, Enabled};
    let constrained: &[&str] = &[
        "impersonate-on:user-info:list pods",
        "impersonate:user-info users",
    ];
    for (setting, release, is_asked) in [
        (Auto, Some((1, 36)), true),
        (Auto, Some((1, 37)), true),
        (Auto, Some((2, 0)), true),
        // Constrained impersonation is alpha, and off by default.
        (Auto, Some((1, 35)), false),
        (Auto, Some((1, 31)), false),
        (Auto, None, false),
        (Enabled, Some((1, 35)), true),
        (Enabled, None, true),
        (Disabled, Some((1, 36)), false),
    ] {
        let server = granting(constrained);
        let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
        let impersonator = ImpersonationAuthorizer::new(Arc::new(authorizer), move || release);
        impersonator.reload(setting);
        let wanted = Impersonation {
            wanted: user("bob", &[]),
        };
        let list = pods("list", "", "");
        let jane = user("jane", &[]);
        let done = impersonator
            .impersonate(&jane, &wanted, &list, Purpose::Usual)
            .await;
        assert_eq!(done.is_ok(), is_asked, "{setting:?} {release:?}");
        let asked = server.asked.lock().unwrap().clone();
        let verbs: Vec<_> = asked
            .iter()
            .map(|review| &review["spec"]["resourceAttributes"]["verb"])
            .collect();
        let legacy = verbs.iter().all(|verb| **verb == "impersonate");
        assert_eq!(legacy, !is_asked, "{setting:?} {release:?}: {verbs:?}");
    }
}

#[tokio::test]
async fn a_pod_acts_as_its_own_node_only() {
    let server = granting(&[
        "impersonate-on:associated-node:list pods",
        "impersonate:associated-node nodes *",
    ]);
    let mut agent = user("system:serviceaccount:ns:agent", &[]);
    let node = "authentication.kubernetes.io/node-name".to_owned();
    agent.extra.insert(node, vec!["n1".to_owned()]);
    let done = impersonate(&server, &agent, user("system:node:n1", &[]))
        .await
        .unwrap();
    assert_eq!(done.mode, Mode::AssociatedNode);
    assert_eq!(
        done.user,
        user("system:node:n1", &["system:nodes", "system:authenticated"])
    );
    let asked = server.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|review| {
        review["spec"]["extra"]
            == json!({"authentication.kubernetes.io/associated-node-keys":
                ["authentication.kubernetes.io/node-name"]})
    }));
    let other = impersonate(&server, &agent, user("system:node:n2", &[])).await;
    assert_eq!(other.unwrap_err().code, 403);
}

/// An API server that allows everybody but joe, while it can be reached.
#[derive(Default)]
struct Server {
    error: parking_lot::Mutex<Option<ReviewError>>,
    reachable: std::sync::atomic::AtomicBool,
}

#[async_trait::async_trait]
impl ReviewClient for Server {
    async fn create_review(
        &self,
        _: &str,
        body: bytes::Bytes,
    ) -> Result<(http::StatusCode, bytes::Bytes), ReviewError> {
        if let Some(error) = self.error.lock().clone() {
            return Err(error);
        }
        let review: Value = serde_json::from_slice(&body).unwrap();
        let status = json!({"status": {"allowed": review["spec"]["user"] != "joe"}});
        Ok((http::StatusCode::CREATED, status.to_string().into()))
    }

    fn is_reachable(&self) -> bool {
        self.reachable.load(std::sync::atomic::Ordering::Relaxed)
    }
}

async fn code_of(authorizer: &Authorizer, user: &UserInfo, attributes: &Attributes) -> u16 {
    let ruling = authorizer
        .authorize_request(user, attributes, Purpose::Usual)
        .await;
    ruling.outcome.map_or_else(|status| status.code, |()| 200)
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

/// Reads from memory once ended ten seconds after the API server did.
#[tokio::test(start_paused = true)]
async fn what_was_allowed_stays_so_while_nobody_can_be_asked() {
    let server = Arc::new(Server::default());
    let authorizer = authorizer_with(server.clone(), TEN_AND_THIRTY);
    let (jane, joe, jill) = (user("jane", &[]), user("joe", &[]), user("jill", &[]));
    let pods = pods("list", "", "");
    let code = async |user: &UserInfo| code_of(&authorizer, user, &pods).await;
    assert_eq!((code(&jane).await, code(&joe).await), (200, 403));
    advance(seconds(11)).await;

    let unavailable = ReviewError::Unavailable("refused".to_owned());
    for (error, expected) in [
        (unavailable.clone(), 200),
        (ReviewError::Timeout, 200),
        (ReviewError::Malformed(String::new()), 500),
        (
            ReviewError::Refused {
                code: http::StatusCode::FORBIDDEN,
                body: String::new(),
            },
            500,
        ),
    ] {
        *server.error.lock() = Some(error.clone());
        assert_eq!(code(&jane).await, expected, "{error}");
        // These users were never allowed.
        assert!(code(&joe).await >= 500 && code(&jill).await >= 500);
    }
    *server.error.lock() = Some(unavailable);
    // An API server answers, though not this question.
    server
        .reachable
        .store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(code(&jane).await, 503);
}

/// Once, some allowances ended in the outage's first second, others 40 s later.
#[tokio::test(start_paused = true)]
async fn an_outage_ends_all_allowances_at_the_same_moment() {
    let server = Arc::new(Server::default());
    let authorizer = authorizer_with(server.clone(), TEN_AND_THIRTY);
    let (jane, jill) = (user("jane", &[]), user("jill", &[]));
    let pods = pods("list", "", "");
    let code = async |user: &UserInfo| code_of(&authorizer, user, &pods).await;
    assert_eq!(code(&jane).await, 200);
    advance(seconds(9)).await;
    assert_eq!(code(&jill).await, 200);
    *server.error.lock() = Some(ReviewError::Unavailable("refused".to_owned()));
    advance(seconds(29)).await;
    assert_eq!((code(&jane).await, code(&jill).await), (200, 200));
    advance(seconds(1)).await;
    assert_eq!((code(&jane).await, code(&jill).await), (503, 503));
}

/// As allowances by reviews do.
#[tokio::test(start_paused = true)]
async fn what_rbac_in_memory_allowed_holds_in_an_outage() {
    let server = Arc::new(Server::default());
    *server.error.lock() = Some(ReviewError::Unavailable("refused".to_owned()));
    let settings = AuthzSettings {
        cached_rbac: CachedRbacUse::Allow,
        ..TEN_AND_THIRTY
    };
    let saved = Saved::proven(Some(std::time::Instant::now()));
    let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
    let authorizer = Authorizer::new(server, settings, metrics, saved.clone());
    let code = async || code_of(&authorizer, &user("jane", &[]), &path("/bound")).await;
    assert_eq!(code().await, 200);
    saved.forget();
    advance(seconds(28)).await;
    assert_eq!(code().await, 200);
    advance(seconds(3)).await;
    assert_eq!(code().await, 503);
}

#[tokio::test(start_paused = true)]
async fn a_reload_shortens_and_lengthens_what_is_believed() {
    let server = FakeApiServer::new(|_, _| answer(json!({"allowed": true})));
    let authorizer = authorizer_with(server.clone(), TEN_AND_THIRTY);
    let (jane, pods) = (user("jane", &[]), pods("list", "", ""));
    let calls = async || {
        let before = server.calls();
        code_of(&authorizer, &jane, &pods).await;
        server.calls() - before
    };
    assert_eq!(calls().await, 1);
    advance(seconds(5)).await;
    assert_eq!(calls().await, 0);
    let with = |allow_ttl| AuthzSettings {
        allow_ttl,
        ..TEN_AND_THIRTY
    };
    authorizer.reload(with(seconds(5)));
    assert_eq!(calls().await, 1);
    advance(seconds(20)).await;
    authorizer.reload(with(seconds(60)));
    assert_eq!(calls().await, 0);
}

/// An API server that answers only about jane.
struct Slow;

#[async_trait::async_trait]
impl ReviewClient for Slow {
    async fn create_review(
        &self,
        _: &str,
        body: bytes::Bytes,
    ) -> Result<(http::StatusCode, bytes::Bytes), ReviewError> {
        let review: Value = serde_json::from_slice(&body).unwrap();
        if review["spec"]["user"] != "jane" {
            std::future::pending::<()>().await;
        }
        let status = json!({"status": {"allowed": true}}).to_string();
        Ok((http::StatusCode::CREATED, status.into()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_questions_about_one_user_does_not_delay_another() {
    use futures::FutureExt;
    let authorizer = authorizer_with(Arc::new(Slow), TEN_AND_THIRTY);
    let flood = user("flood", &[]);
    let mut asked: Vec<_> = (0..600)
        .map(|n| {
            let (authorizer, flood, n) = (&authorizer, &flood, n.to_string());
            async move { code_of(authorizer, flood, &pods("get", &n, "")).await }.boxed()
        })
        .collect();
    let refused = asked
        .iter_mut()
        .filter_map(|one| one.now_or_never())
        .inspect(|code| assert_eq!(*code, 429));
    // It has a part of the turns that there are at first.
    let room = 2 + TURNS.waiting_of_one;
    assert_eq!(refused.count(), 600 - room);
    let jane = user("jane", &[]);
    for n in 0..100 {
        let pods = pods("get", &n.to_string(), "");
        let code = code_of(&authorizer, &jane, &pods);
        assert_eq!(code.now_or_never(), Some(200));
    }
}

#[tokio::test]
async fn a_flood_of_questions_drives_only_its_own_answers_out_of_memory() {
    let reason = "x".repeat(cache::MAX_KEPT_REASON_BYTES);
    let server = FakeApiServer::new(move |_, _| answer(json!({"allowed": true, "reason": reason})));
    let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
    let (jane, flood) = (user("jane", &[]), user("flood", &[]));
    code_of(&authorizer, &jane, &pods("list", "", "")).await;
    for n in 0..5_000 {
        code_of(&authorizer, &flood, &pods("get", &n.to_string(), "")).await;
    }
    let before = server.calls();
    code_of(&authorizer, &jane, &pods("list", "", "")).await;
    assert_eq!(server.calls(), before);
    code_of(&authorizer, &flood, &pods("get", "0", "")).await;
    assert_eq!(server.calls(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn questions_drive_out_own_answers_alone() {
    let server = FakeApiServer::new(|_, _| answer(json!({"allowed": true})));
    let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
    let jane = user("jane", &[]);
    let read = pods("get", "a", "");
    let asked = async || {
        let ruling = authorizer.authorize_request(&jane, &read, Purpose::Usual);
        ruling.await.outcome.unwrap();
        server.calls()
    };
    assert_eq!(asked().await, 1);
    let none = http::HeaderMap::new();
    let review = |body: &str| SelfReview {
        decision: Decision::NoOpinion,
        content_type: http::HeaderValue::from_static("application/json"),
        body: body.to_owned().into(),
    };
    let of_jane = self_review_key(&jane, &none, &none, b"?");
    authorizer.remember_self_review(of_jane, "jane", review("no"), Instant::now());
    let mallory = user("mallory", &[]);
    let keys: Vec<Key> = (0..10_000u32)
        .map(|n| self_review_key(&mallory, &none, &none, &n.to_be_bytes()))
        .collect();
    let long = "no".repeat(2_000);
    for key in &keys {
        authorizer.remember_self_review(*key, "mallory", review(&long), Instant::now());
    }
    let kept = |key| authorizer.self_review(key).is_some();
    assert!(kept(&of_jane));
    assert!(kept(&keys[9_999]));
    assert!(keys.iter().filter(|key| kept(key)).count() < 4_096);
    assert_eq!(asked().await, 1, "the decision is still remembered");
    // Long answers are not kept, and none for longer than it may be used.
    let long = self_review_key(&jane, &none, &none, b"long");
    let body = "x".repeat(5_000);
    authorizer.remember_self_review(long, "jane", review(&body), Instant::now());
    assert!(!kept(&long));
    advance(MINUTE).await;
    assert!(!kept(&of_jane));
    authorizer.remember_self_review(of_jane, "jane", review("no"), Instant::now());
    assert!(kept(&of_jane));
    authorizer.forget();
    assert!(!kept(&of_jane));
}

/// Returns the questions of one request about a user with these groups, and its
/// answer.
async fn legacy_questions(
    groups: impl IntoIterator<Item = String>,
    extra: &[&str],
    refused: &'static str,
) -> (Vec<String>, Result<Impersonated, Status>) {
    let server = FakeApiServer::new(move |_, review| {
        let name = &review["spec"]["resourceAttributes"]["name"];
        answer(json!({ "allowed": name != refused }))
    });
    // Answers are not remembered.
    let (authorizer, _) = authorizer_of(server.clone(), Duration::ZERO);
    let impersonator = ImpersonationAuthorizer::new(Arc::new(authorizer), || Some((1, 35)));
    let mut wanted = user("bob", &[]);
    wanted.groups = groups.into_iter().collect();
    let values = extra.iter().map(|value| value.to_string()).collect();
    wanted.extra.insert("scopes".to_owned(), values);
    let asked = Impersonation { wanted };
    let (jane, list) = (user("jane", &[]), pods("list", "", ""));
    let done = impersonator
        .impersonate(&jane, &asked, &list, Purpose::Usual)
        .await;
    let reviews = server.asked.lock().unwrap().clone();
    let name = |review: &Value| review["spec"]["resourceAttributes"]["name"].clone();
    let names = reviews.iter().map(name);
    let names = names.map(|name| name.as_str().unwrap_or_default().to_owned());
    (names.collect(), done)
}

#[tokio::test]
async fn one_request_asks_once_about_each_group_and_nothing_after_a_refusal() {
    let many = || (0..3000).map(|n| format!("g{}", n % 1000));
    let (names, done) = legacy_questions(many(), &["a", "b", "a"], "nothing").await;
    let expected = ["bob".to_owned()].into_iter().chain(many().take(1000));
    let expected = expected.chain(["a".to_owned(), "b".to_owned()]);
    assert_eq!(names, expected.collect::<Vec<_>>());
    // Upstream still gets every group as requested.
    assert_eq!(done.unwrap().user.groups.len(), 3001);

    let (names, done) = legacy_questions(many(), &["a"], "g200").await;
    assert_eq!(names.len(), 1 + 201);
    let status = done.unwrap_err();
    assert_eq!(status.code, 403);
    assert!(status.message.contains("groups \"g200\" is forbidden"));
}

#[tokio::test(start_paused = true)]
async fn questions_end_with_their_request_or_after_a_minute() {
    /// Answers after a second.
    #[derive(Default)]
    struct Slow(std::sync::atomic::AtomicUsize);

    #[async_trait::async_trait]
    impl ReviewClient for Slow {
        async fn create_review(
            &self,
            _: &str,
            _: Bytes,
        ) -> Result<(http::StatusCode, Bytes), ReviewError> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (_, text) = answer(json!({ "allowed": true }))?;
            Ok((http::StatusCode::CREATED, text.into()))
        }
    }

    let server = Arc::new(Slow::default());
    let settings = AuthzSettings {
        allow_ttl: MINUTE,
        deny_ttl: MINUTE,
        outage: Duration::ZERO,
        degraded: Duration::ZERO,
        cached_rbac: CachedRbacUse::Disabled,
    };
    let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
    let authorizer = Authorizer::new(
        server.clone(),
        settings,
        metrics,
        Arc::new(Saved::default()),
    );
    let impersonator = ImpersonationAuthorizer::new(Arc::new(authorizer), || Some((1, 35)));
    let mut wanted = user("bob", &[]);
    wanted.groups = (0..16_000).map(|n| n.to_string()).collect();
    let (asked, jane) = (Impersonation { wanted }, user("jane", &[]));
    let list = pods("list", "", "");
    let calls = || server.0.load(std::sync::atomic::Ordering::Relaxed);
    let ask = || impersonator.impersonate(&jane, &asked, &list, Purpose::Usual);
    let given_up = tokio::time::timeout(Duration::from_millis(4500), ask()).await;
    assert!(given_up.is_err());
    assert_eq!(calls(), 5);
    advance(MINUTE).await;
    assert_eq!(calls(), 5, "nobody waits any more");
    // Nothing is remembered any more.
    advance(MINUTE).await;
    let status = ask().await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
    // The last one began as the time ended.
    assert_eq!(calls(), 5 + 61);
}
