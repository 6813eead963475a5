//! Objects that were recorded from kube-apiserver (`table/testdata`), among them custom
//! resources.

use std::collections::HashMap;
use std::fs;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::Stored;
use super::generate::Random;
use crate::representation::{Encoding, Envelope, Form, scan};

/// Returns the items of all recorded lists, in the encodings that they have.
fn stored() -> Vec<Stored> {
    let folder = fs::read_dir("src/representation/table/testdata").unwrap();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    let recordings = files.iter().filter(|path| {
        let objects = path.ends_with("objects.json");
        !objects && path.extension().is_some_and(|end| end == "json")
    });
    let mut found = Vec::new();
    for path in recordings {
        let text = fs::read_to_string(path).unwrap();
        let pieces: HashMap<String, Box<RawValue>> = serde_json::from_str(&text).unwrap();
        let list = pieces["list"].get().as_bytes();
        let single = pieces["single"].get().as_bytes();
        let text = |key| scan::text_at(single, &[key]).unwrap();
        let (kind, form) = (text("kind"), Form::detect(single).unwrap());
        let list_kind = format!("{kind}List");
        let envelope = Envelope::new(form, &text("apiVersion"), &kind, &list_kind);
        for item in scan::elements(scan::get(list, &["items"]).unwrap()) {
            let item = Bytes::copy_from_slice(item.unwrap().1);
            found.push(Stored::json(&envelope, &item));
            if envelope.writes(Encoding::Protobuf) {
                let message = envelope.transcoded(&item, Encoding::Protobuf).unwrap();
                found.push(Stored::protobuf(&envelope, message));
            }
        }
    }
    found
}

#[test]
fn recorded_objects() {
    let random = &mut Random(2);
    let mut compared = 0;
    let mut custom = 0;
    for stored in stored() {
        custom += usize::from(stored.envelope.form == Form::Map);
        compared += stored.check_randomly(120, random);
    }
    assert!(compared > 30_000 && custom > 3, "{compared} {custom}");
}
