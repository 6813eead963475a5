//! Makes random FlowSchemas, and random requests of random callers, from few words,
//! so that many requests match many schemas.

use http::Method;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use serde_json::{Value, json};

use crate::harness::objects;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "one", "two"];
const USERS: [&str; 5] = [
    "alice",
    "bob",
    "carol",
    "system:serviceaccount:one:robot",
    "system:serviceaccount:two:robot",
];
const GROUPS: [&str; 4] = ["readers", "writers", "system:nodes", "system:masters"];
/// The group that may read everything.
pub const READERS: &str = "readers";
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];
/// The group version, the name, and whether it is namespaced.
const RESOURCES: [(&str, &str, bool); 8] = [
    ("v1", "configmaps", true),
    ("v1", "pods", true),
    ("v1", "namespaces", false),
    ("v1", "nodes", false),
    ("apps/v1", "deployments", true),
    ("rbac.authorization.k8s.io/v1", "clusterroles", false),
    ("coordination.k8s.io/v1", "leases", true),
    ("example.com/v1", "unknowns", true),
];
const SUBRESOURCES: [&str; 4] = ["status", "scale", "log", "ephemeralcontainers"];
/// These exclude the paths of health checks, which apifront answers itself before it
/// knows the caller.
const URLS: [&str; 9] = [
    "/logs",
    "/.well-known/openid-configuration",
    "/version",
    "/api",
    "/apis",
    "/apis/apps",
    "/openapi/v2",
    "/nowhere",
    "/nowhere/else",
];
const URL_PATTERNS: [&str; 7] = [
    "/logs/*",
    "/.well-known/*",
    "/version",
    "/api/*",
    "/apis",
    "/nowhere/*",
    "/openapi/*",
];
/// Each level has a few seats. `missing` does not exist.
pub const LEVELS: [&str; 6] = [
    "exempt",
    "catch-all",
    "workload-low",
    "wide",
    "narrow",
    "missing",
];

fn some(rng: &mut StdRng, of: &[&str]) -> Vec<String> {
    let count = rng.random_range(1..=3.min(of.len()));
    let chosen = of.iter().choose_multiple(rng, count);
    chosen.into_iter().map(|s| (*s).to_owned()).collect()
}

fn some_or_all(rng: &mut StdRng, of: &[&str]) -> Vec<String> {
    match rng.random_ratio(1, 3) {
        true => vec!["*".to_owned()],
        false => some(rng, of),
    }
}

fn one<'a>(rng: &mut StdRng, of: &[&'a str]) -> &'a str {
    of.choose(rng).expect("not empty")
}

/// Returns a valid FlowSchema.
pub fn flow_schema(rng: &mut StdRng, name: &str) -> Value {
    let rules: Vec<Value> = (0..rng.random_range(1..=3)).map(|_| rule(rng)).collect();
    let distinguisher = match rng.random_range(0..3) {
        0 => Value::Null,
        1 => json!({ "type": "ByUser" }),
        _ => json!({ "type": "ByNamespace" }),
    };
    objects::flow_schema(
        name,
        json!({
            "priorityLevelConfiguration": { "name": one(rng, &LEVELS) },
            // There are few values, so that names decide, too. No other schema has
            // the value 2.
            "matchingPrecedence": rng.random_range(2..14) * 75,
            "distinguisherMethod": distinguisher,
            "rules": rules,
        }),
    )
}

fn rule(rng: &mut StdRng) -> Value {
    let subjects: Vec<Value> = (0..rng.random_range(1..=2)).map(|_| subject(rng)).collect();
    let (mut resource_rules, mut other_rules) = (Vec::new(), Vec::new());
    if rng.random_ratio(3, 4) {
        resource_rules = (0..rng.random_range(1..=2))
            .map(|_| resource_rule(rng))
            .collect();
    }
    if resource_rules.is_empty() || rng.random_ratio(1, 3) {
        let urls = some_or_all(rng, &URL_PATTERNS);
        let verbs = some_or_all(rng, &["get", "create", "proxy"]);
        other_rules.push(json!({ "verbs": verbs, "nonResourceURLs": urls }));
    }
    json!({
        "subjects": subjects,
        "resourceRules": resource_rules,
        "nonResourceRules": other_rules,
    })
}

fn subject(rng: &mut StdRng) -> Value {
    match rng.random_range(0..3) {
        0 => {
            let name = one(rng, &["alice", "bob", "system:anonymous", "*", USERS[3]]);
            json!({ "kind": "User", "user": { "name": name } })
        }
        1 => {
            let name = one(
                rng,
                &[
                    "readers",
                    "writers",
                    "system:nodes",
                    "system:authenticated",
                    "system:serviceaccounts",
                    "system:serviceaccounts:one",
                ],
            );
            json!({ "kind": "Group", "group": { "name": name } })
        }
        _ => {
            let (namespace, name) = (
                one(rng, &["one", "two"]),
                one(rng, &["robot", "other", "*"]),
            );
            json!({
                "kind": "ServiceAccount",
                "serviceAccount": { "namespace": namespace, "name": name },
            })
        }
    }
}

fn resource_rule(rng: &mut StdRng) -> Value {
    let names: Vec<&str> = RESOURCES.iter().map(|(_, name, _)| *name).collect();
    let mut resources = some_or_all(rng, &names);
    if resources[0] != "*" && rng.random_ratio(1, 3) {
        let with_sub = format!("{}/{}", resources[0], one(rng, &SUBRESOURCES));
        resources.push(with_sub);
    }
    let groups = ["", "apps", "rbac.authorization.k8s.io", "example.com"];
    let cluster_scope = rng.random_bool(0.5);
    let namespaces = match cluster_scope && rng.random_bool(0.3) {
        true => Vec::new(),
        false => some_or_all(rng, &NAMESPACES),
    };
    json!({
        "verbs": some_or_all(rng, &VERBS),
        "apiGroups": some_or_all(rng, &groups),
        "resources": resources,
        "clusterScope": cluster_scope,
        "namespaces": namespaces,
    })
}

/// A request of an impersonated caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    pub method: Method,
    pub target: String,
    pub user: &'static str,
    pub groups: Vec<&'static str>,
}

impl Asked {
    pub fn random(rng: &mut StdRng) -> Self {
        let user = USERS.choose(rng).expect("users");
        let mut groups: Vec<&'static str> = Vec::new();
        for group in GROUPS {
            let often = match group {
                "system:masters" => 0.05,
                READERS => 0.5,
                _ => 0.25,
            };
            if rng.random_bool(often) {
                groups.push(group);
            }
        }
        let is_master = groups.contains(&"system:masters");
        let (method, target) = match rng.random_ratio(1, 5) {
            true => other(rng),
            false => resource(rng, is_master),
        };
        Self {
            method,
            target,
            user,
            groups,
        }
    }

    pub fn headers(&self) -> Vec<(&'static str, &'static str)> {
        let groups = self
            .groups
            .iter()
            .map(|group| ("impersonate-group", *group));
        let user = [
            ("impersonate-user", self.user),
            ("x-apifront-debug", "cache"),
        ];
        user.into_iter().chain(groups).collect()
    }
}

fn other(rng: &mut StdRng) -> (Method, String) {
    let method = [Method::GET, Method::GET, Method::HEAD, Method::POST]
        .choose(rng)
        .expect("methods");
    (method.clone(), one(rng, &URLS).to_owned())
}

/// A request for a resource. Members of `system:masters` may do everything, so they
/// only read.
fn resource(rng: &mut StdRng, only_reads: bool) -> (Method, String) {
    let (version, name, namespaced) = RESOURCES.choose(rng).expect("resources");
    let prefix = match version.contains('/') {
        true => "/apis",
        false => "/api",
    };
    let mut path = format!("{prefix}/{version}");
    let is_within = *namespaced && rng.random_bool(0.7);
    if is_within {
        path = format!("{path}/namespaces/{}", one(rng, &NAMESPACES));
    }
    path = format!("{path}/{name}");
    // A request across all namespaces cannot name an object.
    let is_named = (is_within || !*namespaced) && rng.random_bool(0.5);
    if is_named {
        path = format!("{path}/{}", one(rng, &["one", "default", "nobody"]));
        if rng.random_ratio(1, 5) {
            path = format!("{path}/{}", one(rng, &SUBRESOURCES));
        }
    }
    if !is_named && rng.random_ratio(1, 20) {
        return (Method::GET, format!("{path}?watch=true&timeoutSeconds=1"));
    }
    if only_reads || rng.random_bool(0.7) {
        let query = match is_named {
            true => "",
            false => one(
                rng,
                &["", "", "?limit=2", "?fieldSelector=metadata.name%3Done"],
            ),
        };
        return (Method::GET, format!("{path}{query}"));
    }
    let method = match is_named {
        true => [Method::PUT, Method::PATCH, Method::DELETE]
            .choose(rng)
            .expect("methods")
            .clone(),
        false => [Method::POST, Method::DELETE]
            .choose(rng)
            .expect("methods")
            .clone(),
    };
    (method, path)
}
