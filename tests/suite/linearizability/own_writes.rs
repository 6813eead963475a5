//! In every mode, a client that writes through apifront reads its own writes there.

use std::time::Instant;

use http::Method;

use super::history::State;
use super::reader::{get_once, list_once};
use super::{front, writer};

/// The number of objects. Each is created, changed twice and deleted.
const OBJECTS: usize = 40;

async fn own_writes_are_read(mode: &str) {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let cluster = super::cluster();
    let front = front(&cluster, mode).await;
    let client = front.admin_client();
    let ns = cluster.namespace("own").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut missed = Vec::new();
    let started = Instant::now();
    for n in 0..OBJECTS {
        let key = format!("own-{n}");
        for step in 0..4 {
            let written = match step {
                0 => writer::create(&client, &list, &key, true).await,
                1 | 2 => writer::change(&client, &list, &key, step == 2).await,
                _ => {
                    let path = format!("{list}/{key}");
                    let answer = client.send(Method::DELETE, &path, &[], "").await;
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    State::Absent
                }
            };
            // A GET and a list read the object, in either order.
            let only_even = n % 2 == 0;
            let keys = [key.clone()];
            let (first, second) = if step % 2 == 0 {
                let first = get_once(&client, &list, &key).await;
                (first, list_once(&client, &list, only_even, &keys).await)
            } else {
                let first = list_once(&client, &list, only_even, &keys).await;
                (first, get_once(&client, &list, &key).await)
            };
            for (read, cache) in [first, second] {
                let expected = written.seen(read.only_even);
                if read.keys[&key].map(|seen| seen.number) != expected {
                    missed.push(format!(
                        "{step} {key} {cache}: {:?} {expected:?}",
                        read.keys
                    ));
                }
            }
        }
    }
    println!("{mode}: own writes read in {:.1?}", started.elapsed());
    assert!(missed.is_empty(), "{} missed: {missed:#?}", missed.len());
    front.stop().await;
}

#[tokio::test]
async fn strict() {
    own_writes_are_read("Strict").await;
}

#[tokio::test]
async fn fresh() {
    own_writes_are_read("Fresh").await;
}

#[tokio::test]
async fn bounded() {
    own_writes_are_read("Bounded").await;
}
