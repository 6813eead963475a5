//! HTTP/2 connections that end by chance, so that clients spread over replicas.

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;

/// The most that both servers allow.
const CHANCE: f64 = 0.02;
/// Without an end, so many requests would be a chance of 1 in 10^26.
const REQUESTS: usize = 3_000;

/// Sends requests on one connection until it ends. All are answered, and a watch on
/// the connection goes on.
async fn ends_in_order(server: &Client, writer: &Client, namespace: &str) {
    let client = server.separate();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut watch = Watch::open(&client, &format!("{path}?watch=1&resourceVersion=0")).await;
    let mut requests = 0;
    while client.is_connected().await {
        requests += 1;
        assert!(requests < REQUESTS, "the connection does not end");
        match client.try_send(Method::GET, "/version", &[], "").await {
            Ok(answer) => drop(answer.expect(200)),
            // The client's library was told first, and has not sent the request.
            Err(error) => {
                let error = error.downcast_ref::<hyper::Error>();
                assert!(error.is_some_and(hyper::Error::is_canceled), "{error:?}");
                break;
            }
        }
    }
    let name = unique("after");
    let object = config_map(&name, json!({}), json!({}));
    writer.post(&path, &object).await.expect(201);
    loop {
        let event = watch.next().await.expect("the watch goes on");
        if event.name() == name {
            return;
        }
    }
}

#[tokio::test]
async fn connections_end_by_chance_as_those_of_kube_apiserver() {
    skip_under_oracle!("it is asked in the same test");
    let flag = format!("--goaway-chance={CHANCE}");
    let cluster = Cluster::leased(&[flag]).await;
    let front = Apifront::start(&cluster, |config| {
        config["serving"]["goawayChance"] = json!(CHANCE);
    })
    .await;
    let admin = cluster.admin_client();
    let namespace = cluster.namespace("goaway").await;
    for server in [cluster.admin_client(), front.admin_client()] {
        for _ in 0..3 {
            ends_in_order(&server, &admin, &namespace).await;
        }
    }
    let ended = front
        .metric(
            "apifront_connections_closed_total",
            &[("reason", "goaway-chance")],
        )
        .await;
    assert!(ended >= 1.0, "{ended}");
}
