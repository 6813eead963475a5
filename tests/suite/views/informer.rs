//! client-go's informer and kubectl with views.

use serde_json::Value;

use super::world::{World, version};
use crate::harness::informer::Informer;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::Kubectl;
use crate::harness::objects::pod;
use crate::harness::process::temporary_folder;

/// Returns kube-apiserver's objects in these namespaces as `namespace/name@version`.
async fn held(world: &World, namespaces: &[&String]) -> Vec<String> {
    let lists = world.lists(namespaces, "", "application/json").await;
    let items = lists.iter().flat_map(|list| {
        let list: Value = serde_json::from_slice(list).expect("JSON");
        list["items"].as_array().cloned().expect("items")
    });
    let keys = items.map(|item| format!("{}@{}", super::world::key(&item), version(&item)));
    let mut keys: Vec<String> = keys.collect();
    keys.sort();
    keys
}

fn objects(said: &Value) -> Vec<String> {
    let objects = said["objects"].as_array().expect("objects").iter();
    objects
        .map(|o| o.as_str().expect("a key").to_owned())
        .collect()
}

#[tokio::test]
async fn an_informer_ends_up_with_what_it_may_see() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(4, |_| {}).await;
    let [first, second, third, _] = &world.namespaces[..] else {
        panic!("four namespaces");
    };
    world.grant(first).await;
    world.grant(second).await;
    let client = world.client();
    world.settled(&client, &[first, second]).await;
    let until = format!("{first}/last");
    let certificate = world.certificate();
    let who = (world.cluster.ca(), &certificate);
    let informer = Informer::start(
        &world.front.url(),
        who,
        "v1/configmaps",
        &["-until", &until],
    );
    let (informer, synced): (_, Value) = informer.next().await;
    assert_eq!(objects(&synced), held(&world, &[first, second]).await);
    for round in 0..5 {
        let value = format!("round-{round}");
        for namespace in &world.namespaces {
            world.put_map(namespace, "a", &value).await;
        }
        match round % 2 {
            0 => {
                world.revoke(second).await;
                world.grant(third).await;
                world.watchable(&client, &[first, third]).await;
            }
            _ => {
                world.revoke(third).await;
                world.grant(second).await;
                world.watchable(&client, &[first, second]).await;
            }
        }
        for namespace in &world.namespaces {
            world.put_map(namespace, &value, &value).await;
        }
    }
    world.put_map(first, "last", "last").await;
    let (_, heard): (_, Value) = informer.next().await;
    assert_eq!(objects(&heard), held(&world, &[first, third]).await);
    println!("before {synced}; after {heard}");
}

#[tokio::test]
async fn kubectl_shows_what_it_may() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(3, |_| {}).await;
    let granted = [&world.namespaces[0], &world.namespaces[2]];
    for namespace in &world.namespaces {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = pod("web", serde_json::json!({}));
        world.admin().post(&path, &pod).await.expect(201);
    }
    for namespace in granted {
        world.grant(namespace).await;
    }
    let client = world.client();
    world.settled(&client, &granted).await;
    let folder = temporary_folder("views");
    let certificate = world.certificate();
    let write = |name: &str, server: &str| {
        let who = Credential::Certificate(&certificate);
        kubeconfig::write(&folder, name, server, Some(world.cluster.ca()), who)
    };
    let kubectl = Kubectl::new(&write("front", &world.front.url()));
    let direct = Kubectl::new(&write("direct", &world.cluster.server_url()));
    let command = ["get", "pods", "-A", "--no-headers"];
    let printed = kubectl.run(&command).await;
    println!(
        "$ kubectl get pods -A\n{}{}",
        printed.stdout, printed.stderr
    );
    let refused = direct.run(&command).await;
    println!("directly: {}{}", refused.stdout, refused.stderr);
    assert_eq!(refused.code, Some(1));
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let rows: Vec<Vec<&str>> = printed
        .stdout
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    let mut expected = granted.map(|namespace| vec![namespace.as_str(), "web", "0/1"]);
    expected.sort_by_key(|row| format!("{}/", row[0]));
    assert_eq!(rows, expected);
    // Each namespace must print the same as kubectl in the namespace itself.
    for namespace in granted {
        let own = ["get", "pods", "-n", namespace, "--no-headers"];
        let own = direct.run(&own).await.ok();
        let name = own.split_whitespace().take(2).collect::<Vec<_>>();
        assert_eq!(name, ["web", "0/1"]);
    }
}
