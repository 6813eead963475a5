//! Compares our selector parsers with Go's: which selectors kube-apiserver accepts,
//! its error messages, and what the selectors select.

use std::collections::BTreeMap;

use futures::StreamExt;
use kubernetes_wire::api::{FieldSelector, LabelSelector};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::mutate;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::volume;

const SELECTORS: &str = "APIFRONT_TEST_SELECTORS";
const DEFAULT_SELECTORS: usize = 2000;
const AT_ONCE: usize = 8;

/// A name of the maximal length, and one that is a byte longer.
const LONG: [&str; 2] = [
    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg",
    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg",
];
const PIECES: [&str; 36] = [
    LONG[0],
    LONG[1],
    "app",
    "web",
    "db",
    "=",
    "==",
    "!=",
    "!",
    ",",
    "(",
    ")",
    " in ",
    " notin ",
    ">",
    "<",
    " ",
    "n",
    "5",
    "-3",
    "0x5",
    "99999999999999999999",
    "a/b",
    "x.test/app",
    "A_b.c",
    "-",
    ".",
    "\\",
    "\"",
    "\t",
    "ü",
    "in",
    "notin",
    "exists",
    "+5",
    "metadata.name",
];
const WELL_FORMED: [&str; 12] = [
    "app=web",
    "app!=web",
    "app in (web,db)",
    "app notin (web, )",
    "!app",
    "app",
    "n>4",
    "n<-1",
    "x.test/app=A_b.c",
    "app in ()",
    "app==",
    "n in (5),app",
];
const FIELDS: [&str; 8] = [
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.name==b",
    "metadata.namespace=x",
    "metadata.name=a\\,b",
    "metadata.name=a\\\\",
    "metadata.name=,metadata.name=a",
    "",
];

fn random(rng: &mut StdRng, well_formed: &[&str]) -> String {
    match rng.random_range(0..4) {
        0 => (*well_formed.choose(rng).expect("selectors")).to_owned(),
        1 => {
            let n = rng.random_range(1..4);
            let parts = (0..n).map(|_| *well_formed.choose(rng).expect("selectors"));
            parts.collect::<Vec<_>>().join(",")
        }
        2 => {
            let selector = *well_formed.choose(rng).expect("selectors");
            mutate::text(rng, selector)
        }
        _ => {
            let n = rng.random_range(1..8);
            (0..n)
                .map(|_| *PIECES.choose(rng).expect("pieces"))
                .collect()
        }
    }
}

/// Returns kube-apiserver's answer: the names of the selected objects, or its error
/// message.
async fn ask(
    client: &Client,
    list: &str,
    key: &str,
    selector: &str,
) -> Result<Vec<String>, String> {
    let encoded = utf8_percent_encode(selector, NON_ALPHANUMERIC);
    let path = format!("{list}?resourceVersion=0&{key}={encoded}");
    let answer = client.get(&path).await;
    let body = answer.json();
    if answer.status != 200 {
        assert_eq!(answer.status, 400, "{selector:?}: {body}");
        return Err(body["message"].as_str().expect("a message").to_owned());
    }
    let items = body["items"].as_array().expect("items");
    let name = |item: &serde_json::Value| item["metadata"]["name"].as_str().map(str::to_owned);
    Ok(items.iter().filter_map(name).collect())
}

/// Sends many selectors concurrently, and returns those for which `ours` differs.
async fn differences<F>(well_formed: &[&str], key: &str, list: &str, ours: F) -> Vec<String>
where
    F: Fn(&str, &Result<Vec<String>, String>) -> Option<String>,
{
    let mut rng = StdRng::seed_from_u64(volume::seed(key));
    let wanted = volume::work(SELECTORS, DEFAULT_SELECTORS);
    let selectors: Vec<String> = (0..wanted).map(|_| random(&mut rng, well_formed)).collect();
    let client = Cluster::shared().admin_client();
    let client = &client;
    let asked = selectors
        .iter()
        .map(|selector| async move { (selector, ask(client, list, key, selector).await) });
    let answers: Vec<_> = futures::stream::iter(asked)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let refused = answers.iter().filter(|(_, answer)| answer.is_err()).count();
    println!("{key}: {} selectors, {refused} refused", answers.len());
    assert!(refused > wanted / 10 && refused < wanted * 9 / 10);
    let different = answers.iter().filter_map(|(selector, answer)| {
        ours(selector, answer).map(|ours| format!("{selector:?}\n  - {answer:?}\n  + {ours}"))
    });
    different.collect()
}

fn report(differences: &[String]) {
    let shown: Vec<&String> = differences.iter().take(20).collect();
    assert!(
        differences.is_empty(),
        "{} differ: {shown:#?}",
        differences.len()
    );
}

#[tokio::test]
async fn label_selectors() {
    let cluster = Cluster::shared();
    let ns = cluster.namespace("selectors").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let admin = cluster.admin_client();
    let objects: BTreeMap<&str, serde_json::Value> = BTreeMap::from([
        ("none", json!({})),
        ("web", json!({"app": "web", "n": "5"})),
        ("db", json!({"app": "db", "n": "3"})),
        ("empty", json!({"app": "", "x.test/app": "A_b.c"})),
        (
            "words",
            json!({"in": "notin", "notin": "in", "exists": "app"}),
        ),
        ("numbers", json!({"n": "99999999999999999999", "a": "05"})),
    ]);
    for (name, labels) in &objects {
        let body = config_map(name, labels.clone(), json!({}));
        admin.post(&list, &body).await.expect(201);
    }
    let labels: BTreeMap<&str, BTreeMap<String, String>> = objects
        .iter()
        .map(|(name, labels)| {
            (
                *name,
                serde_json::from_value(labels.clone()).expect("labels"),
            )
        })
        .collect();
    // kube-apiserver answers version 0 from its cache, which may be a moment behind.
    let all = format!("{list}?resourceVersion=0");
    crate::harness::eventually("the cache", std::time::Duration::from_secs(20), || async {
        let found = admin.get(&all).await.expect(200);
        found["items"]
            .as_array()
            .is_some_and(|i| i.len() == labels.len())
    })
    .await;
    let found = differences(&WELL_FORMED, "labelSelector", &list, |selector, answer| {
        let ours = LabelSelector::parse(selector).map(|parsed| {
            let matching = labels.iter().filter(|(_, labels)| parsed.matches(*labels));
            matching
                .map(|(name, _)| (*name).to_owned())
                .collect::<Vec<_>>()
        });
        (ours != *answer).then(|| format!("{ours:?}"))
    });
    report(&found.await);
}

/// The known fields depend on the kind. This test covers the syntax.
#[tokio::test]
async fn field_selectors() {
    let list = "/api/v1/namespaces/nowhere/configmaps";
    let found = differences(&FIELDS, "fieldSelector", list, |selector, answer| {
        let ours = FieldSelector::parse(selector);
        let same = match (&ours, answer) {
            (Ok(_), Ok(_)) => true,
            (Ok(_), Err(text)) => text.contains("is not a known field selector"),
            (Err(ours), Err(text)) => ours == text,
            (Err(_), Ok(_)) => false,
        };
        (!same).then(|| format!("{ours:?}"))
    });
    report(&found.await);
}
