//! Reads through both instances: up to date with the last write, and with the same
//! bytes, versions and tokens.

use futures::future::join_all;
use http::Method;
use serde_json::json;

use super::{Tree, version};
use crate::harness::differential::{Differential, compare_exactly};
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::media_types::{PROTOBUF, TABLE};
use crate::harness::objects::config_map;

const WRITES: usize = 40;

/// Strict through two instances is Strict. A write through one way is visible at
/// once through each other, in lists, GETs and watches, from the cache.
#[tokio::test]
async fn a_write_is_read_at_once_on_every_other_way() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let namespace = tree.cluster.namespace("recent").await;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let ways = tree.ways();
    for way in &ways[1..] {
        way.get(&path).await.expect(200);
    }
    tree.upper.warm(&ways[1], &path).await;
    tree.lower.warm(&ways[2], &path).await;
    let write_and_read = async |from: usize, to: usize| {
        let name = format!("from-{from}-to-{to}");
        let object = config_map(&name, json!({}), json!({}));
        ways[from].post(&path, &object).await.expect(201);
        for n in 0..WRITES {
            let data = json!({ "n": n.to_string() });
            let object = config_map(&name, json!({}), data.clone());
            let one = format!("{path}/{name}");
            let written = ways[from].put(&one, &object).await.expect(200);
            let written: u64 = version(&written).parse().expect("a number");
            let reader = &ways[to];
            let (list, get) = tokio::join!(
                reader.send(Method::GET, &path, &[DEBUG], ""),
                reader.send(Method::GET, &one, &[DEBUG], ""),
            );
            assert!(
                to == 0 || list.is_hit() && get.is_hit(),
                "{:?}",
                list.headers
            );
            let (list, get) = (list.expect(200), get.expect(200));
            assert!(version(&list).parse::<u64>().expect("a number") >= written);
            let items = list["items"].as_array().expect("items");
            let found = items
                .iter()
                .find(|item| item["metadata"]["name"] == name.as_str());
            assert_eq!(
                found.expect("the object")["data"],
                data,
                "{name} {n} listed"
            );
            assert_eq!(get["data"], data, "{name} {n}");
        }
    };
    let pairs = [(0, 2), (1, 2), (2, 1), (2, 0), (0, 1)];
    join_all(pairs.map(|(from, to)| write_and_read(from, to))).await;
}

#[tokio::test]
async fn bytes_are_the_same_over_two_hops() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let [direct, _, lower] = tree.ways();
    let mut both = Differential::new(direct, lower);
    for path in ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3"] {
        both.expect(Expect::Document).get(path).await;
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        both.expect(Expect::Document).get_as(path, aggregated).await;
    }
    both.expect(Expect::Document).get("/openapi/v2").await;
    both.expect(Expect::NotAsked).get("/version").await;
    let cluster_roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    for path in [cluster_roles, "/api/v1/namespaces", "/api/v1/services"] {
        for accept in ["*/*", "application/yaml", PROTOBUF, TABLE] {
            both.get_as(path, accept).await;
            both.get_as(&format!("{path}?resourceVersion=0&labelSelector=a"), accept)
                .await;
        }
    }
    both.expect(Expect::Bypass("excluded"))
        .get("/api/v1/events")
        .await;
    both.get("/api/v1/namespaces/none").await;
    both.finish();
}

#[tokio::test]
async fn a_token_of_one_continues_the_list_at_another() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let ways = tree.ways();
    let list = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    for way in &ways[1..] {
        way.get(list).await.expect(200);
    }
    tree.upper.warm(&ways[1], list).await;
    tree.lower.warm(&ways[2], list).await;
    for maker in &ways {
        let first = maker.get(&format!("{list}?limit=10")).await.expect(200);
        let token = first["metadata"]["continue"].as_str().expect("a token");
        let next = format!("{list}?limit=10&continue={token}");
        let mut answers = Vec::new();
        for way in &ways {
            answers.push(way.get(&next).await);
        }
        for answer in &answers[1..] {
            let difference = compare_exactly(&answers[0], answer);
            assert!(difference.is_empty(), "{difference}");
        }
    }
}
