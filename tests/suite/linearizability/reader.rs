//! Readers through apifront that record the states in their answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde::Deserialize;

use super::history::{Read, Seen};
use super::writer;
use crate::harness::client::Client;

/// The number of lists in ten reads. Half of the lists select by label.
const LISTS: u32 = 2;

#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    items: Vec<Object>,
}

#[derive(Deserialize)]
struct ListMeta {
    #[serde(rename = "resourceVersion")]
    version: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMeta,
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
struct Data {
    #[serde(default)]
    n: String,
}

#[derive(Deserialize)]
struct ObjectMeta {
    name: String,
    #[serde(rename = "resourceVersion")]
    version: String,
}

impl Object {
    fn seen(&self) -> Seen {
        Seen {
            number: self.data.n.parse().expect("a number"),
            version: self.metadata.version.parse().expect("a version"),
        }
    }
}

#[derive(Default)]
pub struct Recorded {
    pub reads: Vec<Read>,
    pub hits: usize,
}

/// Reads repeatedly until all readers together have read `wanted` times.
pub async fn read(
    client: Client,
    list: &str,
    seed: u64,
    done: &AtomicUsize,
    wanted: usize,
) -> Recorded {
    let mut rng = StdRng::seed_from_u64(seed);
    let keys = writer::keys();
    let mut recorded = Recorded::default();
    while done.fetch_add(1, Ordering::Relaxed) < wanted {
        let (read, cache) = if rng.random_range(0..10) < LISTS {
            list_once(&client, list, rng.random_bool(0.5), &keys).await
        } else {
            let key = keys.choose(&mut rng).expect("keys");
            get_once(&client, list, key).await
        };
        recorded.hits += usize::from(cache.starts_with("hit"));
        recorded.reads.push(read);
    }
    recorded
}

pub async fn get_once(client: &Client, list: &str, key: &str) -> (Read, String) {
    let debug = [("x-apifront-debug", "cache")];
    let path = format!("{list}/{key}");
    let begun = Instant::now();
    let answer = client.send(Method::GET, &path, &debug, "").await;
    let ended = Instant::now();
    let seen = match answer.status.as_u16() {
        404 => None,
        200 => {
            let object: Object = serde_json::from_slice(&answer.body).expect("an object");
            Some(object.seen())
        }
        _ => panic!("{} {}", answer.status, answer.text()),
    };
    let read = Read {
        begun,
        ended,
        version: None,
        only_even: false,
        keys: BTreeMap::from([(key.to_owned(), seen)]),
    };
    (read, answer.header("x-apifront-cache").to_owned())
}

pub async fn list_once(
    client: &Client,
    list: &str,
    only_even: bool,
    keys: &[String],
) -> (Read, String) {
    let debug = [("x-apifront-debug", "cache")];
    let path = match only_even {
        true => format!("{list}?labelSelector=even%3Dtrue"),
        false => list.to_owned(),
    };
    let begun = Instant::now();
    let answer = client.send(Method::GET, &path, &debug, "").await;
    let ended = Instant::now();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let found: List = serde_json::from_slice(&answer.body).expect("a list");
    let mut seen: BTreeMap<String, Option<Seen>> = keys.iter().map(|k| (k.clone(), None)).collect();
    for item in &found.items {
        if let Some(slot) = seen.get_mut(&item.metadata.name) {
            assert_eq!(*slot, None, "{} twice", item.metadata.name);
            *slot = Some(item.seen());
        }
    }
    let read = Read {
        begun,
        ended,
        version: Some(found.metadata.version.parse().expect("a version")),
        only_even,
        keys: seen,
    };
    (read, answer.header("x-apifront-cache").to_owned())
}
