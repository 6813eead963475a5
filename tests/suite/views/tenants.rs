//! A user who may write RBAC in one namespace, or who holds many views, does not
//! affect the views of others.

use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{MAPS, SOON, World, keys, list_and_watch, told, version};
use crate::harness::cluster::{Cluster, grant, unique};
use crate::harness::eventually;
use crate::harness::objects::{role, role_binding};
use crate::harness::watch::Watch;

/// More names than a view may have.
const NAMES: usize = 1_001;
/// A watch that lives this long was not refused.
const LIVES: Duration = Duration::from_millis(300);
const IN_A_VIEW: usize = 100;

const LEFT_OUT: &str = "views.maxNamesPerNamespace";

/// One Role with very many names, granted to everybody, must not end everybody's
/// watches with a 403.
#[tokio::test]
async fn names_of_one_namespace_leave_the_others_in_the_view() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |_| {}).await;
    for namespace in &world.namespaces {
        world.grant(namespace).await;
    }
    let client = world.client();
    let granted: Vec<&String> = world.namespaces.iter().collect();
    world.settled(&client, &granted).await;
    let (_, mut watch) = list_and_watch(&world, &client).await;
    let theirs = world.cluster.namespace("many-names").await;
    let names: Vec<String> = (0..NAMES).map(|n| format!("m{n:04}")).collect();
    let mut many = role("many", &[""], &["configmaps"], &["list", "watch"]);
    many["rules"][0]["resourceNames"] = json!(names);
    let bound = role_binding("many", "many", "Group", &world.group);
    grant(&world.admin(), &theirs, &[many, bound]).await;
    for name in ["m0000", "m1000"] {
        world.put_map(&theirs, name, "first").await;
    }
    let header = format!("namespaces=2, names={IN_A_VIEW}");
    eventually("the first names", SOON, || async {
        let answer = client.get(MAPS).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let all = keys(&answer.json());
        for namespace in &granted {
            assert!(all.contains(&format!("{namespace}/a")), "{all:?}");
        }
        answer.header("x-apifront-view") == header
            && answer.header("warning").contains(LEFT_OUT)
            && !answer.header("warning").contains("nobody has answered")
            && all.len() == 7
    })
    .await;
    let reviews = || async {
        let labels = &[("result", "allowed")][..];
        let front = &world.front;
        front.metric("apifront_views_reviews_total", labels).await
    };
    let before = reviews().await;
    // The watch continues.
    world.put_map(granted[0], "a", "again").await;
    let wanted = format!("MODIFIED {}/a", granted[0]);
    while told(&mut watch, 1).await != [wanted.clone()] {}
    // Names that change constantly cause only a limited number of reviews.
    for round in 0..10 {
        let names: Vec<String> = (0..NAMES).map(|n| format!("r{round}-{n:04}")).collect();
        let mut many = role("many", &[""], &["configmaps"], &["list", "watch"]);
        many["rules"][0]["resourceNames"] = json!(names);
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{theirs}/roles/many");
        world.admin().put(&path, &many).await.expect(200);
        let wanted = format!("r{round}-0000");
        world.put_map(&theirs, &wanted, "first").await;
        let answer = client.get(MAPS).await.expect(200);
        assert!(keys(&answer).len() >= 6);
    }
    let asked = reviews().await - before;
    assert!(
        asked <= f64::from(u32::try_from(4 * IN_A_VIEW + 64).unwrap()),
        "{asked}"
    );
}

/// A user who watches as many resources as there may be views must leave some for
/// others.
#[tokio::test]
async fn the_views_of_one_user_leave_others_a_part() {
    skip_under_oracle!("kube-apiserver has no views");
    let other = unique("other");
    let world = World::start(1, |config| {
        config["views"]["maxViews"] = json!(4);
        let users = config["views"]["users"].as_array_mut().expect("users");
        users.push(json!(other));
    })
    .await;
    let namespace = &world.namespaces[0];
    world.grant(namespace).await;
    world.bind(namespace, &other, "User", &other).await;
    let mut all = role(&other, &["*"], &["*"], &["list", "watch"]);
    all["kind"] = json!("ClusterRole");
    all["metadata"] = json!({ "name": other });
    let path = format!("{}/clusterroles", super::world::RBAC);
    world.admin().post(&path, &all).await.expect(201);
    let certificate = world.cluster.certificates.client(&other, &[]);
    let other = world.front.client(Some(&certificate));
    let mut watches = Vec::new();
    for resource in ["configmaps", "pods", "services", "endpoints"] {
        let list = format!("/api/v1/{resource}?resourceVersion=0");
        eventually("a view", SOON, || async {
            other.get(&list).await.status == 200
        })
        .await;
        let mut watch = Watch::open(&other, &format!("{list}&watch=1")).await;
        assert!(!watch.is_refused(LIVES).await, "{resource}");
        watches.push(watch);
    }
    let client = world.client();
    world.settled(&client, &[namespace]).await;
    let (_, mut own) = list_and_watch(&world, &client).await;
    world.put_map(namespace, "b", "again").await;
    let wanted = format!("MODIFIED {namespace}/b");
    while told(&mut own, 1).await != [wanted.clone()] {}
    client.get(MAPS).await.expect(200);
    // A fair part is two places each.
    let mut ended = 0;
    for watch in &mut watches {
        while let Some(event) = watch.next_within(LIVES).await {
            if event.is_err() {
                ended += 1;
                break;
            }
        }
    }
    assert_eq!(ended, 2);
}

/// A list of a view must not wait for a version that nobody writes, and ask the
/// upstream for all names each time.
#[tokio::test]
async fn lists_of_a_quiet_view_ask_nobody() {
    skip_under_oracle!("kube-apiserver has no views");
    let cluster = Cluster::leased(&[]).await;
    let world = World::before(cluster, 1, |_| {}).await;
    let namespace = &world.namespaces[0];
    world.grant(namespace).await;
    let client = world.client();
    let began = Instant::now();
    world.settled(&client, &[namespace]).await;
    println!("the first list of the view: {:?}", began.elapsed());
    let list = format!("{MAPS}?resourceVersion=0");
    let asked = || async {
        let requests = crate::harness::apifront::upstream_requests(&world.front.metrics().await);
        requests["shared_read"]
    };
    client.get(&list).await.expect(200);
    let before = asked().await;
    let mut times = Vec::new();
    // The questions were asked while the view was made, and not repeatedly.
    assert!(before <= 10.0, "{before}");
    for _ in 0..20 {
        let began = Instant::now();
        let answer = client.get(&list).await.expect(200);
        times.push(began.elapsed());
        // A client can watch from this version.
        let path = format!(
            "{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={}",
            version(&answer)
        );
        let mut watch = Watch::open(&client, &path).await;
        assert!(!watch.is_refused(LIVES).await);
    }
    assert_eq!(asked().await - before, 0.0);
    times.sort();
    println!("a list of the view: {:?} at p50", times[times.len() / 2]);
}
