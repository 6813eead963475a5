//! Compares projections with whole objects from which a plain function has removed
//! what is not wanted.

mod generate;
mod hostile;
mod recorded;
mod reference;

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Value, json};

use self::generate::{Random, message};
use self::reference::{Paths, kept, paths_of};
use super::Projection;
use crate::representation::json_envelope::with_type;
use crate::representation::{Encoding, Envelope, Form};
use crate::schema::{Message, Schema};

/// A stored object, and the JSON of a GET.
struct Stored {
    envelope: Envelope,
    encoding: Encoding,
    item: Bytes,
    whole: Value,
}

impl Stored {
    fn json(envelope: &Envelope, item: &Bytes) -> Self {
        Self {
            envelope: envelope.clone(),
            encoding: Encoding::Json,
            item: item.clone(),
            whole: serde_json::from_slice(&envelope.answer(Encoding::Json, item)).unwrap(),
        }
    }

    fn protobuf(envelope: &Envelope, item: Bytes) -> Self {
        let json = envelope.transcoded(&item, Encoding::Json).unwrap();
        let whole = with_type(&envelope.api_version, &envelope.kind, &json);
        Self {
            envelope: envelope.clone(),
            encoding: Encoding::Protobuf,
            item,
            whole: serde_json::from_slice(&whole).unwrap(),
        }
    }

    fn projected(&self, projection: &Projection) -> Vec<u8> {
        let mut out = Vec::new();
        self.envelope
            .project(&self.item, self.encoding, projection, &mut out)
            .unwrap();
        out
    }

    fn check(&self, paths: &Paths) {
        let out = self.projected(&projection(paths));
        let got: Value = serde_json::from_slice(&out).unwrap_or_else(|error| {
            let out = String::from_utf8_lossy(&out);
            panic!("{error}: {paths:?} of {} is {out}", self.whole)
        });
        let expected = kept(
            &self.whole,
            &paths.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        );
        assert_eq!(got, expected, "{paths:?} of {}", self.whole);
    }

    /// Compares random projections. Returns their number.
    fn check_randomly(&self, rounds: usize, random: &mut Random) -> usize {
        let all = paths_of(&self.whole);
        for _ in 0..rounds {
            self.check(&reference::some(&all, random));
        }
        rounds
    }
}

fn projection(paths: &Paths) -> Projection {
    let mut projection = Projection::nothing();
    for path in paths {
        projection.add(&path.iter().map(String::as_str).collect::<Vec<_>>());
    }
    projection
}

fn envelope(api_version: &str, kind: &str) -> Envelope {
    Envelope::new(Form::Struct, api_version, kind, &format!("{kind}List"))
}

/// Every message that is a kind, with one of its kinds.
fn kinds() -> Vec<(Envelope, &'static Message)> {
    let mut kinds: Vec<_> = Schema::builtin().kinds().collect();
    kinds.sort_unstable_by_key(|(api_version, kind, _)| (*api_version, *kind));
    let by_name = kinds.into_iter().map(|kind| (kind.2.name(), kind));
    let mut kinds: Vec<_> = by_name.collect::<HashMap<_, _>>().into_values().collect();
    kinds.sort_unstable_by_key(|(_, _, message)| message.name());
    let with_envelope = |(api_version, kind, message)| (envelope(api_version, kind), message);
    kinds.into_iter().map(with_envelope).collect()
}

#[test]
fn generated_objects_of_every_kind() {
    let random = &mut Random(1);
    let mut compared = 0;
    for (envelope, of) in kinds() {
        for _ in 0..6 {
            let item = Bytes::from(message(of, random));
            let stored = Stored::protobuf(&envelope, item);
            compared += stored.check_randomly(25, random);
            let json = stored.envelope.transcoded(&stored.item, Encoding::Json);
            compared += Stored::json(&envelope, &json.unwrap()).check_randomly(25, random);
        }
    }
    assert!(compared > 80_000, "{compared}");
}

#[test]
fn examples() {
    let pod = r#"{"metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a.b/c":"x","d":"y"}},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"b","image":"i","resources":{}},{"name":"c","resources":{}}],"nodeName":"n"},"status":{}}"#;
    let pods = envelope("v1", "Pod");
    let pod = Bytes::from(pod);
    let message = pods.transcoded(&pod, Encoding::Protobuf).unwrap();
    for (paths, expected) in [
        (&[][..], json!({})),
        (&["nope.a"], json!({})),
        (&["kind"], json!({"kind": "Pod"})),
        (
            &["apiVersion.x", "status"],
            json!({"apiVersion": "v1", "status": {}}),
        ),
        (&["spec.nodeName"], json!({"spec": {"nodeName": "n"}})),
        (&["spec.nodeName.x"], json!({"spec": {"nodeName": "n"}})),
        (&["status.phase"], json!({"status": {}})),
        (
            &["metadata.labels.d"],
            json!({"metadata": {"labels": {"d": "y"}}}),
        ),
        (&["metadata.labels.e"], json!({"metadata": {"labels": {}}})),
        (
            &["spec.containers.image"],
            json!({"spec": {"containers": [{"image": "i"}, {}]}}),
        ),
        // Of a volume, `emptyDir` is a member of an inlined message.
        (
            &["spec.volumes.emptyDir.medium"],
            json!({"spec": {"volumes": [{"emptyDir": {}}]}}),
        ),
        (
            &[
                "metadata.creationTimestamp",
                "metadata.name",
                "metadata.name.x",
            ],
            json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z"}}),
        ),
    ] {
        let split = |path: &&str| path.split('.').map(str::to_owned).collect();
        let projection = projection(&paths.iter().map(split).collect());
        for stored in [
            Stored::json(&pods, &pod),
            Stored::protobuf(&pods, message.clone()),
        ] {
            let got: Value = serde_json::from_slice(&stored.projected(&projection)).unwrap();
            assert_eq!(got, expected, "{paths:?}");
        }
    }
}

#[test]
fn nothing_is_added_to_items_with_kind() {
    let item = Bytes::from(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#);
    let stored = Stored::json(&envelope("v1", "Pod"), &item);
    assert_eq!(stored.projected(&Projection::whole()), item);
    let mut kind = Projection::nothing();
    kind.add(&["kind"]);
    assert_eq!(stored.projected(&kind), br#"{"kind":"Pod"}"#);
}

#[test]
fn a_whole_value_swallows_longer_paths() {
    let paths = |paths: &[&[&str]]| {
        let mut projection = Projection::nothing();
        paths.iter().for_each(|path| projection.add(path));
        projection
    };
    let short = paths(&[&["a"]]);
    assert_eq!(paths(&[&["a"], &["a", "b"]]), short);
    assert_eq!(paths(&[&["a", "b"], &["a"]]), short);
    assert_ne!(paths(&[&["a", "b"]]), short);
    assert!(!short.is_whole());
    assert!(paths(&[&["a"], &[], &["b"]]).is_whole());
}

#[test]
fn kinds_inside_objects_are_members() {
    let item = br#"{"metadata":{},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"d"},"spec":{"resources":{}},"status":{}}],"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}}"#;
    let sets = envelope("apps/v1", "StatefulSet");
    let message = sets.transcoded(item, Encoding::Protobuf).unwrap();
    let mut projection = Projection::nothing();
    projection.add(&["spec", "volumeClaimTemplates", "kind"]);
    assert_eq!(
        Stored::protobuf(&sets, message).projected(&projection),
        br#"{"spec":{"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim"}]}}"#
    );
}
