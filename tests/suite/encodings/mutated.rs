//! Objects with random changes to their bytes. If the transcoder has an answer, Go
//! must have the same.

use kubernetes_wire::schema::Schema;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::tally::{Outcome, Tally};
use super::transcode;
use crate::harness::encodings::{self, Class, Encoding, Oracle, Question, Record, Said};
use crate::harness::volume;

const MUTATIONS: &str = "APIFRONT_TEST_MUTATIONS";
const DEFAULT_MUTATIONS: usize = 20_000;
/// The size of the largest objects that are mutated. Larger ones are slower and find
/// nothing more.
const MAX_BYTES: usize = 4 << 10;
/// Tokens that have a meaning in JSON or protobuf.
const TOKENS: [&[u8]; 26] = [
    b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"null", b"true", b"0", b"-", b".", b"e9",
    b"\\u0000", b"\\ud800", b" ", b"\n", b"{}", b"[]", b"\"\"", b"\xff", b"\x80", b"\x00", b"\x08",
    b"\x12",
];

#[test]
fn mutated_bytes() {
    let seed = volume::seed("encodings mutated");
    let mutations = volume::work(MUTATIONS, DEFAULT_MUTATIONS);
    let mut rng = StdRng::seed_from_u64(seed);
    let whole = |r: &Record| r.to_json != Said::NotAsked && r.to_protobuf != Said::NotAsked;
    let small = |r: &Record| r.protobuf.len().max(r.json.len()) <= MAX_BYTES;
    // The transcoder does not check an object's kind. Its caller, who looked the
    // kind up, does.
    let unnamed = |r: &Record| !r.json.starts_with(b"{\"kind\":");
    let records: Vec<Record> = encodings::records(seed, 1)
        .filter(|r| r.class == Class::Produced && whole(r) && small(r) && unnamed(r))
        .collect();
    let mut oracle = Oracle::start();
    let mut tallies = [Encoding::Protobuf, Encoding::Json].map(Tally::new);
    for n in 0..mutations {
        let record = records.choose(&mut rng).expect("some are small");
        let Some(message) = Schema::builtin().kind(&record.api_version, &record.kind) else {
            continue;
        };
        let tally = &mut tallies[n % 2];
        let mut bytes = match tally.encoding {
            Encoding::Protobuf => encodings::unwrap(&record.protobuf),
            Encoding::Json => record.json.clone(),
        };
        mutate(&mut rng, &mut bytes);
        // A refusal needs no comparison with Go.
        let Ok(got) = transcode(message, tally.encoding, &bytes) else {
            tally.add(&foreign(record), Outcome::Refused("something".to_owned()));
            continue;
        };
        let asked = match tally.encoding {
            Encoding::Protobuf => encodings::wrap(&record.api_version, &record.kind, &bytes),
            Encoding::Json => bytes.clone(),
        };
        let answer = oracle.ask(&Question {
            api_version: &record.api_version,
            kind: &record.kind,
            encoding: tally.encoding,
            bytes: &asked,
        });
        let shown = bytes.escape_ascii();
        let outcome = match (answer.said, answer.more) {
            (Said::Bytes(_), true) => Outcome::Dropped(shown.to_string()),
            (Said::Bytes(said), false) => {
                let expected = match tally.encoding {
                    Encoding::Protobuf => said,
                    Encoding::Json => encodings::unwrap(&said),
                };
                match Outcome::different(&expected, &got) {
                    _ if expected == got => Outcome::Same,
                    Outcome::Different(what) => {
                        Outcome::Different(format!("{what}\n    of       {shown}"))
                    }
                    other => other,
                }
            }
            (other, _) => Outcome::Accepted(format!("{other:?} of {shown}")),
        };
        tally.add(&foreign(record), outcome);
    }
    let mut failed = false;
    for tally in &tallies {
        tally.print();
        failed |= tally.failed();
    }
    assert!(!failed, "see the differences above");
}

/// Marks the record as foreign, since mutated bytes need not be accepted.
fn foreign(record: &Record) -> Record {
    Record {
        class: Class::Foreign,
        variant: "mutated".to_owned(),
        ..record.clone()
    }
}

fn mutate(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..=3) {
        let at = rng.random_range(0..=bytes.len());
        let end = bytes.len().min(at + rng.random_range(0..8));
        match rng.random_range(0..7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            3 => {
                let token = TOKENS.choose(rng).expect("tokens");
                bytes.splice(at..at, token.iter().copied());
            }
            4 => {
                let token = TOKENS.choose(rng).expect("tokens");
                bytes.splice(at..end, token.iter().copied());
            }
            5 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            _ if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes.push(rng.random()),
        }
    }
}
