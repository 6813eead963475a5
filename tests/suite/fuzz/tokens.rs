//! kube-apiserver also accepts every text that we accept as a continue token, and
//! continues at the same place.

use futures::StreamExt;
use http::StatusCode;
use kubernetes_wire::api::ContinueToken;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::mutate;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::volume;

const TOKENS: usize = 600;
const AT_ONCE: usize = 8;

#[tokio::test]
async fn tokens_are_read_as_go_reads_them() {
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let ns = cluster.namespace("tokens").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let names = ["a", "b", "c", "d"];
    for name in names {
        let body = config_map(name, json!({}), json!({}));
        admin.post(&list, &body).await.expect(201);
    }
    let mut tokens = Vec::new();
    for limit in 1..4 {
        let page = admin
            .get(&format!("{list}?limit={limit}"))
            .await
            .expect(200);
        let token = page["metadata"]["continue"].as_str().expect("a token");
        tokens.push(token.to_owned());
    }
    let mut rng = StdRng::seed_from_u64(volume::seed("tokens"));
    let mutated = (0..TOKENS).map(|n| mutate::token(&mut rng, &tokens[n % tokens.len()]));
    let mutated: Vec<String> = mutated.filter(|token| !token.is_empty()).collect();
    let (admin, list) = (&admin, &list);
    let asked = tokens.iter().chain(&mutated).map(|token| async move {
        let encoded = utf8_percent_encode(token, NON_ALPHANUMERIC);
        let answer = admin.get(&format!("{list}?continue={encoded}")).await;
        (token, answer.status, answer.json())
    });
    let answers: Vec<(&String, StatusCode, Value)> = futures::stream::iter(asked)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut read = 0;
    for (token, status, body) in answers {
        // apifront forwards tokens that it refuses.
        let Ok(ours) = ContinueToken::parse(token) else {
            continue;
        };
        assert_ne!(status, 400, "{token} {ours:?}: {body}");
        if status == 200 {
            read += 1;
            let after = names.iter().filter(|name| **name >= ours.start.as_str());
            let expected: Vec<&str> = after.copied().collect();
            let items = body["items"].as_array().expect("items");
            let found: Vec<&Value> = items.iter().map(|i| &i["metadata"]["name"]).collect();
            assert_eq!(found, expected, "{token} {ours:?}");
        }
    }
    assert!(read >= tokens.len(), "only {read} tokens were read");
}
