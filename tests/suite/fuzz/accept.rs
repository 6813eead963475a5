//! Random negotiation: valid, odd and invalid Accept headers, with random user
//! agents and layout options. Compares both servers on reads that succeed and reads
//! that fail.
//!
//! `APIFRONT_TEST_NEGOTIATIONS` sets the number of requests.

use std::collections::BTreeMap;

use futures::StreamExt;
use http::Method;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::mutate;
use crate::harness::apifront::{Apifront, oracle};
use crate::harness::cluster::Cluster;
use crate::harness::differential::{Differential, compare};
use crate::harness::sample::{GROUP, NAMESPACE};
use crate::harness::volume;

const NEGOTIATIONS: &str = "APIFRONT_TEST_NEGOTIATIONS";
const DEFAULT_NEGOTIATIONS: usize = 2_000;
const AT_A_TIME: usize = 24;
/// The least share of hits. The upstream refuses many of these requests.
const LEAST_HITS: f64 = 0.2;

const TYPES: [&str; 18] = [
    "application/json",
    "application/json",
    "application/json",
    "application/yaml",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf",
    "*/*",
    "application/*",
    "*",
    "text/html",
    "application/cbor",
    "application/cbor-seq",
    "application/json/x",
    "APPLICATION/JSON",
    "application",
    "application/apply-patch+yaml",
    "",
];
const SHAPES: [&str; 8] = [
    "as=Table;v=v1;g=meta.k8s.io",
    "as=Table;v=v1;g=meta.k8s.io",
    "as=Table;v=v1beta1;g=meta.k8s.io",
    "as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
    "g=meta.k8s.io;v=v1;as=PartialObjectMetadata",
    "as=Nonsense;v=v1;g=meta.k8s.io",
];
const PARAMETERS: [&str; 44] = [
    "q=0",
    "q=0.1",
    "q=0.5",
    "q=1",
    "q=1.5",
    "q=-1",
    "q=x",
    "q=",
    "q=1e-2",
    "q=NaN",
    "q=inf",
    "q=1e99",
    "q=.5",
    "q=0x1p-2",
    "q=0_1",
    " q = 0.3",
    "as=Table",
    "as=",
    "as=table",
    "g=",
    "g=meta.k8s.io",
    "g=x",
    "v=v1",
    "v=",
    "v=v2",
    "stream=watch",
    "stream=x",
    "stream=",
    "sv=v1",
    "sv=v2",
    "sv=",
    "pretty=1",
    "pretty=0",
    "pretty=true",
    "pretty=",
    "profile=x",
    "charset=utf-8",
    "charset=\"utf-8\"",
    "export=1",
    "=",
    "==",
    "a=b=c",
    "a==",
    "alone",
];
const AGENTS: [&str; 9] = [
    "kubectl/v1.37.1 (linux/amd64) kubernetes/0",
    "curl/8.5.0",
    "curl",
    "Curl/8",
    "Wget/1.21",
    "Mozilla/5.0 (X11; Linux x86_64)",
    "Mozilla/4.0",
    "",
    "Go-http-client/2.0",
];
const PRETTY: [&str; 12] = [
    "1", "0", "true", "false", "True", "tRUE", "yes", "t", "F", "", "2", "%20true",
];
const ENCODINGS: [&str; 9] = [
    "gzip",
    "gzip, deflate, br",
    "deflate,gzip",
    "gzip;q=1",
    "gzip;q=0",
    " gzip ",
    "GZIP",
    "*",
    "identity",
];

fn clause(rng: &mut StdRng) -> String {
    let mut clause = (*TYPES.choose(rng).expect("types")).to_owned();
    let mut add = |parameter: &str, rng: &mut StdRng| {
        let separator = [";", ";", ";", "; ", " ; ", ";;"].choose(rng);
        clause += separator.expect("separators");
        clause += parameter;
    };
    if rng.random_bool(0.35) {
        add(SHAPES.choose(rng).expect("shapes"), rng);
    }
    while rng.random_bool(0.3) {
        add(PARAMETERS.choose(rng).expect("parameters"), rng);
    }
    clause
}

fn accept(rng: &mut StdRng) -> String {
    let clauses = match rng.random_range(0..50) {
        0 => 14,
        n => 1 + n % 4,
    };
    let clauses: Vec<String> = (0..clauses).map(|_| clause(rng)).collect();
    let separator = [",", ",", ", ", " , ", ",,"].choose(rng);
    let mut accept = clauses.join(separator.expect("separators"));
    if rng.random_bool(0.1) {
        accept = mutate::text(rng, &accept);
    }
    // A header's value neither begins nor ends with a space.
    accept.trim().to_owned()
}

fn request(rng: &mut StdRng) -> (String, Vec<(&'static str, String)>) {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let widgets = format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets");
    let list = [pods, widgets, "/api/v1/namespaces".to_owned()];
    let name = ["running", "red", "default"];
    let n = rng.random_range(0..list.len());
    let (mut path, name) = (list[n].clone(), name[n]);
    let mut query = Vec::new();
    match rng.random_range(0..20) {
        0..8 => query.push("resourceVersion=0".to_owned()),
        8..14 => path += &format!("/{name}?resourceVersion=0"),
        14..16 => path += "/none?resourceVersion=0",
        16 => query.push("resourceVersion=abc".to_owned()),
        17 => query.push("resourceVersion=0&limit=2".to_owned()),
        _ => query.push("watch=1&timeoutSeconds=1&resourceVersion=0".to_owned()),
    }
    if rng.random_bool(0.25) {
        query.push(format!("pretty={}", PRETTY.choose(rng).expect("values")));
    }
    if rng.random_bool(0.1) {
        let include = ["None", "Metadata", "Object", "x"].choose(rng);
        query.push(format!("includeObject={}", include.expect("values")));
    }
    for part in query {
        path += if path.contains('?') { "&" } else { "?" };
        path += &part;
    }
    let mut headers = Vec::new();
    for _ in 0..[0, 1, 1, 1, 1, 1, 1, 2][rng.random_range(0..8)] {
        headers.push(("accept", accept(rng)));
    }
    let choose = |from: &[&str], rng: &mut StdRng| from.choose(rng).expect("values").to_string();
    if rng.random_bool(0.4) {
        headers.push(("user-agent", choose(&AGENTS, rng)));
    }
    if rng.random_bool(0.2) {
        headers.push(("accept-encoding", choose(&ENCODINGS, rng)));
    }
    (path, headers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accept_headers_mean_what_they_mean_to_kube_apiserver() {
    let seed = volume::seed("negotiation");
    let wanted = volume::work(NEGOTIATIONS, DEFAULT_NEGOTIATIONS);
    let cluster = Cluster::quiet();
    let (direct, front) = (cluster.admin_client(), Apifront::quiet().admin_client());
    let front = if oracle() { direct.clone() } else { front };
    for path in [
        format!("/api/v1/namespaces/{NAMESPACE}/pods?resourceVersion=0"),
        format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets?resourceVersion=0"),
        "/api/v1/namespaces?resourceVersion=0".to_owned(),
    ] {
        Apifront::quiet().warm(&front, &path).await;
    }
    let mut both = Differential::new(direct, front);
    let outcomes = Mutex::new(BTreeMap::<String, usize>::new());
    let mut rng = StdRng::seed_from_u64(seed);
    let requests: Vec<_> = (0..wanted).map(|_| request(&mut rng)).collect();
    let asked = futures::stream::iter(&requests).map(|(path, headers)| {
        let (both, outcomes) = (&both, &outcomes);
        async move {
            let headers: Vec<_> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let outcome = both.unforeseen(Method::GET, path, &headers).await;
            let front = outcome.front.as_ref();
            let cache = front.map_or("", |answer| answer.header("x-apifront-cache"));
            let cache = cache.split("; rv=").next().unwrap_or_default();
            *outcomes.lock().entry(cache.to_owned()).or_default() += 1;
            outcome.difference
        }
    });
    let found: Vec<String> = asked.buffer_unordered(AT_A_TIME).collect().await;
    let outcomes = outcomes.into_inner();
    println!("negotiation: {wanted} requests: {outcomes:#?}");
    both.add(found);
    both.finish();
    let hits = outcomes.get("hit").copied().unwrap_or_default();
    assert!(oracle() || hits as f64 >= LEAST_HITS * wanted as f64);
}

/// A write is refused in kube-apiserver's words if its content type is not
/// supported.
#[tokio::test]
async fn content_types_of_writes() {
    let cluster = Cluster::quiet();
    let (direct, front) = (cluster.admin_client(), Apifront::quiet().admin_client());
    let mut differences = String::new();
    let mut compared = 0;
    for path in [
        format!("/api/v1/namespaces/{NAMESPACE}/configmaps?dryRun=All"),
        format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets?dryRun=All"),
        "/api/v1/namespaces?dryRun=All".to_owned(),
    ] {
        for kind in [
            "application/json",
            "application/json;charset=utf-8",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/cbor",
            "application/x-www-form-urlencoded",
            "text/plain",
            "Application/JSON",
            "nonsense",
            ";",
            "",
        ] {
            for accept in ["application/json", "application/yaml", "text/html"] {
                let headers = [("content-type", kind), ("accept", accept)];
                let one = path.replace('?', "/x?");
                for (method, path) in [(Method::POST, &path), (Method::PATCH, &one)] {
                    let right = direct.try_send(method.clone(), path, &headers, "{").await;
                    // kube-apiserver resets the stream of some requests.
                    let Ok(right) = right else { continue };
                    let found = front.send(method.clone(), path, &headers, "{").await;
                    let difference = compare(&right, &found);
                    compared += 1;
                    if !difference.is_empty() {
                        differences += &format!("{method} {path} {headers:?}\n{difference}");
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(compared > 150, "{compared}");
}
