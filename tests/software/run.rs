//! One run of a program: directly, or through an apifront of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::cost::{Cost, Moment};
use super::program::{Program, Said};
use super::resumed::Resumed;
use super::software::Software;
use crate::harness::apifront::Apifront;
use crate::harness::binaries;
use crate::harness::cluster::{Cluster, create_namespace_named};
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::objects::{cluster_role_binding, config_map, pod};
use crate::harness::process;

/// The group of all users as whom programs call.
const GROUP: &str = "software";
/// The group of tenants, who have views.
const TENANTS: &str = "tenants";
/// The number of namespaces with some objects that are there before.
const NAMESPACES: usize = 5;
const OBJECTS: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    Direct,
    Strict,
    Fresh,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Direct, Self::Strict, Self::Fresh];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Strict => "strict",
            Self::Fresh => "fresh",
        }
    }

    fn consistency(self) -> Option<&'static str> {
        match self {
            Self::Direct => None,
            Self::Strict => Some("Strict"),
            Self::Fresh => Some("Fresh"),
        }
    }
}

/// The cluster of all runs.
pub struct Stage {
    cluster: Cluster,
}

impl Stage {
    pub async fn set_up(cluster: Cluster) -> Self {
        let admin = cluster.admin_client();
        // A role of its own, so that apifront asks the cluster: members of
        // system:masters may do everything without being asked for.
        let binding = cluster_role_binding(GROUP, "cluster-admin", "Group", GROUP);
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        admin.post(path, &binding).await.expect(201);
        for namespace in (0..NAMESPACES).map(|n| format!("other-{n}")) {
            create_namespace_named(&admin, &namespace).await;
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            for n in 0..OBJECTS {
                let object = config_map(&format!("thing-{n}"), json!({}), json!({}));
                admin.post(&path, &object).await.expect(201);
            }
        }
        Self { cluster }
    }
}

/// What became of a run.
pub struct Outcome {
    pub version: String,
    /// The checks. Those that failed have a text.
    pub checks: BTreeMap<String, Option<String>>,
    pub cost: Cost,
    /// Its watches after apifront was killed.
    pub resumed: Vec<Resumed>,
    /// What the program logged last.
    pub log: String,
}

pub async fn run(stage: &mut Stage, software: Software, program: &Path, way: Way) -> Outcome {
    let name = format!("{}-{}", software.name, way.as_str());
    create_namespace_named(&stage.cluster.admin_client(), &name).await;
    let mut front = match way.consistency() {
        None => None,
        Some(mode) => Some(start(&stage.cluster, mode).await),
    };
    let url = match &front {
        None => stage.cluster.server_url(),
        Some(front) => front.url(),
    };
    let folder = process::temporary_folder("software");
    let user = format!("software-{}", software.name);
    let certificate = stage.cluster.certificates.client(&user, &[GROUP]);
    let who = Credential::Certificate(&certificate);
    let ca = Some(stage.cluster.ca());
    let tenant = match software.name {
        "k9s" => Some(tenant(&stage.cluster, &name, way, &folder, &url).await),
        _ => None,
    };
    let task = json!({
        "kubeconfig": kubeconfig::write(&folder, "client", &url, ca, who),
        "tenant": tenant,
        "kubectl": binaries::path("kubectl"),
        "namespace": name,
        "rounds": software.rounds,
    });
    let mut before = Moment::now(&stage.cluster, front.as_ref()).await;
    let mut outcome = Outcome {
        version: String::new(),
        checks: BTreeMap::new(),
        cost: Cost::default(),
        resumed: Vec::new(),
        log: String::new(),
    };
    let mut program = Program::start(name, program, &folder, &task).await;
    while let Some(said) = program.hear().await {
        match said {
            Said::Version { version } => outcome.version = version,
            Said::Check { check, ok, detail } => {
                outcome.checks.insert(check, (!ok).then_some(detail));
            }
            Said::Contents { informers } => {
                panic!("{} tells of informers: {informers:?}", software.name)
            }
            Said::Step { step } => {
                let now = Moment::now(&stage.cluster, front.as_ref()).await;
                outcome.cost.add(now.since(&before));
                let resumed = restart(stage, front.as_mut(), &step).await;
                before = match &resumed {
                    Some(_) => now.with_new_apifront(),
                    None => Moment::now(&stage.cluster, front.as_ref()).await,
                };
                outcome.resumed.extend(resumed);
                program.tell(&json!({ "step": step })).await;
            }
        }
    }
    let now = Moment::now(&stage.cluster, front.as_ref()).await;
    outcome.cost.add(now.since(&before));
    outcome.log = program.log_tail();
    if let Some(front) = front {
        front.stop().await;
    }
    outcome
}

/// Makes three namespaces, of which a tenant may read two, and returns the tenant's
/// kubeconfig. Before kube-apiserver, which has no views, the tenant may read all.
async fn tenant(cluster: &Cluster, name: &str, way: Way, folder: &Path, url: &str) -> PathBuf {
    let admin = cluster.admin_client();
    let user = format!("{name}-tenant");
    for part in ["mine", "also-mine", "others"] {
        let namespace = format!("{name}-{part}");
        create_namespace_named(&admin, &namespace).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = pod(&format!("pod-{part}"), json!({}));
        admin.post(&pods, &pod).await.expect(201);
        if part == "others" {
            continue;
        }
        let binding = json!({
            "metadata": {"name": "tenant"},
            "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {
                "kind": "ClusterRole", "name": "system:aggregate-to-view",
                "apiGroup": "rbac.authorization.k8s.io",
            },
        });
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let path = format!("{rbac}/namespaces/{namespace}/rolebindings");
        admin.post(&path, &binding).await.expect(201);
    }
    let groups = match way {
        Way::Direct => GROUP,
        Way::Strict | Way::Fresh => TENANTS,
    };
    let certificate = cluster.certificates.client(&user, &[groups]);
    let who = Credential::Certificate(&certificate);
    kubeconfig::write(folder, "tenant", url, Some(cluster.ca()), who)
}

async fn start(cluster: &Cluster, mode: &str) -> Apifront {
    Apifront::start(cluster, |config| {
        config["views"] = json!({ "groups": [TENANTS] });
        config["cache"] = json!({ "consistency": mode });
        config["logging"] = json!({ "format": "json", "verbosity": 2 });
    })
    .await
}

/// Kills a server, and starts it again. Without apifront there is none to kill.
async fn restart(stage: &mut Stage, front: Option<&mut Apifront>, step: &str) -> Option<Resumed> {
    match (step, front) {
        ("restart apiserver", _) => stage.cluster.restart_apiserver().await,
        ("restart apifront", Some(front)) => return Some(Resumed::after_kill(front).await),
        ("restart apifront", None) => {}
        (step, _) => panic!("a step that the runner does not know: {step}"),
    }
    None
}
