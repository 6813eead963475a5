//! Leases clusters to tests, one after the other. A start costs more than most tests
//! do. So a cluster that its test has not broken is restored and given to the next
//! test that wants the same flags.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::Client;
use super::cluster::{Cluster, unique};
use super::contents::{Contents, RBAC};
use super::storage::Storage;
use super::{eventually, objects, pace, process, shared};

/// The time for which an unused cluster is kept. Keeping it that long costs less
/// than a start.
const LINGERS: Duration = Duration::from_secs(30);
/// The number of clusters with the same flags from which on a test waits for one that
/// is given back.
const ENOUGH: usize = 4;
/// The longest such wait. A test that has one cluster and wants another could otherwise
/// wait for itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time in which kube-apiserver must serve its first state again.
const SETTLES_WITHIN: Duration = Duration::from_secs(20);
/// Keys whose objects stay in force for a while after their deletion:
/// kube-apiserver's admission and fairness notice it later, and nothing shows when.
/// If a test writes these, its cluster ends with it.
const IN_FORCE_FOR_A_WHILE: [&str; 6] = [
    "admissionregistration.k8s.io/",
    "flowschemas/",
    "mutatingwebhookconfigurations/",
    "prioritylevelconfigurations/",
    "resourcequotas/",
    "validatingwebhookconfigurations/",
];
/// The keys that decide which resources exist.
const DEFINITIONS: [&str; 2] = ["apiextensions.k8s.io/", "apiregistration.k8s.io/"];

/// A cluster that one test has alone and gives back when it drops this. If the test
/// stops the API server and does not start it again, the cluster ends with the test.
pub struct Lease {
    pooled: Option<Pooled>,
    _used: Used,
}

struct Pooled {
    cluster: Cluster,
    flags: Vec<String>,
    /// The contents before the first test.
    first: Contents,
    served: Served,
}

/// Counts a cluster with these flags among those that tests have.
struct Used(Vec<String>);

/// kube-apiserver's documents about its resources.
#[derive(PartialEq)]
struct Served([String; 3]);

static POOL: Mutex<Pool> = Mutex::new(Pool {
    idle: Vec::new(),
    cleaned: Vec::new(),
    used: Vec::new(),
});

struct Pool {
    idle: Vec<Pooled>,
    /// The flags of clusters that will soon be idle.
    cleaned: Vec<Vec<String>>,
    /// The flags of clusters that tests have.
    used: Vec<Vec<String>>,
}

impl Cluster {
    /// Leases a cluster with these flags of kube-apiserver.
    pub async fn leased(flags: &[String]) -> Lease {
        let began = Instant::now();
        let (idle, used) = loop {
            match next(flags, began.elapsed() < PATIENCE) {
                Next::Now(idle, used) => break (idle, used),
                Next::Soon => pace::of_tries(Duration::from_millis(20)).await,
            }
        };
        let pooled = match idle {
            Some(pooled) => {
                process::count("cluster-again");
                *pooled
            }
            None => Pooled::start(flags).await,
        };
        Lease {
            pooled: Some(pooled),
            _used: used,
        }
    }
}

impl Pooled {
    async fn start(flags: &[String]) -> Self {
        let cluster = Cluster::start(flags).await;
        Self {
            first: Contents::settled(&cluster.etcd).await,
            served: Served::read_as(&cluster.admin_client()).await,
            flags: flags.to_vec(),
            cluster,
        }
    }
}

enum Next {
    /// A cluster, or the right to start one.
    Now(Option<Box<Pooled>>, Used),
    Soon,
}

fn next(flags: &[String], patient: bool) -> Next {
    let mut pool = pool();
    let idle = pool.idle.iter().position(|p| p.flags == flags);
    let idle = idle.map(|at| Box::new(pool.idle.swap_remove(at)));
    let used = pool.used.iter().filter(|used| *used == flags).count();
    let cleaned = pool.cleaned.iter().any(|cleaned| cleaned == flags);
    if idle.is_none() && (cleaned || (patient && used >= ENOUGH)) {
        return Next::Soon;
    }
    pool.used.push(flags.to_vec());
    Next::Now(idle, Used(flags.to_vec()))
}

impl Drop for Used {
    fn drop(&mut self) {
        remove(&mut pool().used, &self.0);
    }
}

/// Removes one entry of these flags.
fn remove(list: &mut Vec<Vec<String>>, flags: &[String]) {
    let at = list.iter().position(|listed| *listed == flags);
    list.swap_remove(at.expect("it was added"));
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deref for Lease {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.pooled.as_ref().expect("given back once").cluster
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.pooled.as_mut().expect("given back once").cluster
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let pooled = self.pooled.take().expect("given back once");
        // A failed test's cluster is not reused, and kine does not know the
        // transactions that restore one.
        if std::thread::panicking() || Storage::under_test() == Storage::Kine {
            return;
        }
        let flags = pooled.flags.clone();
        pool().cleaned.push(flags.clone());
        std::thread::spawn(move || {
            let port = pooled.cluster.apiserver.port;
            let clean = shared::started(move || clean(pooled));
            let mut pool = pool();
            remove(&mut pool.cleaned, &flags);
            match clean {
                Ok(Some(pooled)) => pool.idle.push(pooled),
                Ok(None) => return,
                Err(message) => {
                    eprintln!("a cluster that could not be cleaned ends: {message}");
                    return;
                }
            }
            drop(pool);
            end_if_idle_for_long(port);
        });
    }
}

fn end_if_idle_for_long(port: u16) {
    let until = Instant::now() + LINGERS;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
    let mut pool = self::pool();
    let at = pool
        .idle
        .iter()
        .position(|p| p.cluster.apiserver.port == port);
    let ended = at.map(|at| pool.idle.swap_remove(at));
    drop(pool);
    drop(ended);
}

/// Restores the stored contents, and waits until kube-apiserver acts on them.
async fn clean(mut pooled: Pooled) -> Option<Pooled> {
    let alive = pooled.cluster.apiserver.alive() && pooled.cluster.etcd.alive();
    if !alive {
        return None;
    }
    let etcd = &pooled.cluster.etcd;
    let changed = pooled.first.changed(etcd).await;
    let concerns = |some: &[&str]| {
        let mut keys = changed.iter();
        keys.any(|key| some.iter().any(|resource| key.starts_with(resource)))
    };
    if concerns(&IN_FORCE_FOR_A_WHILE) {
        return None;
    }
    pooled.first.restore(etcd, &changed).await;
    let admin = pooled.cluster.admin_client();
    if concerns(&RBAC) {
        authorizer_is_current(&admin).await;
        let changed = pooled.first.changed(etcd).await;
        pooled.first.restore(etcd, &changed).await;
    }
    if concerns(&DEFINITIONS) {
        eventually("it serves what it served", SETTLES_WITHIN, async || {
            Served::read_as(&admin).await == pooled.served
        })
        .await;
    }
    Some(pooled)
}

/// Waits until a binding that is written now is in force. Deleted ones are no longer
/// in force then.
async fn authorizer_is_current(admin: &Client) {
    let name = unique("is-current");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = objects::cluster_role_binding(&name, "apifront", "User", &name);
    admin.post(path, &binding).await.expect(201);
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": name,
            "resourceAttributes": { "verb": "list", "resource": "pods" },
        },
    });
    eventually("a binding is in force", SETTLES_WITHIN, async || {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = admin.post(path, &review).await.expect(201);
        answer["status"]["allowed"] == true
    })
    .await;
}

impl Served {
    async fn read_as(admin: &Client) -> Self {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let aggregated = admin.clone().with_header("accept", aggregated);
        Self([
            admin.get("/apis").await.text(),
            aggregated.get("/apis").await.text(),
            admin.get("/openapi/v3").await.text(),
        ])
    }
}
