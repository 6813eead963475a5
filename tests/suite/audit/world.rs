//! A kube-apiserver, an apifront before it with the same policy, and the logs
//! of both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::{config_map, role, role_binding};
use crate::harness::pool::Lease;
use crate::harness::process::temporary_folder;

/// Events are written within moments, or within seconds on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// Returns a policy that audits config maps with all objects, secrets without
/// answers, and probes not at all.
pub fn policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [
            { "level": "None", "users": ["apifront"] },
            { "level": "None", "nonResourceURLs": ["/readyz*"] },
            { "level": "RequestResponse", "omitManagedFields": true, "resources": [
                { "group": "", "resources": ["configmaps", "pods", "pods/*", "*/token"] },
                { "group": "apps" },
            ]},
            { "level": "Request", "omitStages": ["RequestReceived"], "resources": [
                { "group": "", "resources": ["secrets"] },
                { "group": "authorization.k8s.io" },
            ]},
            { "level": "Metadata" },
        ],
    })
}

pub struct World {
    pub cluster: Lease,
    pub front: Apifront,
    pub front_log: PathBuf,
    pub upstream_log: PathBuf,
    pub namespace: String,
}

impl World {
    pub async fn start() -> Self {
        let folder = temporary_folder("audit");
        let policy_file = folder.join("policy.yaml");
        std::fs::write(&policy_file, policy().to_string()).expect("policy");
        let (front_log, upstream_log) = (folder.join("front.log"), folder.join("upstream.log"));
        let flags = [
            format!("--audit-policy-file={}", policy_file.display()),
            format!("--audit-log-path={}", upstream_log.display()),
            // apifront has the same configuration here.
            "--anonymous-auth=false".to_owned(),
        ];
        let cluster = Cluster::leased(&flags).await;
        let front = Apifront::start(&cluster, |config| {
            config["observability"]["auditPolicyFile"] = json!(policy_file);
            config["observability"]["auditLogPath"] = json!(front_log);
        })
        .await;
        let namespace = cluster.namespace("audited").await;
        let world = Self {
            cluster,
            front,
            front_log,
            upstream_log,
            namespace,
        };
        world.fill().await;
        world
    }

    /// Creates objects, and lets tess see config maps.
    async fn fill(&self) {
        let admin = self.cluster.admin_client();
        let maps = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        for name in ["a", "b"] {
            let map = config_map(name, json!({ "app": name }), json!({ "text": "<&>" }));
            admin.post(&maps, &map).await.expect(201);
        }
        let rbac = format!(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{}",
            self.namespace
        );
        let may = role("reader", &[""], &["configmaps"], &["get", "list", "watch"]);
        admin.post(&format!("{rbac}/roles"), &may).await.expect(201);
        let bound = role_binding("reader", "reader", "User", "tess");
        let bindings = format!("{rbac}/rolebindings");
        admin.post(&bindings, &bound).await.expect(201);
        let tess = self.user(Side::Upstream, Who::Tess);
        eventually("tess may", SOON, || async {
            tess.get(&maps).await.status == 200
        })
        .await;
        for resource in ["configmaps", "namespaces", "pods", "secrets"] {
            let path = format!("/api/v1/{resource}?resourceVersion=0");
            self.front.warm(&self.front.admin_client(), &path).await;
        }
    }

    pub fn user(&self, side: Side, who: Who) -> Client {
        let client = |certificate| match side {
            Side::Upstream => self.cluster.client(certificate),
            Side::Front => self.front.client(certificate),
        };
        match who {
            Who::Admin => client(Some(&self.cluster.admin)),
            Who::Tess => client(None).token("token-of-tess"),
            Who::Theo => client(None).token("token-of-theo"),
            Who::WrongToken => client(None).token("nobody's"),
            Who::Nobody => client(None),
            Who::AdminAsTess => client(Some(&self.cluster.admin))
                .with_header("impersonate-user", "tess")
                .with_header("impersonate-group", "developers")
                .with_header("impersonate-extra-why", "to see"),
            Who::TheoAsTess => client(None)
                .token("token-of-theo")
                .with_header("impersonate-user", "tess"),
        }
    }

    /// Returns the events of a request on one side, as soon as the last event is
    /// there.
    pub async fn events(&self, side: Side, id: &str) -> Vec<String> {
        let log = match side {
            Side::Upstream => &self.upstream_log,
            Side::Front => &self.front_log,
        };
        events(log, id).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Upstream,
    Front,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Admin,
    Tess,
    Theo,
    WrongToken,
    Nobody,
    AdminAsTess,
    TheoAsTess,
}

pub fn lines(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // The last line may be incomplete.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(str::to_owned).collect()
}

/// Returns the events of a request, as soon as the last event is there.
pub async fn events(log: &Path, id: &str) -> Vec<String> {
    let mine = || -> Vec<String> {
        let mark = format!("\"auditID\":\"{id}\"");
        let mut lines = lines(log);
        lines.retain(|line| line.contains(&mark));
        lines
    };
    eventually(&format!("{id} ends in {}", log.display()), SOON, || async {
        let ended = |line: &String| {
            let refused =
                line.contains("\"stage\":\"ResponseStarted\"") && line.contains("\"user\":{}");
            refused || line.contains("\"stage\":\"ResponseComplete\"")
        };
        mine().iter().any(ended)
    })
    .await;
    mine()
}

#[derive(Clone, Debug)]
pub struct Sent {
    pub method: Method,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Sent {
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn with_body(method: Method, path: impl Into<String>, kind: &str, body: &str) -> Self {
        Self {
            method,
            body: body.as_bytes().to_vec(),
            ..Self::get(path)
        }
        .header("content-type", kind)
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub async fn by(&self, client: &Client, id: &str) -> Answer {
        let answer = self.try_by(client, id).await;
        answer.unwrap_or_else(|error| panic!("{self:?}: {error:#}"))
    }

    /// Fails if the server ends the stream without a whole answer.
    pub async fn try_by(&self, client: &Client, id: &str) -> anyhow::Result<Answer> {
        let mut headers = vec![("audit-id", id)];
        let has_agent = self.headers.iter().any(|(name, _)| *name == "user-agent");
        if !has_agent {
            headers.push(("user-agent", "audit-test/1"));
        }
        headers.extend(self.headers.iter().map(|(n, v)| (*n, v.as_str())));
        client
            .try_send(self.method.clone(), &self.path, &headers, self.body.clone())
            .await
    }
}

/// Returns an event's text. Replaces values that differ between any two servers.
pub fn comparable(line: &str, id: &str) -> String {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let mut text = line.replace(&format!("\"auditID\":\"{id}\""), "\"auditID\":ID");
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        let value = event[time]
            .as_str()
            .unwrap_or_else(|| panic!("{time}: {line}"));
        assert_eq!(value.len(), "2006-01-02T15:04:05.000000Z".len(), "{value}");
        text = text.replace(
            &format!("\"{time}\":\"{value}\""),
            &format!("\"{time}\":TIME"),
        );
    }
    text
}

pub fn parsed(line: &str) -> BTreeMap<String, Value> {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}
