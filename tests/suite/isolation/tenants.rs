//! The users of the shared cluster, their rights, and the cluster's objects.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::vocabulary::{GROUP, KINDS, NAMES, NAMESPACES, NODE, RBAC};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::pool::Lease;
use crate::harness::{eventually, objects};

const SETTLES_WITHIN: Duration = Duration::from_secs(60);
/// The matrix sends more concurrent requests than kube-apiserver allows a user.
/// kube-apiserver's protection against anonymous floods would also close the
/// connection after each answer to an unauthenticated caller.
const FLAGS: [&str; 3] = [
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=5000",
    "--feature-gates=UnauthenticatedHTTP2DOSMitigation=false",
];
/// The role whose rules a controller copies into `view`. That controller does not
/// run here.
const VIEW: &str = "system:aggregate-to-view";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tenant {
    /// A caller without credentials.
    Nobody,
    /// An authenticated user without rights.
    Stranger,
    /// A user with `view` in team-a.
    Viewer,
    /// A user who may do everything in team-b.
    Owner,
    /// A user with `watch` on everything in team-a, and no other verb.
    Watcher,
    /// A user with `get` on one ConfigMap and one Secret in team-a, and on a
    /// node as if the node were in team-a.
    Named,
    /// A user with `list` and `watch` on namespace team-b, one node and one pod
    /// of team-a, by name.
    Finder,
    /// A user with `view` in the namespaces whose names are words of paths.
    Odd,
    /// A user with `get` on subresources only.
    Parts,
    /// A user with `get`, `list` and `watch` on all namespaces and nodes, and
    /// no rights inside a namespace.
    Surveyor,
    Admin,
}

impl Tenant {
    pub const ALL: [Tenant; 11] = [
        Tenant::Nobody,
        Tenant::Stranger,
        Tenant::Viewer,
        Tenant::Owner,
        Tenant::Watcher,
        Tenant::Named,
        Tenant::Finder,
        Tenant::Odd,
        Tenant::Parts,
        Tenant::Surveyor,
        Tenant::Admin,
    ];

    /// Returns the namespaces in which the tenant has rights, or all of them.
    pub fn home(self) -> &'static [&'static str] {
        match self {
            Self::Viewer | Self::Watcher | Self::Named | Self::Finder => &["team-a"],
            Self::Owner => &["team-b"],
            Self::Odd => &["pods", "status", "watch", "namespaces"],
            Self::Nobody | Self::Stranger | Self::Parts | Self::Surveyor | Self::Admin => {
                &NAMESPACES
            }
        }
    }

    /// Returns the tenant's share of the questions. Tenants with more rights ask
    /// more.
    pub fn weight(self) -> u32 {
        match self {
            Self::Nobody | Self::Stranger | Self::Parts => 1,
            Self::Watcher | Self::Named | Self::Finder => 3,
            Self::Viewer | Self::Owner | Self::Odd | Self::Surveyor | Self::Admin => 5,
        }
    }

    fn user(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns the least number of hits among `answered` answers with 200. With
    /// fewer hits, kube-apiserver would be compared with itself. A tenant with
    /// `None` must have no hits.
    pub fn least_hits(self, answered: usize) -> Option<usize> {
        match self {
            Self::Nobody | Self::Stranger | Self::Parts => None,
            // These may read little: of thousands of paths, two or twelve.
            Self::Finder => Some(1),
            Self::Named => Some(0),
            Self::Watcher
            | Self::Surveyor
            | Self::Viewer
            | Self::Owner
            | Self::Odd
            | Self::Admin => {
                // Hits are between a third and a half of the answers.
                Some(answered / 5)
            }
        }
    }
}

pub struct Tenants {
    cluster: Lease,
    pub front: Apifront,
    clients: BTreeMap<Tenant, (Vec<Client>, Vec<Client>)>,
}

/// The number of connections of each tenant to each server.
const CONNECTIONS: usize = 2;

impl Tenants {
    pub async fn start() -> Self {
        let cluster = Cluster::leased(&FLAGS.map(str::to_owned)).await;
        fill(&cluster.admin_client()).await;
        let front = Apifront::start(&cluster, |config| {
            config["authentication"]["anonymous"]["enabled"] = json!(true);
            // No rights change, and each review costs as much as the comparison
            // itself.
            config["authorization"]["subjectAccessReview"] =
                json!({"allowTTL": "10m", "denyTTL": "10m"});
            config["flow"]["enablePriorityAndFairness"] = json!(false);
            config["serving"]["maxRequestsInflight"] = json!(5000);
        })
        .await;
        let mut clients = BTreeMap::new();
        for tenant in Tenant::ALL {
            let pair = match tenant {
                Tenant::Nobody => None,
                Tenant::Admin => Some(cluster.admin.clone()),
                _ => Some(cluster.certificates.client(&tenant.user(), &[])),
            };
            let (direct, through) = (cluster.client(pair.as_ref()), front.client(pair.as_ref()));
            let several = |client: &Client| {
                (0..CONNECTIONS)
                    .map(|_| client.separate())
                    .collect::<Vec<_>>()
            };
            clients.insert(tenant, (several(&direct), several(&through)));
        }
        let tenants = Self {
            cluster,
            front,
            clients,
        };
        tenants.rights_are_known().await;
        tenants.warm().await;
        tenants
    }

    /// Returns the clients for kube-apiserver and apifront. `n` selects the
    /// connections.
    pub fn clients(&self, tenant: Tenant, n: usize) -> (&Client, &Client) {
        let (direct, front) = &self.clients[&tenant];
        (&direct[n % direct.len()], &front[n % front.len()])
    }

    /// Waits until the authorizer, which watches roles, knows all rights.
    async fn rights_are_known(&self) {
        for (tenant, path) in [
            (Tenant::Viewer, "/api/v1/namespaces/team-a/pods"),
            (Tenant::Owner, "/api/v1/namespaces/team-b/secrets"),
            (Tenant::Named, "/api/v1/namespaces/team-a/configmaps/one"),
            (
                Tenant::Finder,
                "/api/v1/namespaces?fieldSelector=metadata.name%3Dteam-b",
            ),
            (Tenant::Odd, "/api/v1/namespaces/namespaces/pods"),
            (Tenant::Parts, "/api/v1/namespaces/team-a/pods/one/status"),
            (Tenant::Surveyor, "/api/v1/nodes"),
        ] {
            let (direct, _) = self.clients(tenant, 0);
            eventually(
                &format!("{tenant:?} reads {path}"),
                SETTLES_WITHIN,
                || async { direct.get(path).await.status == 200 },
            )
            .await;
        }
    }

    /// Stops apifront, and fails if it was not running.
    pub async fn stop(self) {
        self.front.stop().await;
        drop(self.cluster);
    }

    async fn warm(&self) {
        let (_, admin) = self.clients(Tenant::Admin, 0);
        for (base, _, plural) in KINDS {
            let path = format!("/{}/{plural}?resourceVersion=0", base.join("/"));
            self.front.warm(admin, &path).await;
        }
        let gadgets = format!("/apis/{GROUP}/v1/gadgets?resourceVersion=0");
        self.front.warm(admin, &gadgets).await;
    }
}

async fn fill(admin: &Client) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (plural, kind, scope) in [
        ("widgets", "Widget", "Namespaced"),
        ("gadgets", "Gadget", "Cluster"),
        ("namespaces", "Namespace", "Namespaced"),
    ] {
        let definition = definition(plural, kind, scope);
        admin.post(definitions, &definition).await.expect(201);
    }
    for namespace in NAMESPACES {
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"team": team(namespace)}},
        });
        admin.post("/api/v1/namespaces", &body).await.expect(201);
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    admin.post("/api/v1/nodes", &node).await.expect(201);
    for plural in ["widgets", "gadgets", "namespaces"] {
        let list = format!("/apis/{GROUP}/v1/{plural}");
        eventually(&format!("{list} is served"), SETTLES_WITHIN, || async {
            admin.get(&list).await.status == 200
        })
        .await;
    }
    let gadget = custom("Gadget", "one", "a");
    let gadgets = format!("/apis/{GROUP}/v1/gadgets");
    admin.post(&gadgets, &gadget).await.expect(201);
    for namespace in NAMESPACES {
        for (base, namespaced, plural) in KINDS {
            let list = format!("/{}/namespaces/{namespace}/{plural}", base.join("/"));
            for name in NAMES.iter().filter(|_| namespaced) {
                let body = object(plural, base, name, team(namespace));
                admin.post(&list, &body).await.expect(201);
            }
        }
    }
    grant(admin).await;
}

fn team(namespace: &str) -> &str {
    match namespace {
        "team-a" => "a",
        "team-b" => "b",
        _ => "none",
    }
}

fn object(plural: &str, base: &[&str], name: &str, team: &str) -> Value {
    let labels = json!({"team": team});
    match plural {
        "pods" => objects::pod(name, labels),
        "configmaps" => objects::config_map(name, labels, json!({})),
        "secrets" => json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels},
        }),
        "deployments" => json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "example.test/image:1"}]},
                },
            },
        }),
        "widgets" => custom("Widget", name, team),
        "namespaces" if base.contains(&GROUP) => custom("Namespace", name, team),
        _ => unreachable!("{plural} has no namespaces"),
    }
}

fn custom(kind: &str, name: &str, team: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": {"name": name, "labels": {"team": team}},
    })
}

fn definition(plural: &str, kind: &str, scope: &str) -> Value {
    let mut definition = objects::widget_definition(GROUP);
    definition["metadata"]["name"] = json!(format!("{plural}.{GROUP}"));
    definition["spec"]["scope"] = json!(scope);
    definition["spec"]["names"] = json!({
        "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
        "listKind": format!("{kind}List"),
    });
    definition
}

async fn grant(admin: &Client) {
    let cluster_role = async |tenant: Tenant, rules: Value| {
        let user = tenant.user();
        let role = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": user}, "rules": rules,
        });
        let path = format!("/apis/{RBAC}/v1/clusterroles");
        admin.post(&path, &role).await.expect(201);
    };
    let everywhere = async |tenant: Tenant| {
        let user = tenant.user();
        let binding = objects::cluster_role_binding(&user, &user, "User", &user);
        let path = format!("/apis/{RBAC}/v1/clusterrolebindings");
        admin.post(&path, &binding).await.expect(201);
    };
    let within = async |tenant: Tenant, role: &str, namespace: &str| {
        let user = tenant.user();
        let mut binding = objects::role_binding(&user, role, "User", &user);
        binding["roleRef"]["kind"] = json!("ClusterRole");
        let path = format!("/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings");
        let answer = admin.send(Method::POST, &path, &[JSON], binding.to_string());
        answer.await.expect(201);
    };
    within(Tenant::Viewer, VIEW, "team-a").await;
    within(Tenant::Owner, "cluster-admin", "team-b").await;
    for namespace in Tenant::Odd.home() {
        within(Tenant::Odd, VIEW, namespace).await;
    }
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["watch"]}]);
    cluster_role(Tenant::Watcher, all).await;
    within(Tenant::Watcher, "watcher", "team-a").await;

    let rule = |resources: &[&str], names: &[&str], verbs: &[&str]| {
        json!({
            "apiGroups": [""], "resources": resources, "resourceNames": names, "verbs": verbs,
        })
    };
    let gets = json!([rule(
        &["configmaps", "secrets", "nodes"],
        &["one"],
        &["get"]
    )]);
    cluster_role(Tenant::Named, gets).await;
    within(Tenant::Named, "named", "team-a").await;
    let finds = ["list", "watch"];
    let finds = json!([
        rule(&["namespaces"], &["team-b"], &finds),
        rule(&["nodes"], &["one"], &finds),
    ]);
    cluster_role(Tenant::Finder, finds).await;
    everywhere(Tenant::Finder).await;
    let path = format!("/apis/{RBAC}/v1/namespaces/team-a/roles");
    let mut role = objects::role("finder", &[""], &["pods"], &["list", "watch"]);
    role["rules"][0]["resourceNames"] = json!(["one"]);
    admin.post(&path, &role).await.expect(201);
    let path = format!("/apis/{RBAC}/v1/namespaces/team-a/rolebindings");
    let binding = objects::role_binding("finder", "finder", "User", "finder");
    admin.post(&path, &binding).await.expect(201);

    let parts = json!([{
        "apiGroups": ["*"], "resources": ["*/status", "pods/log", "*/scale", "*/one", "*/pods"],
        "verbs": ["get"],
    }]);
    cluster_role(Tenant::Parts, parts).await;
    everywhere(Tenant::Parts).await;
    let survey = ["get", "list", "watch"];
    let survey =
        json!([{"apiGroups": [""], "resources": ["namespaces", "nodes"], "verbs": survey}]);
    cluster_role(Tenant::Surveyor, survey).await;
    everywhere(Tenant::Surveyor).await;
}

const JSON: (&str, &str) = ("content-type", "application/json");
