//! A user who may write roles in one namespace can write very many names. Other
//! users' requests must not wait for the work that these names cause.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::flood::Flood;
use super::measure::{Bound, Times, assert_unharmed, is_controlled, print_beside, print_control};
use crate::harness::apifront::Apifront;
use crate::harness::certificates::Pair;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, grant};
use crate::harness::eventually;
use crate::harness::objects::{config_map, role, role_binding};
use crate::harness::pool::Lease;

/// Together the roles are larger than any request, and each is smaller than etcd's
/// limit for an object.
const ROLES: usize = 10;
const NAMES: usize = 60_000;
/// The group whose members have these roles.
const GROUP: &str = "of-many-names";
const HOLDERS: usize = 40;
/// The numbers of concurrent lists.
const AT_A_TIME: [usize; 2] = [8, 64];
const SOON: Duration = Duration::from_secs(30);
const FOR: Duration = Duration::from_secs(4);
/// A flood of lists takes its share of the processors.
const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(100),
};

const EVERYWHERE: &str = "/api/v1/pods";

struct World {
    cluster: Lease,
    front: Apifront,
    /// The list by which the requests of others are measured.
    list: String,
    /// Each member has one certificate: with another one, whose ID is among the
    /// values of the user, a member has another view.
    holders: Vec<Pair>,
}

impl World {
    /// Binds the roles to the group, and waits until its members' views have the
    /// first names.
    async fn start() -> Self {
        let cluster = Cluster::leased(&[]).await;
        let admin = cluster.admin_client();
        let ns = cluster.namespace("names").await;
        let front = front(&cluster).await;
        let maps = format!("/api/v1/namespaces/{ns}/configmaps");
        let map = config_map("a", json!({}), json!({}));
        admin.post(&maps, &map).await.expect(201);
        let names: Vec<String> = (0..NAMES).map(|n| format!("pod-{n}")).collect();
        let mut grants = Vec::new();
        for n in 0..ROLES {
            let name = format!("names-{n}");
            let mut role = role(&name, &[""], &["pods"], &["list", "watch"]);
            role["rules"][0]["resourceNames"] = json!(names);
            grants.push(role);
            grants.push(role_binding(&name, &name, "Group", GROUP));
        }
        grant(&admin, &ns, &grants).await;
        let holders = (0..HOLDERS).map(|n| cluster.certificates.client(&holder(n), &[GROUP]));
        let world = Self {
            list: format!("{maps}?resourceVersion=0"),
            holders: holders.collect(),
            cluster,
            front,
        };
        world
            .front
            .warm(&world.front.admin_client(), &world.list)
            .await;
        world.has_views(&world.front).await;
        world
    }

    async fn has_views(&self, front: &Apifront) {
        let holder = self.client_of(front, 0);
        eventually("there are too many names", SOON, || async {
            let answer = holder.get(EVERYWHERE).await;
            let warning = answer.header("warning");
            answer.status == 200 && warning.contains("views.maxNamesPerNamespace")
        })
        .await;
    }

    fn client(&self, n: usize) -> Client {
        self.client_of(&self.front, n)
    }

    fn client_of(&self, front: &Apifront, n: usize) -> Client {
        front.client(Some(&self.holders[n % HOLDERS]))
    }

    /// Lists with `at_a_time` concurrent requests of holders.
    async fn flood(&self, front: &Apifront, at_a_time: usize) -> Flood {
        let clients = (0..at_a_time).map(|n| self.client_of(front, n)).collect();
        lists(clients, EVERYWHERE).await
    }

    /// Lists the same resource with as many requests of somebody who needs no view.
    async fn ordinary_flood(&self, at_a_time: usize) -> Flood {
        let clients = (0..at_a_time).map(|_| self.front.admin_client()).collect();
        lists(clients, EVERYWHERE).await
    }

    /// Times `/livez` and another user's list.
    async fn others(&self) -> [Times; 2] {
        let client = self.front.admin_client();
        Times::reads_of_both(&client, ["/livez", &self.list], FOR).await
    }

    fn unharmed(quiet: &[Times; 2], attacked: &[Times; 2]) {
        for (what, (quiet, attacked)) in WHAT.iter().zip(quiet.iter().zip(attacked)) {
            assert_unharmed(what, quiet, attacked, BOUND);
        }
    }
}

/// Lists `path` with one request of each client at a time.
async fn lists(clients: Vec<Client>, path: &str) -> Flood {
    let path = path.to_owned();
    Flood::start(clients.len(), move |n| {
        let (client, path) = (clients[n % clients.len()].clone(), path.clone());
        async move {
            client.get(&path).await.expect(200);
        }
    })
    .await
}

const WHAT: [&str; 2] = ["/livez", "another's list"];

async fn front(cluster: &Cluster) -> Apifront {
    Apifront::start(cluster, |config| {
        let holders: Vec<String> = (0..HOLDERS).map(holder).collect();
        config["views"] = json!({ "users": holders });
    })
    .await
}

fn holder(n: usize) -> String {
    format!("holder-{n}")
}

/// A member's list must not cost the work of all names.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn lists_by_holders_of_many_names_stall_nobody() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start().await;
    let quiet = world.others().await;
    let another = match is_controlled() {
        true => Some(front(&world.cluster).await),
        false => None,
    };
    for at_a_time in AT_A_TIME {
        let flood = world.flood(&world.front, at_a_time).await;
        let attacked = world.others().await;
        println!("{} lists, {at_a_time} at a time", flood.end());
        World::unharmed(&quiet, &attacked);
        if let Some(another) = &another {
            world.has_views(another).await;
            let flood = world.flood(another, at_a_time).await;
            let apart = world.others().await;
            println!("{} lists of another apifront", flood.end());
            for (what, (apart, attacked)) in WHAT.iter().zip(apart.iter().zip(&attacked)) {
                print_control(what, apart, attacked);
            }
            let flood = world.ordinary_flood(at_a_time).await;
            let ordinary = world.others().await;
            println!("{} lists by somebody without a view", flood.end());
            for (what, (ordinary, attacked)) in WHAT.iter().zip(ordinary.iter().zip(&attacked)) {
                print_beside(what, "beside ordinary lists", ordinary, attacked);
            }
        }
    }
    world.front.stop().await;
}

/// A write of a role must not make every view go through all names.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn a_write_of_rights_wakes_no_view_of_many_names() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start().await;
    for n in 0..HOLDERS {
        world.client(n).get(EVERYWHERE).await.expect(200);
    }
    let quiet = world.others().await;
    let stop = AtomicBool::new(false);
    let write = async {
        let admin = world.cluster.admin_client();
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let named = |n: usize| -> Value {
            let mut role = role("restless", &[""], &["pods"], &["get"]);
            role["kind"] = json!("ClusterRole");
            role["metadata"]["annotations"] = json!({ "n": n.to_string() });
            role
        };
        admin.post(path, &named(0)).await.expect(201);
        let mut writes = 1;
        while !stop.load(Ordering::Relaxed) {
            let path = format!("{path}/restless");
            admin.put(&path, &named(writes)).await.expect(200);
            writes += 1;
            crate::harness::pace::of_load(Duration::from_millis(200)).await;
        }
        writes
    };
    let measure = async {
        let attacked = world.others().await;
        stop.store(true, Ordering::Relaxed);
        attacked
    };
    let (writes, attacked) = tokio::join!(write, measure);
    println!("{writes} writes");
    World::unharmed(&quiet, &attacked);
    world.front.stop().await;
}
