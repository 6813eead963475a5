//! Compares the evaluation of RBAC with kube-apiserver's, which answers
//! SubjectAccessReviews about random subjects and requests.
//!
//! `APIFRONT_TEST_SEED` replays a run, and `APIFRONT_TEST_RIGHTS` is the number of
//! questions.

use std::collections::BTreeMap;
use std::time::Duration;

use apifront::authz::rbac::{RbacObjects, Rights};
use futures::StreamExt;
use kubernetes_wire::api::{Attributes, GroupVersionResource, UserInfo};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, grant_everywhere};
use crate::harness::objects::cluster_role_binding;
use crate::harness::{eventually, volume};

const QUESTIONS: usize = 4_000;
const AT_A_TIME: usize = 16;
const ROLES: usize = 40;
const BINDINGS: usize = 120;
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

const NAMESPACES: [&str; 3] = ["rights-a", "rights-b", "rights-c"];
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "delete",
    "impersonate",
    "bind",
    "impersonate:user-info",
];
const GROUPS: [&str; 5] = [
    "",
    "apps",
    "batch",
    "rbac.authorization.k8s.io",
    "example.com",
];
const RESOURCES: [&str; 7] = [
    "pods",
    "deployments",
    "secrets",
    "users",
    "groups",
    "clusterroles",
    "serviceaccounts",
];
const SUBRESOURCES: [&str; 4] = ["log", "scale", "status", "exec"];
const NAMES: [&str; 4] = ["a", "b", "c", "*"];
const PATHS: [&str; 8] = [
    "/metrics",
    "/healthz",
    "/healthz/etcd",
    "/logs",
    "/logs/",
    "/logs/x/y",
    "/",
    "/metrics/slis",
];
pub const USERS: [&str; 5] = ["ann", "bob", "cid", "system:node:n1", "a:b"];
pub const USER_GROUPS: [&str; 4] = ["devs", "ops", "system:nodes", "ann"];
const ACCOUNTS: [&str; 3] = ["default", "agent", "ann"];

/// Chooses one of the words, or sometimes one of `more`, which stand for many.
fn one(random: &mut StdRng, words: &[&str], more: &[&str]) -> String {
    let words = match random.random_bool(0.3) && !more.is_empty() {
        true => more,
        false => words,
    };
    (*words.choose(random).expect("words")).to_owned()
}

fn some(random: &mut StdRng, words: &[&str], more: &[&str]) -> Vec<String> {
    let count = random.random_range(1..=3);
    (0..count).map(|_| one(random, words, more)).collect()
}

fn rule(random: &mut StdRng, in_cluster: bool) -> Value {
    if in_cluster && random.random_bool(0.25) {
        return json!({
            "verbs": some(random, &["get", "post", "head"], &["*"]),
            "nonResourceURLs": some(random, &PATHS, &["*", "/healthz/*", "/logs*", "/metrics/*"]),
        });
    }
    let mut resources = some(
        random,
        &RESOURCES,
        &["*", "*/log", "*/scale", "pods/*", "*/*"],
    );
    for _ in 0..random.random_range(0..2) {
        let (resource, sub) = (
            one(random, &RESOURCES, &[]),
            one(random, &SUBRESOURCES, &[]),
        );
        resources.push(format!("{resource}/{sub}"));
    }
    let mut rule = json!({
        "verbs": some(random, &VERBS, &["*"]),
        "apiGroups": some(random, &GROUPS, &["*"]),
        "resources": resources,
    });
    if random.random_bool(0.3) {
        rule["resourceNames"] = json!(some(random, &NAMES, &[]));
    }
    rule
}

fn subject(random: &mut StdRng) -> Value {
    match random.random_range(0..3) {
        0 => json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User",
            "name": one(random, &USERS, &["system:serviceaccount:rights-a:agent"]),
        }),
        1 => json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
            "name": one(random, &USER_GROUPS, &["system:serviceaccounts:rights-b"]),
        }),
        _ => json!({
            "kind": "ServiceAccount",
            "name": one(random, &ACCOUNTS, &[]), "namespace": one(random, &NAMESPACES, &[]),
        }),
    }
}

/// Creates random roles and bindings. Some bindings name roles that do not
/// exist.
pub async fn create(random: &mut StdRng, admin: &Client) {
    for namespace in NAMESPACES {
        let object = json!({"metadata": {"name": namespace}});
        admin.post("/api/v1/namespaces", &object).await.expect(201);
    }
    for n in 0..ROLES {
        let namespace = random
            .random_bool(0.5)
            .then(|| one(random, &NAMESPACES, &[]));
        let count = random.random_range(0..4);
        let rules: Vec<Value> = (0..count)
            .map(|_| rule(random, namespace.is_none()))
            .collect();
        let role = json!({"metadata": {"name": format!("role-{n}")}, "rules": rules});
        let path = match &namespace {
            None => format!("{RBAC}/clusterroles"),
            Some(namespace) => format!("{RBAC}/namespaces/{namespace}/roles"),
        };
        admin.post(&path, &role).await.expect(201);
    }
    for n in 0..BINDINGS {
        let namespace = random
            .random_bool(0.6)
            .then(|| one(random, &NAMESPACES, &[]));
        let kind = match namespace.is_some() && random.random_bool(0.5) {
            true => "Role",
            false => "ClusterRole",
        };
        let count = random.random_range(0..6);
        let subjects: Vec<Value> = (0..count).map(|_| subject(random)).collect();
        let binding = json!({
            "metadata": {"name": format!("binding-{n}")},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": kind,
                "name": format!("role-{}", random.random_range(0..ROLES + 3)),
            },
            "subjects": subjects,
        });
        let path = match &namespace {
            None => format!("{RBAC}/clusterrolebindings"),
            Some(namespace) => format!("{RBAC}/namespaces/{namespace}/rolebindings"),
        };
        admin.post(&path, &binding).await.expect(201);
    }
    // By chance, none of these might allow a path.
    let role = json!({"kind": "ClusterRole", "metadata": {"name": "paths"}, "rules": [{
        "verbs": ["get", "post"], "nonResourceURLs": ["/metrics", "/logs*"],
    }]});
    let binding = cluster_role_binding("paths", "paths", "Group", USER_GROUPS[0]);
    grant_everywhere(admin, &[role, binding]).await;
}

fn user(random: &mut StdRng) -> UserInfo {
    let name = match random.random_bool(0.3) {
        true => format!(
            "system:serviceaccount:{}:{}",
            one(random, &NAMESPACES, &[]),
            one(random, &ACCOUNTS, &[])
        ),
        false => one(random, &USERS, &["nobody"]),
    };
    let count = random.random_range(0..3);
    let groups = (0..count)
        .map(|_| {
            one(
                random,
                &USER_GROUPS,
                &["system:authenticated", "system:serviceaccounts:rights-b"],
            )
        })
        .collect();
    UserInfo {
        name,
        groups,
        ..UserInfo::default()
    }
}

pub fn attributes(random: &mut StdRng) -> Attributes {
    if random.random_bool(0.2) {
        return Attributes::NonResource {
            verb: one(random, &["get", "post", "head"], &["delete"]),
            path: one(random, &PATHS, &["/other", "/healthz*"]),
        };
    }
    let empty = |random: &mut StdRng, likely: f64, words: &[&str]| match random.random_bool(likely)
    {
        true => String::new(),
        false => one(random, words, &["*"]),
    };
    Attributes::Resource {
        verb: one(random, &VERBS, &["*", "deletecollection"]),
        gvr: GroupVersionResource::new(
            &one(random, &GROUPS, &["*"]),
            "v1",
            &one(random, &RESOURCES, &["*", "other"]),
        ),
        namespace: empty(random, 0.3, &NAMESPACES),
        name: empty(random, 0.4, &NAMES),
        subresource: empty(random, 0.6, &SUBRESOURCES),
        field_selector: String::new(),
        label_selector: String::new(),
    }
}

fn review(user: &UserInfo, attributes: &Attributes) -> Value {
    let mut spec = json!({"user": user.name, "groups": user.groups});
    match attributes {
        Attributes::NonResource { verb, path } => {
            spec["nonResourceAttributes"] = json!({"verb": verb, "path": path});
        }
        Attributes::Resource {
            verb,
            gvr,
            namespace,
            name,
            subresource,
            ..
        } => {
            spec["resourceAttributes"] = json!({
                "verb": verb, "group": gvr.group, "version": gvr.version,
                "resource": gvr.resource, "namespace": namespace, "name": name,
                "subresource": subresource,
            });
        }
    }
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

async fn asked(admin: &Client, user: &UserInfo, attributes: &Attributes) -> bool {
    let answer = admin.post(REVIEWS, &review(user, attributes)).await;
    answer.expect(201)["status"]["allowed"] == true
}

async fn objects(admin: &Client, resource: &str) -> Vec<bytes::Bytes> {
    let list = admin.get(&format!("{RBAC}/{resource}")).await.expect(200);
    let items = list["items"].as_array().expect("items").iter();
    items.map(|item| item.to_string().into()).collect()
}

async fn rights(admin: &Client) -> Rights {
    let objects = RbacObjects {
        cluster_roles: objects(admin, "clusterroles").await,
        cluster_role_bindings: objects(admin, "clusterrolebindings").await,
        roles: objects(admin, "roles").await,
        role_bindings: objects(admin, "rolebindings").await,
    };
    Rights::read(&objects).expect("rights")
}

/// kube-apiserver's authorizer has its own caches. When it knows a last binding, it
/// knows all of them.
pub async fn settled(admin: &Client) {
    let last = "the-last-one";
    let binding = cluster_role_binding(last, last, "User", last);
    let role = json!({"kind": "ClusterRole", "metadata": {"name": last}, "rules": [{
        "verbs": ["get"], "nonResourceURLs": ["/last"],
    }]});
    grant_everywhere(admin, &[role, binding]).await;
    let (user, attributes) = (
        UserInfo {
            name: last.to_owned(),
            ..UserInfo::default()
        },
        Attributes::NonResource {
            verb: "get".into(),
            path: "/last".into(),
        },
    );
    eventually("the last binding", Duration::from_secs(30), || async {
        asked(admin, &user, &attributes).await
    })
    .await;
    // The informers of the four resources are independent of each other.
    crate::harness::pace::lasting(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn rbac_is_evaluated_as_in_kube_apiserver() {
    skip_under_oracle!("it evaluates rights here");
    let seed = volume::seed("rbac");
    let count = volume::work("APIFRONT_TEST_RIGHTS", QUESTIONS);
    let mut random = StdRng::seed_from_u64(seed);
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    create(&mut random, &admin).await;
    settled(&admin).await;
    let rights = rights(&admin).await;
    let questions: Vec<(UserInfo, Attributes)> = (0..count)
        .map(|_| (user(&mut random), attributes(&mut random)))
        .collect();
    let answers: Vec<bool> = futures::stream::iter(&questions)
        .map(|(user, attributes)| asked(&admin, user, attributes))
        .buffered(AT_A_TIME)
        .collect()
        .await;
    let mut tally: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    let mut different = Vec::new();
    for ((user, attributes), theirs) in questions.iter().zip(answers) {
        let kind = match attributes {
            Attributes::Resource { .. } => "resource",
            Attributes::NonResource { .. } => "path",
        };
        *tally.entry((kind, theirs)).or_default() += 1;
        let ours = rights.allow(user, attributes);
        if ours != theirs {
            different.push(format!(
                "kube-apiserver {theirs}, here {ours}: {user:?} {attributes:?}"
            ));
        }
    }
    println!(
        "{count} questions, {} answered alike",
        count - different.len()
    );
    println!("(kind, allowed): {tally:?}");
    let shown = different.iter().take(10).cloned().collect::<Vec<_>>();
    assert!(different.is_empty(), "{}", shown.join("\n"));
    let allowed = |kind| tally.get(&(kind, true)).copied().unwrap_or_default();
    for kind in ["resource", "path"] {
        let denied = tally.get(&(kind, false)).copied().unwrap_or_default();
        let least = (allowed(kind) + denied) / 200;
        assert!(allowed(kind) > least && denied > least, "{tally:?}");
    }
}
