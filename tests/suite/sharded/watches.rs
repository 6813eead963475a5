//! Watches of random shards while objects change.

use std::collections::BTreeSet;

use futures::future::join_all;
use http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::selectors::by_uid_or_namespace;
use super::{NAMESPACES, World, escaped};
use crate::harness::client::Client;
use crate::harness::expect::DEBUG;
use crate::harness::objects::config_map;
use crate::harness::volume;

const WATCHERS: usize = 24;
const CHANGES: usize = 60;
/// The writers finish long before the watches end.
const LASTS: &str = "watch=1&timeoutSeconds=25";

/// A watch of a shard has the same bytes as from kube-apiserver with the feature
/// gate. Together the shards have every event.
#[tokio::test]
async fn watches_of_shards_have_the_events_of_a_server_that_serves_them() {
    skip_under_oracle!("the upstream has no shards");
    let world = World::shared();
    let _changing = world.changing().await;
    let (direct, client) = (world.direct(), world.front.admin_client());
    let mut rng = StdRng::seed_from_u64(volume::seed("sharded_watches"));
    let list = client.get("/api/v1/configmaps").await.expect(200);
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    let half = 1_u128 << 63;
    let halves = [(0, half), (half, 2 * half)];
    let halves = halves.map(|(start, end)| {
        format!("shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')")
    });
    let random = (0..WATCHERS).map(|_| by_uid_or_namespace(&mut rng));
    let selectors: Vec<String> = halves.into_iter().chain(random).collect();
    let paths: Vec<String> = selectors
        .iter()
        .enumerate()
        .map(|(n, selector)| {
            let selector = escaped(selector);
            let (path, narrowed) = match n % 6 {
                _ if n < 2 => ("/api/v1/configmaps", ""),
                0 => ("/api/v1/namespaces/space-1/configmaps", ""),
                1 => ("/api/v1/configmaps", "&labelSelector=parity%3Dodd"),
                2 => ("/api/v1/watch/configmaps", ""),
                _ => ("/api/v1/configmaps", ""),
            };
            format!("{path}?{LASTS}&resourceVersion={version}&shardSelector={selector}{narrowed}")
        })
        .collect();
    let stream = async |client: &Client, path: &str| {
        let accept = ("accept", "application/json");
        client.send(Method::GET, path, &[DEBUG, accept], "").await
    };
    let theirs = join_all(paths.iter().map(|path| stream(&direct, path)));
    let ours = join_all(paths.iter().map(|path| stream(&client, path)));
    let admin = world.cluster.admin_client();
    let (theirs, ours, ()) = tokio::join!(theirs, ours, change(&admin, &mut rng));
    for ((path, theirs), ours) in paths.iter().zip(&theirs).zip(&ours) {
        assert!(ours.is_hit(), "{path}: {:?}", ours.headers);
        assert_eq!(ours.text(), theirs.text(), "{path}");
    }
    let lines = |answer: usize| -> BTreeSet<String> {
        ours[answer].text().lines().map(str::to_owned).collect()
    };
    let (first, second) = (lines(0), lines(1));
    assert!(first.is_disjoint(&second));
    let events = first.len() + second.len();
    println!("{events} events in two halves");
    assert!(first.len() > CHANGES / 8 && second.len() > CHANGES / 8);
    assert_eq!(events, CHANGES * 4);
}

/// Creates, changes (into and out of a label selector) and deletes objects.
async fn change(admin: &Client, rng: &mut StdRng) {
    for n in 0..CHANGES {
        let namespace = format!("space-{}", rng.random_range(0..NAMESPACES));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let parity = *["even", "odd"].choose(rng).expect("one");
        let labels = |parity| json!({ "parity": parity });
        let name = format!("changing-{n}");
        let object = config_map(&name, labels(parity), json!({}));
        admin.post(&path, &object).await.expect(201);
        let one = format!("{path}/{name}");
        for parity in ["odd", "even"] {
            let object = config_map(&name, labels(parity), json!({ "to": parity }));
            admin.put(&one, &object).await.expect(200);
        }
        admin.delete(&one).await.expect(200);
    }
}
