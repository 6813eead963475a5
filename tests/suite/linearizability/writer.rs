//! Writers that use the API server directly, and the API server's own record of the
//! writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::history::{State, Write};
use crate::harness::client::{Answer, Client};
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;

pub const WRITERS: usize = 3;
pub const KEYS_PER_WRITER: usize = 5;
const PAUSE: Duration = Duration::from_millis(8);
/// The object that is written last and ends the record.
pub const LAST: &str = "last";

pub fn key(writer: usize, n: usize) -> String {
    format!("w{writer}-{n}")
}

pub fn keys() -> Vec<String> {
    (0..WRITERS)
        .flat_map(|writer| (0..KEYS_PER_WRITER).map(move |n| key(writer, n)))
        .collect()
}

/// Creates, changes and deletes the writer's keys in `list`, one after another.
pub async fn write(
    client: Client,
    list: &str,
    writer: usize,
    seed: u64,
    stop: &AtomicBool,
) -> BTreeMap<String, Vec<Write>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let start = Instant::now();
    let absent = Write {
        begun: start,
        acknowledged: start,
        state: State::Absent,
    };
    let mut written: BTreeMap<String, Vec<Write>> = (0..KEYS_PER_WRITER)
        .map(|n| (key(writer, n), vec![absent]))
        .collect();
    while !stop.load(Ordering::Relaxed) {
        let key = key(writer, rng.random_range(0..KEYS_PER_WRITER));
        let writes = written.get_mut(&key).expect("its own key");
        let exists = writes.last().is_some_and(|w| w.state != State::Absent);
        let even = rng.random_bool(0.5);
        let begun = Instant::now();
        let state = match (exists, rng.random_bool(0.2)) {
            (false, _) => create(&client, list, &key, even).await,
            (true, false) => change(&client, list, &key, even).await,
            (true, true) => {
                let path = format!("{list}/{key}");
                let answer = client.send(Method::DELETE, &path, &[], "").await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                State::Absent
            }
        };
        writes.push(Write {
            begun,
            acknowledged: Instant::now(),
            state,
        });
        crate::harness::pace::of_load(PAUSE).await;
    }
    written
}

pub async fn create(client: &Client, list: &str, key: &str, even: bool) -> State {
    let data = json!({ "n": next_number() });
    let body = config_map(key, json!({ "even": even.to_string() }), data);
    written(&client.post(list, &body).await)
}

pub async fn change(client: &Client, list: &str, key: &str, even: bool) -> State {
    let body = json!({
        "metadata": { "labels": { "even": even.to_string() } },
        "data": { "n": next_number() },
    });
    let path = format!("{list}/{key}");
    written(&client.patch(&path, "merge-patch+json", &body).await)
}

fn next_number() -> String {
    static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);
    let last = LAST_NUMBER.fetch_add(1, Ordering::Relaxed);
    (last + 1).to_string()
}

fn written(answer: &Answer) -> State {
    assert!(answer.status.is_success(), "{}", answer.text());
    state(&answer.json())
}

fn state(object: &Value) -> State {
    let number = object["data"]["n"].as_str().and_then(|n| n.parse().ok());
    State::Present {
        number: number.expect("a number"),
        even: object["metadata"]["labels"]["even"] == "true",
    }
}

/// Returns the events of the API server's own watch, from `version` up to [`LAST`].
pub async fn account(
    client: Client,
    list: &str,
    version: u64,
) -> BTreeMap<String, Vec<(u64, State)>> {
    let path = format!("{list}?watch=1&resourceVersion={version}");
    let mut watch = Watch::open(&client, &path).await;
    let mut account: BTreeMap<String, Vec<(u64, State)>> = BTreeMap::new();
    loop {
        let event = watch.next().await.expect("an event");
        if event.name() == LAST {
            return account;
        }
        let state = match event.kind.as_str() {
            "DELETED" => State::Absent,
            _ => state(&event.object),
        };
        let states = account.entry(event.name().to_owned()).or_default();
        states.push((event.version(), state));
    }
}
