//! Tests of watches of views: each watcher sees a set of objects that changes.

mod examples;
mod model;
mod race;

use super::*;

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::table::{Printer, TableOptions};
use serde_json::Value;

use super::super::{FrameWriter, MetadataFrames, TableFrames};
use crate::store::Visible;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Compressed,
    Metadata,
    Table,
}

impl Form {
    const ALL: [Self; 4] = [Self::Whole, Self::Compressed, Self::Metadata, Self::Table];

    fn writer(self, store: &Arc<Store>) -> Box<dyn FrameWriter> {
        let of = store.clone();
        match self {
            Self::Whole | Self::Compressed => Box::new(WholeFrames::new(of, Encoding::Json)),
            Self::Metadata => Box::new(MetadataFrames::new(of, Encoding::Json, MetaVersion::V1)),
            Self::Table => {
                let printer = Printer::builtin(&resource().gvr).unwrap().clone();
                let options = TableOptions {
                    version: MetaVersion::V1,
                    include: IncludeObject::Metadata,
                };
                Box::new(TableFrames::new(of, Arc::new(printer), options))
            }
        }
    }

    fn fitted(self, watch: Watch) -> Watch {
        match self {
            Self::Compressed => watch.compressed(),
            _ => watch,
        }
    }

    fn frames(self, batch: &[u8]) -> Vec<Frame> {
        let mut plain = String::new();
        let text = match self {
            Self::Compressed => {
                MultiGzDecoder::new(batch)
                    .read_to_string(&mut plain)
                    .unwrap();
                &plain
            }
            _ => std::str::from_utf8(batch).unwrap(),
        };
        assert!(text.ends_with('\n'), "whole frames: {text}");
        text.lines().map(|line| self.frame(line)).collect()
    }

    fn frame(self, line: &str) -> Frame {
        let frame: Value = serde_json::from_str(line).unwrap();
        let meta = match self {
            Self::Table => &frame["object"]["rows"][0]["object"]["metadata"],
            _ => &frame["object"]["metadata"],
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        Frame {
            kind: text(&frame["type"]),
            key: format!("{namespace}/{name}"),
            version: text(&meta["resourceVersion"]).parse().unwrap(),
            written: text(&meta["labels"]["written"]).parse().unwrap_or_default(),
            ends_initial: line.contains("initial-events-end"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    kind: String,
    key: String,
    version: u64,
    /// The version at which the shown state was written.
    written: u64,
    ends_initial: bool,
}

impl Frame {
    fn brief(&self) -> (&str, &str, u64, u64) {
        (&self.kind, &self.key, self.version, self.written)
    }
}

/// A version of an object. Its labels tell when it was written.
#[derive(Clone, Debug)]
struct Written {
    key: String,
    uid: u64,
    version: u64,
    app: &'static str,
    node: &'static str,
}

impl Written {
    fn new(key: &str, version: u64) -> Self {
        Self {
            key: key.to_owned(),
            uid: 1,
            version,
            app: "1",
            node: "n1",
        }
    }

    /// Returns the object. With `deleted`, returns its last state, as in the
    /// event of a deletion at that version.
    fn item(&self, deleted: Option<u64>) -> Bytes {
        let (namespace, name) = self.key.split_once('/').unwrap();
        let version = deleted.unwrap_or(self.version);
        serde_json::json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": self.uid.to_string(),
                "resourceVersion": version.to_string(),
                "labels": {"app": self.app, "written": self.version.to_string()},
            },
            "spec": {"nodeName": self.node},
        })
        .to_string()
        .into()
    }

    fn stored(&self) -> StoredObject {
        StoredObject::parse(self.item(None), &resource().fields).unwrap()
    }
}

/// Returns the set of these namespaces (`a/`) and objects (`a/x`).
fn visible<'k>(entries: impl IntoIterator<Item = &'k str>) -> Visible {
    let (mut namespaces, mut names) = (BTreeSet::new(), BTreeMap::new());
    for entry in entries {
        match entry.split_once('/').unwrap() {
            (namespace, "") => {
                namespaces.insert(namespace.to_owned());
            }
            (namespace, name) => {
                let names: &mut BTreeSet<_> = names.entry(namespace.to_owned()).or_default();
                names.insert(name.to_owned());
            }
        }
    }
    Visible::new(&namespaces, &names)
}

/// A client that believes each event, as an informer does.
#[derive(Clone, Debug, Default)]
struct Client {
    /// The version of each object, and the version at which its state was
    /// written.
    believes: BTreeMap<String, (u64, u64)>,
    /// The version from which the client would resume.
    version: Option<u64>,
    has_begun: bool,
}

impl Client {
    fn from_list<'o>(objects: impl Iterator<Item = &'o Arc<StoredObject>>, version: u64) -> Self {
        Self {
            believes: believed(objects),
            version: Some(version),
            has_begun: true,
        }
    }

    fn hear(&mut self, frame: &Frame) {
        let Frame {
            key,
            version,
            written,
            ..
        } = frame.clone();
        let before = self.believes.get(&key).copied();
        match (frame.kind.as_str(), before) {
            ("BOOKMARK", _) => {
                let newer = self.believes.iter().find(|(_, (v, _))| *v > version);
                assert_eq!(newer, None, "an object is newer than {frame:?}");
                self.has_begun |= frame.ends_initial;
            }
            ("ADDED", None) => {
                self.believes.insert(key, (version, written));
            }
            ("MODIFIED", Some((known, _))) if known < version => {
                self.believes.insert(key, (version, written));
            }
            ("DELETED", Some((known, last))) if known <= version && last == written => {
                self.believes.remove(&key);
            }
            _ => panic!("{frame:?} after {before:?}"),
        }
        self.version = Some(version);
    }
}

/// Returns what a client believes after a list of these objects. A stored
/// object was written at its version.
fn believed<'o>(
    objects: impl Iterator<Item = &'o Arc<StoredObject>>,
) -> BTreeMap<String, (u64, u64)> {
    let known = |object: &Arc<StoredObject>| {
        let version = object.resource_version;
        (object.key.as_str().to_owned(), (version, version))
    };
    objects.map(known).collect()
}

/// Counts what a random test did.
#[derive(Debug, Default)]
struct Counts {
    histories: u64,
    events: u64,
    changes_of_sets: u64,
    deleted_unseen: u64,
    bookmarks: u64,
    pages: u64,
    resumed: u64,
    expired: u64,
    fell_behind: u64,
    compared: u64,
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect(variable))
}
