//! Reads objects with strings that are hard to write as YAML, as YAML from both
//! servers.

use futures::StreamExt;
use http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::Answer;
use crate::harness::cluster::{Cluster, create_namespace};
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::volume;

const OBJECTS: &str = "APIFRONT_TEST_YAML_OBJECTS";
const DEFAULT_OBJECTS: usize = 150;
const AT_A_TIME: usize = 16;
/// The least share of hits. The upstream orders some keys at random and cannot write
/// some characters; apifront forwards these objects.
const LEAST_HITS: f64 = 0.7;

/// Texts that YAML quotes, escapes, folds, or confuses with something else.
const TEXTS: [&str; 78] = [
    "",
    " ",
    "  ",
    "a",
    "yes",
    "No",
    "y",
    "TRUE",
    "null",
    "~",
    "oFF",
    "0",
    "-0",
    "08",
    "0x1F",
    "0b1",
    "0o7",
    "1_000",
    "1e3",
    "1e999",
    ".5",
    "5.",
    ".inf",
    "-.INF",
    ".nan",
    "+1",
    "1:30",
    "2001-01-01",
    "2001-1-1T1:2:3Z",
    "2001-02-30",
    "2001-01-01 1:2:3.5",
    "<<",
    "=",
    "---",
    "...",
    "--- a",
    "-",
    "- a",
    "-a",
    "?",
    "? a",
    ":",
    ": a",
    "a:",
    "a: b",
    "a:b",
    "#",
    "a #b",
    "a#b",
    "&a",
    "*a",
    "!a",
    "%a",
    "@a",
    "`a`",
    "|",
    "> a",
    "'",
    "'a'",
    "a'b",
    "\"a\"",
    "a\"b",
    "\\",
    "a\\nb",
    "[a]",
    "{a: b}",
    "a, b",
    "é",
    "日本語",
    "😀",
    "\u{a0}",
    "\u{feff}a",
    "a\tb",
    "\t",
    "a\rb",
    "\u{1b}[0m",
    "a\u{2028}b",
    "\u{2029}",
];

fn text(rng: &mut StdRng) -> String {
    let mut text = String::new();
    for _ in 0..[1, 1, 1, 2, 3, 20][rng.random_range(0..6)] {
        text += TEXTS.choose(rng).expect("texts");
        text += ["", "", " ", " ", "\n", "  ", "\n\n", " \n "]
            .choose(rng)
            .expect("spaces");
    }
    match rng.random_range(0..10) {
        0 => text.repeat(8),
        1 => text.trim().to_owned(),
        2 => (0..rng.random_range(1..12))
            .map(|_| *b"0123456789+-_.:eExoTZ ".choose(rng).expect("bytes") as char)
            .collect(),
        // This text is rare, since every object with it is forwarded.
        3 if rng.random_bool(0.03) => "\u{7f}\u{85}".to_owned(),
        _ => text,
    }
}

fn key(rng: &mut StdRng) -> String {
    let length = match rng.random_range(0..12) {
        0 => rng.random_range(100..253),
        _ => rng.random_range(1..9),
    };
    let characters = (0..length).map(|_| {
        let common = rng.random_bool(0.98);
        let from: &[u8] = if common {
            b"abcXYZ-_.abcXYZ-_.19"
        } else {
            b"0"
        };
        char::from(*from.choose(rng).expect("bytes"))
    });
    // A ConfigMap's key cannot begin with two dots or be a single dot.
    let key: String = characters.collect();
    key.replace('.', if rng.random_bool(0.5) { "-" } else { "a." })
}

fn config_map(rng: &mut StdRng, n: usize) -> Value {
    let mut texts = |prefix: &str, most| -> Map<String, Value> {
        let pairs = (0..rng.random_range(0..most)).map(|_| {
            let key = format!("{prefix}{}", key(rng));
            let key = key.get(..253).unwrap_or(&key).to_owned();
            (key, json!(text(rng)))
        });
        pairs.collect()
    };
    let data = texts("", 9);
    // The name part of an annotation's key has at most 63 characters.
    let annotations = texts("x", 5).into_iter().map(|(key, value)| {
        let key = key.get(..60).unwrap_or(&key);
        (format!("example.com/{key}x"), value)
    });
    let annotations: Map<String, Value> = annotations.collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("text-{n:04}"), "annotations": annotations },
        "data": data,
    })
}

/// Returns the difference, and whether the cache answered. Forwarded answers are not
/// compared: unordered keys make them differ from one to the next.
async fn compared(both: &Differential, path: &str, accept: &str) -> (String, bool) {
    let headers = [("accept", accept)];
    let outcome = both.unforeseen(Method::GET, path, &headers).await;
    let hit = outcome.front.as_ref().is_some_and(Answer::is_hit);
    if !hit && outcome.front.is_some_and(|answer| answer.status == 200) {
        return (String::new(), false);
    }
    (outcome.difference, hit)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_text_is_written_as_kube_apiserver_writes_it() {
    let seed = volume::seed("yaml");
    let wanted = volume::work(OBJECTS, DEFAULT_OBJECTS);
    let admin = Cluster::shared().admin_client();
    let apifront = Apifront::shared();
    let front = if oracle() {
        admin.clone()
    } else {
        apifront.admin_client()
    };
    let namespace = create_namespace(&admin, "yaml").await;
    let list = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut rng = StdRng::seed_from_u64(seed);
    for n in 0..wanted {
        let answer = admin.post(&list, &config_map(&mut rng, n)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    apifront
        .warm(&front, &format!("{list}?resourceVersion=0"))
        .await;

    let mut both = Differential::new(admin, front);
    let asked = futures::stream::iter(0..wanted).map(|n| {
        let (both, path) = (&both, format!("{list}/text-{n:04}?resourceVersion=0"));
        async move { compared(both, &path, "application/yaml").await }
    });
    let found: Vec<_> = asked.buffer_unordered(AT_A_TIME).collect().await;
    let hits = found.iter().filter(|(_, hit)| *hit).count();
    println!("yaml: {hits} of {wanted} objects from the cache");
    both.add(found.into_iter().map(|(difference, _)| difference));
    let table = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
    let partial = "application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    for accept in ["application/yaml", table, partial] {
        for rest in [
            "?resourceVersion=0",
            "?resourceVersion=0&limit=7",
            "?limit=x",
        ] {
            let found = compared(&both, &format!("{list}{rest}"), accept).await;
            both.add([found.0]);
        }
        let none = format!("{list}/none?resourceVersion=0");
        // An object cannot be a list, so these requests get 406, or 404 before that.
        let expected = match accept == partial {
            true => Expect::Bypass("representation"),
            false => Expect::Hit,
        };
        both.expect(expected).get_as(&none, accept).await;
    }
    both.finish();
    assert!(oracle() || hits as f64 >= LEAST_HITS * wanted as f64);
}
