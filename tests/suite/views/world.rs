//! A tenant with rights in a few of many namespaces.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::certificates::Pair;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, unique};
use crate::harness::objects::config_map;
use crate::harness::watch::{Event, Watch};

pub const SOON: Duration = Duration::from_secs(30);
/// The time in which a watch that has begun may still be refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);
pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub const MAPS: &str = "/api/v1/configmaps";

/// A cluster that all tests share, or that one test has alone.
type AnyCluster = Box<dyn Deref<Target = Cluster> + Send + Sync>;

pub struct World {
    pub cluster: AnyCluster,
    pub front: Apifront,
    /// The name of the user who gets views.
    pub tenant: String,
    pub group: String,
    /// A ClusterRole with the right to list and watch config maps.
    pub role: String,
    pub namespaces: Vec<String>,
}

impl World {
    /// Starts an apifront, and creates this number of namespaces with three config
    /// maps each.
    pub async fn start(namespaces: usize, change: impl FnOnce(&mut Value)) -> Self {
        Self::before(Cluster::shared(), namespaces, change).await
    }

    pub async fn before(
        cluster: impl Deref<Target = Cluster> + Send + Sync + 'static,
        namespaces: usize,
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let tenant = unique("tenant");
        let role = format!("{tenant}-reads");
        let front = Apifront::start(&cluster, |config| {
            config["views"] = json!({ "users": [tenant] });
            change(config);
        })
        .await;
        let mut world = Self {
            cluster: Box::new(cluster),
            front,
            group: format!("{tenant}-group"),
            tenant,
            role,
            namespaces: Vec::new(),
        };
        world.put_role(&["list", "watch"]).await;
        for _ in 0..namespaces {
            let namespace = world.cluster.namespace("view").await;
            for name in ["a", "b", "c"] {
                world.put_map(&namespace, name, "first").await;
            }
            world.namespaces.push(namespace);
        }
        world
    }

    pub fn admin(&self) -> Client {
        self.cluster.admin_client()
    }

    /// Creates the role, or changes its verbs.
    pub async fn put_role(&self, verbs: &[&str]) {
        let role = json!({
            "metadata": {"name": self.role},
            "rules": [{"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": verbs}],
        });
        let path = format!("{RBAC}/clusterroles");
        let admin = self.admin();
        if admin.post(&path, &role).await.status == 409 {
            let path = format!("{path}/{}", self.role);
            admin.put(&path, &role).await.expect(200);
        }
    }

    pub async fn grant(&self, namespace: &str) {
        self.bind(namespace, &self.role, "User", &self.tenant).await;
    }

    pub async fn bind(&self, namespace: &str, role: &str, kind: &str, subject: &str) {
        let binding = json!({
            "metadata": {"name": role},
            "subjects": [{
                "kind": kind, "name": subject, "apiGroup": "rbac.authorization.k8s.io",
            }],
            "roleRef": {
                "kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io",
            },
        });
        let path = format!("{RBAC}/namespaces/{namespace}/rolebindings");
        self.admin().post(&path, &binding).await.expect(201);
    }

    pub async fn revoke(&self, namespace: &str) {
        let path = format!("{RBAC}/namespaces/{namespace}/rolebindings/{}", self.role);
        self.admin().delete(&path).await.expect(200);
    }

    pub async fn put_map(&self, namespace: &str, name: &str, value: &str) {
        let map = config_map(name, json!({"app": name}), json!({"value": value}));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let admin = self.admin();
        if admin.post(&path, &map).await.status == 409 {
            admin.put(&format!("{path}/{name}"), &map).await.expect(200);
        }
    }

    pub fn certificate(&self) -> Pair {
        self.cluster
            .certificates
            .client(&self.tenant, &[&self.group])
    }

    /// The tenant's client of apifront.
    pub fn client(&self) -> Client {
        self.front.client(Some(&self.certificate()))
    }

    /// The tenant's client of kube-apiserver.
    pub fn direct(&self) -> Client {
        self.cluster.client(Some(&self.certificate()))
    }

    /// Waits until the view has exactly the granted namespaces, and returns its
    /// list.
    pub async fn settled(&self, client: &Client, namespaces: &[&String]) -> Answer {
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let answer = client.get(MAPS).await;
            let header = format!("namespaces={}, names=0", namespaces.len());
            if answer.header("x-apifront-view") == header {
                let keys = keys(&answer.json());
                let has = |namespace: &&String| keys.iter().any(|key| is_in(key, namespace));
                let all = namespaces.iter().all(has);
                let no_other = |key: &String| namespaces.iter().any(|ns| is_in(key, ns));
                if all && keys.iter().all(no_other) {
                    return answer;
                }
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "{} {}: not {header}: {}",
                answer.status,
                answer.text(),
                answer.header("x-apifront-view")
            );
            crate::harness::pace::of_tries(Duration::from_millis(50)).await;
        }
    }

    /// Waits until watches also have exactly the granted namespaces.
    pub async fn watchable(&self, client: &Client, namespaces: &[&String]) {
        self.settled(client, namespaces).await;
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let mut watch = Watch::open(client, &format!("{MAPS}?watch=1")).await;
            let mut seen = Vec::new();
            while let Some(Ok(event)) = watch.next_within(Duration::from_millis(300)).await {
                seen.push(key(&event.object));
            }
            let all = namespaces
                .iter()
                .all(|ns| seen.iter().any(|key| is_in(key, ns)));
            let own = |key: &String| namespaces.iter().any(|ns| is_in(key, ns));
            if all && seen.iter().all(own) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "not watched: {seen:?}"
            );
        }
    }

    /// Returns kube-apiserver's lists of the granted namespaces, in the order of a
    /// list of all namespaces.
    pub async fn lists(&self, namespaces: &[&String], query: &str, accept: &str) -> Vec<Bytes> {
        let mut sorted: Vec<&String> = namespaces.to_vec();
        sorted.sort_by_key(|namespace| format!("{namespace}/"));
        let direct = self.direct();
        let mut lists = Vec::new();
        for namespace in sorted {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps?{query}");
            let answer = direct.get_as(&path, accept).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            lists.push(answer.body);
        }
        lists
    }
}

pub fn keys(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(key).collect()
}

pub fn is_in(key: &str, namespace: &str) -> bool {
    key.split_once('/').is_some_and(|(own, _)| own == namespace)
}

pub fn key(object: &Value) -> String {
    let meta = &object["metadata"];
    let text = |field: &str| meta[field].as_str().unwrap_or("").to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

pub fn version(list: &Value) -> String {
    let version = list["metadata"]["resourceVersion"].as_str();
    version.expect("a version").to_owned()
}

/// Returns the next events, without bookmarks, as `TYPE namespace/name`.
pub async fn told(watch: &mut Watch, n: usize) -> Vec<String> {
    let events = watch.take(n).await;
    events.iter().map(shown).collect()
}

pub fn shown(event: &Event) -> String {
    format!("{} {}", event.kind, key(&event.object))
}

/// Returns an event of this kind for each of a namespace's three config maps.
pub fn all(kind: &str, namespace: &str) -> Vec<String> {
    let names = ["a", "b", "c"];
    names
        .map(|name| format!("{kind} {namespace}/{name}"))
        .into()
}

/// Opens a watch once the server accepts the list's version, which may be too old
/// for a view that has just changed. Returns the list, too.
pub async fn list_and_watch(world: &World, client: &Client) -> (Value, Watch) {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let list = client.get(MAPS).await.expect(200);
        let path = format!("{MAPS}?watch=1&resourceVersion={}", version(&list));
        let mut watch = Watch::open(client, &path).await;
        if !watch.is_refused(REFUSED_WITHIN).await {
            return (list, watch);
        }
        let event = watch.next().await.expect("the refusal");
        assert!(tokio::time::Instant::now() < deadline, "{}", event.line);
        // After a change the list's version is later than the view's set.
        world.put_map(&world.namespaces[0], "a", "again").await;
    }
}
