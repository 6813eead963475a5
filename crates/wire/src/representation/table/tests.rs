//! Reproduces every answer that was recorded from kube-apiserver
//! (`testdata/README.md`) from the objects alone. The bytes must be the same.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use chrono::{DateTime, TimeZone, Utc};
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::api::GroupVersionResource;
use crate::negotiation::{IncludeObject, MetaVersion};
use crate::representation::{
    BookmarkTemplate, Encoding, Envelope, EventType, Form, ListMeta, partial_object_metadata,
    pretty, scan,
};

/// One file of recordings. `testdata/record.py` describes its pieces.
struct Recording {
    name: String,
    pieces: HashMap<String, Box<RawValue>>,
}

impl Recording {
    fn bytes(&self, piece: &str) -> Bytes {
        Bytes::copy_from_slice(self.pieces[piece].get().as_bytes())
    }

    /// Returns an answer with its newline, as it was received.
    fn answer(&self, piece: &str) -> String {
        format!("{}\n", self.pieces[piece].get())
    }

    fn now(&self, piece: &str) -> DateTime<Utc> {
        let seconds = self.pieces[piece].get().parse().unwrap();
        Utc.timestamp_opt(seconds, 0).unwrap()
    }

    fn printer(&self) -> Printer {
        if let Some(columns) = self.pieces.get("columns") {
            let columns: Vec<CustomColumn> = serde_json::from_str(columns.get()).unwrap();
            return Printer::from_crd_columns(&columns).unwrap();
        }
        let parts: Vec<&str> = self.name.splitn(3, '.').collect();
        match parts[..] {
            [resource, version] => builtin("", version, resource),
            [resource, version, group] => builtin(group, version, resource),
            _ => Printer::default_columns().clone(),
        }
    }

    fn envelope(&self) -> Envelope {
        let object = self.bytes("single");
        let text = |json: &[u8], key| scan::text_at(json, &[key]).unwrap().into_owned();
        Envelope::new(
            Form::detect(&object).unwrap(),
            &text(&object, "apiVersion"),
            &text(&object, "kind"),
            &text(&self.bytes("list"), "kind"),
        )
    }

    fn items(&self, piece: &str) -> (ListMeta, Vec<Bytes>) {
        let list = self.bytes(piece);
        let text = |key| scan::text_at(&list, &["metadata", key]).unwrap_or_default();
        let remaining = scan::get(&list, &["metadata", "remainingItemCount"]);
        let meta = ListMeta {
            resource_version: text("resourceVersion").into_owned(),
            continue_token: text("continue").into_owned(),
            remaining_item_count: remaining
                .map(|n| std::str::from_utf8(n).unwrap().parse().unwrap()),
            ..ListMeta::default()
        };
        let items = scan::find(&list, &["items"]).unwrap();
        let items = list.slice(items);
        let items = scan::elements(&items)
            .map(|e| items.slice(e.unwrap().0))
            .collect();
        (meta, items)
    }
}

fn builtin(group: &str, version: &str, resource: &str) -> Printer {
    let gvr = GroupVersionResource::new(group, version, resource);
    Printer::builtin(&gvr).unwrap().clone()
}

fn recordings() -> Vec<Recording> {
    // Tests run in the folder of their package. A path fixed at compile time would
    // be that of another checkout with the same target folder.
    let folder = Path::new("src/representation/table/testdata");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|e| e == "json") && stem != "objects" {
            let text = std::fs::read_to_string(&path).unwrap();
            all.push(Recording {
                name: stem.to_owned(),
                pieces: serde_json::from_str(&text).unwrap(),
            });
        }
    }
    assert!(all.len() > 30);
    all
}

const DEFAULT: TableOptions = TableOptions {
    version: MetaVersion::V1,
    include: IncludeObject::Metadata,
};

fn same(name: &str, piece: &str, got: &[u8], expected: &str) {
    let got = std::str::from_utf8(got).unwrap();
    if got != expected {
        let at = got
            .bytes()
            .zip(expected.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let near = |text: &str| {
            let from = at.saturating_sub(200);
            String::from_utf8_lossy(&text.as_bytes()[from..(at + 200).min(text.len())]).into_owned()
        };
        panic!(
            "{name} {piece} differs at {at}\n ours: {}\n real: {}",
            near(got),
            near(expected)
        );
    }
}

#[test]
fn lists() {
    for recording in recordings() {
        let (printer, envelope) = (recording.printer(), recording.envelope());
        for (piece, items, version, include) in [
            ("table", "list", MetaVersion::V1, IncludeObject::Metadata),
            (
                "table_v1beta1",
                "page",
                MetaVersion::V1Beta1,
                IncludeObject::Metadata,
            ),
            (
                "table_object",
                "page",
                MetaVersion::V1,
                IncludeObject::Object,
            ),
            ("table_none", "page", MetaVersion::V1, IncludeObject::None),
        ] {
            let (meta, items) = recording.items(items);
            let options = TableOptions { version, include };
            let got = printer
                .list(
                    &meta,
                    items.iter(),
                    &envelope,
                    options,
                    recording.now("now"),
                )
                .unwrap();
            same(&recording.name, piece, &got, &recording.answer(piece));
        }
    }
}

/// The ends of kube-apiserver's lists, with and without a printer.
#[test]
fn empty_lists() {
    let roles = builtin("rbac.authorization.k8s.io", "v1", "roles");
    for (printer, end) in [
        (builtin("", "v1", "pods"), "],\"rows\":[]}\n"),
        (Printer::from_crd_columns(&[]).unwrap(), "],\"rows\":[]}\n"),
        (roles, "],\"rows\":null}\n"),
    ] {
        let envelope = Envelope::new(Form::Struct, "v1", "K", "KList");
        let meta = ListMeta::at(5);
        let none = std::iter::empty();
        let got = printer
            .list(&meta, none, &envelope, DEFAULT, Utc::now())
            .unwrap();
        assert!(got.ends_with(end.as_bytes()));
    }
}

#[test]
fn single_objects() {
    for recording in recordings() {
        let envelope = recording.envelope();
        let fragment = envelope.fragment(&recording.bytes("single")).unwrap();
        let got = recording
            .printer()
            .single(&fragment, &envelope, DEFAULT, recording.now("now"))
            .unwrap();
        same(
            &recording.name,
            "table_single",
            &got,
            &recording.answer("table_single"),
        );
        let got = partial_object_metadata::object(&fragment, &envelope, MetaVersion::V1).unwrap();
        let expected = recording.pieces["partial_single"].get();
        same(&recording.name, "partial_single", &got, expected);
        let got = pretty::indent(&recording.bytes("single"));
        let expected = recording.pieces["single_pretty"].get();
        same(&recording.name, "single_pretty", &got, expected);
        let got = envelope.answer(Encoding::Json, &fragment);
        same(&recording.name, "single", &got, &recording.answer("single"));
    }
}

#[test]
fn pages_and_partial_lists() {
    for recording in recordings() {
        let envelope = recording.envelope();
        let (meta, items) = recording.items("page");
        let (prefix, suffix) = envelope.list(Encoding::Json, &meta, 0);
        let got = [prefix, items.join(&b","[..]).into(), suffix].concat();
        same(&recording.name, "page", &got, &recording.answer("page"));

        let partials: Vec<Bytes> = items
            .iter()
            .map(|item| partial_object_metadata::object(item, &envelope, MetaVersion::V1).unwrap())
            .collect();
        let got = [
            partial_object_metadata::list_prefix(&meta, MetaVersion::V1, partials.is_empty()),
            partials.join(&b","[..]).into(),
            partial_object_metadata::list_suffix(partials.is_empty()),
        ]
        .concat();
        same(
            &recording.name,
            "partial",
            &got,
            &recording.answer("partial"),
        );
    }
}

/// Checks the first event and the bookmark after it.
#[test]
fn watches() {
    for recording in recordings() {
        let (printer, envelope) = (recording.printer(), recording.envelope());
        let now = recording.now("watch_table_now");
        let frames = |piece: &str| {
            let json = recording.bytes(piece);
            let frames: Vec<Bytes> = scan::elements(&json)
                .map(|e| json.slice(e.unwrap().0))
                .collect();
            assert_eq!(frames.len(), 2, "{} {piece}", recording.name);
            frames
        };
        let object = |frame: &Bytes| frame.slice(scan::find(frame, &["object"]).unwrap());
        let objects: Vec<Bytes> = frames("watch").iter().map(object).collect();
        let tables: Vec<Bytes> = frames("watch_table").iter().map(object).collect();
        let partials: Vec<Bytes> = frames("watch_partial").iter().map(object).collect();

        // The version of a bookmark depends on the time of the recording.
        let template = BookmarkTemplate::learn(&objects[1]).unwrap();
        let bookmark = |like: &Bytes| {
            let version = scan::text_at(like, &["metadata", "resourceVersion"]).unwrap();
            let object: Bytes = template.object(version, true).into();
            envelope.fragment(&object).unwrap()
        };
        let added = envelope.fragment(&objects[0]).unwrap();
        for (first, fragment, table, plain) in [
            (true, added.clone(), &tables[0], &partials[0]),
            (false, bookmark(&tables[1]), &tables[1], &partials[1]),
        ] {
            let got = printer
                .event_object(&fragment, &envelope, DEFAULT, first, now)
                .unwrap();
            let expected = std::str::from_utf8(table).unwrap();
            same(&recording.name, "watch_table", &got, expected);
            if first {
                let got =
                    partial_object_metadata::object(&fragment, &envelope, MetaVersion::V1).unwrap();
                let expected = std::str::from_utf8(plain).unwrap();
                same(&recording.name, "watch_partial", &got, expected);
            }
        }
        let got = envelope.watch_frame(Encoding::Json, EventType::Added, &added);
        let expected = format!("{}\n", std::str::from_utf8(&frames("watch")[0]).unwrap());
        same(&recording.name, "watch", &got, &expected);
    }
}

#[test]
fn what_cannot_be_read_is_not_printed() {
    let pods = builtin("", "v1", "pods");
    for odd in [
        "",
        "[1]",
        r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
        r#"{"metadata":{"name":5}}"#,
        r#"{"metadata":{},"status":{"phase":{}}}"#,
    ] {
        assert_eq!(pods.cells().row(odd.as_bytes()), Err(NotPrintable), "{odd}");
    }
}

#[test]
fn columns_of_another_version_are_taken_over() {
    for recording in recordings() {
        let printer = recording.printer();
        let table = recording.pieces["table"].get();
        let learnt = printer.with_columns_of(table.as_bytes()).unwrap();
        assert_eq!(learnt.columns, printer.columns, "{}", recording.name);
    }
    let pods = builtin("", "v1", "pods");
    let namespaces = recordings().into_iter().find(|r| r.name == "namespaces.v1");
    let other = namespaces.unwrap().bytes("table");
    assert!(pods.with_columns_of(&other).is_none());
    assert!(pods.with_columns_of(b"{}").is_none());
}

proptest! {
    /// A byte of an object is changed, or the object is truncated.
    #[test]
    fn damaged_objects_do_not_panic(at in 0.0..1.0f64, byte in any::<u8>(), cut in any::<bool>()) {
        for recording in recordings() {
            let printer = recording.printer();
            let mut object = recording.bytes("single").to_vec();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let at = (object.len() as f64 * at) as usize;
            if cut {
                object.truncate(at);
            } else if let Some(b) = object.get_mut(at) {
                *b = byte;
            }
            let _ = printer.cells().row(&object);
            let _ = partial_object_metadata::object(&object, &recording.envelope(), MetaVersion::V1);
        }
    }
}
