//! A caller acts as another user only with a right to each field of that user.

use super::*;

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
