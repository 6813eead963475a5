//! Measures the transcoder alone, and Go's serializers with the same pods, in turns
//! on one core. kube-apiserver holds decoded objects, so a list costs it only Go's
//! encoder. Where kube-apiserver writes what it has just read (a write, its
//! storage), it needs the decoder too.
//!
//! `make bench ARGS='transcode --pods 500 --rounds 7'`

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::report::{self, Goal};
use crate::support::{cores, count, pods, require, usage};
use harness::cluster::Cluster;
use harness::encodings::{self, Encoding, Oracle, Question, Said};
use harness::process;
use kubernetes_wire::representation::transcode::{to_json, to_protobuf};
use kubernetes_wire::schema::Schema;
use serde::Deserialize;
use serde_json::value::RawValue;

const GOAL: f64 = 4.0;
/// The number of passes per round. They make a round long compared with the clock's
/// steps.
const PASSES: usize = 10;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(transcode());
}

async fn transcode() {
    let (number, rounds) = (count("pods", 500), count("rounds", 7));
    let cluster = Cluster::start(&[]).await;
    let admin = cluster.admin_client();
    pods::create(&admin, number).await;
    let list = admin.get("/api/v1/pods").await.text();
    drop(cluster);
    let file = process::temporary_folder("transcode").join("pods.json");
    std::fs::write(&file, &list).expect("the list");
    let objects = Objects::from_list(&list);
    let megabytes = objects.json.iter().map(Vec::len).sum::<usize>() as f64 / 1e6;
    println!(
        "{number} pods of {:.1} KB of JSON, {:.1} KB of protobuf",
        megabytes * 1e3 / number as f64,
        objects.protobuf.iter().map(Vec::len).sum::<usize>() as f64 / 1e3 / number as f64,
    );

    cores::pin(std::process::id(), cores::SERVER);
    let mut ours = [f64::INFINITY; 2];
    let mut go: BTreeMap<String, f64> = BTreeMap::new();
    for _ in 0..rounds {
        let measured = [Encoding::Protobuf, Encoding::Json].map(|from| objects.transcode(from));
        for (least, now) in ours.iter_mut().zip(measured) {
            *least = least.min(now.as_secs_f64());
        }
        for (name, seconds) in go_seconds(&file) {
            let least = go.entry(name).or_insert(f64::INFINITY);
            *least = least.min(seconds);
        }
    }
    let rate = |seconds: f64| format!("{:.0}", megabytes / seconds);
    let row = |name: &str, ours: f64, encode: &str, both: &str| {
        vec![
            name.to_owned(),
            rate(ours),
            rate(go[encode]),
            rate(go[both]),
        ]
    };
    println!("\nMB of JSON per CPU second, the best of {rounds} rounds");
    report::table(
        &["", "apifront", "Go, encoder", "Go, decoder and encoder"],
        &[
            row(
                "protobuf to JSON",
                ours[0],
                "encode_json",
                "protobuf_to_json",
            ),
            row(
                "JSON to protobuf",
                ours[1],
                "encode_protobuf",
                "json_to_protobuf",
            ),
        ],
    );
    for (what, ratio) in [
        (
            "protobuf to JSON ÷ Go's encoder",
            go["encode_json"] / ours[0],
        ),
        (
            "protobuf to JSON ÷ Go's decoder and encoder",
            go["protobuf_to_json"] / ours[0],
        ),
        (
            "JSON to protobuf ÷ Go's decoder and encoder",
            go["json_to_protobuf"] / ours[1],
        ),
    ] {
        report::compare(what, ratio, "x", Goal::AtLeast(GOAL));
    }
}

struct Objects {
    json: Vec<Vec<u8>>,
    protobuf: Vec<Vec<u8>>,
}

impl Objects {
    /// Takes the items of a list, and Go's protobuf of each.
    fn from_list(list: &str) -> Self {
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(borrow)]
            items: Vec<&'a RawValue>,
        }
        let list: List = serde_json::from_str(list).expect("a list");
        let json: Vec<_> = list
            .items
            .iter()
            .map(|item| item.get().as_bytes().to_vec())
            .collect();
        let mut oracle = Oracle::start();
        let protobuf = json.iter().map(|bytes| {
            let answer = oracle.ask(&Question {
                api_version: "v1",
                kind: "Pod",
                encoding: Encoding::Json,
                bytes,
            });
            match answer.said {
                Said::Bytes(envelope) => encodings::unwrap(&envelope),
                other => panic!("{other:?}"),
            }
        });
        Self {
            protobuf: protobuf.collect(),
            json,
        }
    }

    /// Returns the CPU time of one pass over all objects.
    fn transcode(&self, from: Encoding) -> Duration {
        let message = Schema::builtin().kind("v1", "Pod").expect("a kind");
        let (inputs, outputs) = match from {
            Encoding::Protobuf => (&self.protobuf, &self.json),
            Encoding::Json => (&self.json, &self.protobuf),
        };
        let mut out = Vec::new();
        let began = usage::cpu_time(std::process::id());
        for _ in 0..PASSES {
            for (input, expected) in inputs.iter().zip(outputs) {
                out.clear();
                match from {
                    Encoding::Protobuf => to_json(message, black_box(input), &mut out),
                    Encoding::Json => to_protobuf(message, black_box(input), &mut out),
                }
                .expect("a pod");
                assert_eq!(black_box(&out).len(), expected.len());
            }
        }
        let took = usage::cpu_time(std::process::id()) - began;
        took / u32::try_from(PASSES).expect("few")
    }
}

/// Returns Go's CPU seconds for all objects, by kind of work.
fn go_seconds(file: &Path) -> BTreeMap<String, f64> {
    let output = Command::new(encodings::program())
        .arg("-bench")
        .arg(file)
        .args(["-rounds", "1"])
        .env("GOMAXPROCS", "1")
        .output()
        .expect("encodings");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "encodings: {text}");
    serde_json::from_slice(&output.stdout).expect("figures")
}
