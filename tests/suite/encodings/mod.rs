//! Compares the transcoder with Go. The real types make objects of every kind that
//! kube-apiserver reads or writes; both directions must agree byte for byte.
//!
//! An input that kube-apiserver can write must be transcoded. Other input may be
//! refused, and input with fields that our schema lacks must be refused.
//!
//! `APIFRONT_TEST_SEED`, `APIFRONT_TEST_OBJECTS` (of each random variant and kind)
//! and `APIFRONT_TEST_MUTATIONS` replay and lengthen a run.

mod mutated;
mod tally;

use std::collections::{BTreeMap, BTreeSet};

use kubernetes_wire::representation::transcode::{NotTranscodable, to_json, to_protobuf};
use kubernetes_wire::schema::{Message, Schema};
use tally::{Outcome, Tally};

use crate::harness::encodings::{self, Class, Encoding, Record, Said};
use crate::harness::volume;

const OBJECTS: &str = "APIFRONT_TEST_OBJECTS";
const DEFAULT_OBJECTS: usize = 2;

fn transcode(
    message: &Message,
    encoding: Encoding,
    bytes: &[u8],
) -> Result<Vec<u8>, NotTranscodable> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Protobuf => to_json(message, bytes, &mut out)?,
        Encoding::Json => to_protobuf(message, bytes, &mut out)?,
    }
    Ok(out)
}

#[test]
fn every_kind() {
    let seed = volume::seed("encodings");
    let objects = volume::work(OBJECTS, DEFAULT_OBJECTS);
    let mut tallies = [Encoding::Protobuf, Encoding::Json].map(Tally::new);
    let mut kinds = BTreeSet::new();
    for record in encodings::records(seed, objects) {
        kinds.insert((record.api_version.clone(), record.kind.clone()));
        let Some(message) = Schema::builtin().kind(&record.api_version, &record.kind) else {
            continue;
        };
        for tally in &mut tallies {
            compare(message, &record, tally);
        }
    }
    let known = |(api_version, kind): &&(String, String)| {
        Schema::builtin().kind(api_version, kind).is_some()
    };
    let missing: Vec<_> = kinds.iter().filter(|k| !known(k)).collect();
    let more: Vec<_> = Schema::builtin()
        .kinds()
        .map(|(api_version, kind, _)| (api_version.to_owned(), kind.to_owned()))
        .filter(|kind| !kinds.contains(kind))
        .collect();
    println!(
        "{} kinds in Go, {} of them not in the schema: {missing:?}; {} in the schema alone: {more:?}",
        kinds.len(),
        missing.len(),
        more.len(),
    );
    let mut failed = !missing.is_empty() || !more.is_empty();
    for tally in &tallies {
        tally.print();
        failed |= tally.failed();
    }
    assert!(!failed, "see the differences above");
}

fn compare(message: &Message, record: &Record, tally: &mut Tally) {
    let (bytes, expected) = match tally.encoding {
        Encoding::Protobuf if record.to_json == Said::NotAsked => return,
        Encoding::Json if record.to_protobuf == Said::NotAsked => return,
        Encoding::Protobuf => (
            encodings::unwrap(&record.protobuf),
            match &record.to_json {
                Said::Bytes(json) => Ok(json.clone()),
                other => Err(other),
            },
        ),
        Encoding::Json => (
            record.json.clone(),
            match &record.to_protobuf {
                Said::Bytes(envelope) => Ok(encodings::unwrap(envelope)),
                other => Err(other),
            },
        ),
    };
    let got = transcode(message, tally.encoding, &bytes);
    let outcome = match (expected, got) {
        (Ok(_), Ok(got)) if record.class == Class::More => {
            Outcome::Dropped(String::from_utf8_lossy(&got).into_owned())
        }
        (Ok(expected), Ok(got)) if expected == got => Outcome::Same,
        (Ok(expected), Ok(got)) => Outcome::different(&expected, &got),
        (Err(_), Err(_)) => Outcome::Same,
        (Err(error), Ok(_)) => Outcome::Accepted(format!("{error:?}")),
        (Ok(_), Err(error)) => Outcome::Refused(error.to_string()),
    };
    tally.add(record, outcome);
}

type Counts<K> = BTreeMap<K, usize>;
