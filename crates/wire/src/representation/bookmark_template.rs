//! Bookmarks. The object in a bookmark is an empty object of the resource's kind,
//! and only that kind's server knows how to write it
//! (`"spec":{"containers":null}`). So its form is learnt from one of that
//! server's bookmarks.

use std::fmt::Display;

use bytes::Bytes;

use super::json_envelope::{EventType, Form, watch_frame};
use super::scan;

/// The annotation of the bookmark that ends the initial events of a watch
/// (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The annotation with an empty list. Before releases 1.32 and 1.33, the bookmark
/// that ends requested initial events has it, too. The list is encoded like the
/// watch.
const BLUEPRINT: &str = "kubernetes.io/initial-events-list-blueprint";

/// The most annotations of a bookmark besides these. Daemon sets have one. A
/// bookmark with more than this is not recognized.
const MAX_ANNOTATIONS: usize = 4;

/// The form of the bookmarks of one resource, learnt from a bookmark of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookmarkTemplate {
    form: Form,
    /// The bytes before the value of `metadata`.
    before: Bytes,
    after: Bytes,
    /// Keys and values as written, sorted. A daemon set has one even when
    /// empty: `"deprecated.daemonset.template.generation":"0"`.
    annotations: Vec<(Bytes, Bytes)>,
    /// True if the server writes `"creationTimestamp":null`, as servers before
    /// 1.35 do.
    creation_timestamp: bool,
    /// True if the bookmark had the annotation with an empty list. The template
    /// does not have it.
    blueprint: bool,
}

impl BookmarkTemplate {
    /// Learns the template from the object of a bookmark event. The result is
    /// `None` if the object contains anything that bookmarks are not known to
    /// have.
    pub fn learn(object: &[u8]) -> Option<Self> {
        let object = object.trim_ascii();
        let span = scan::find(object, &["metadata"])?;
        let mut creation_timestamp = false;
        let mut annotations = Vec::new();
        let mut blueprint = false;
        for member in scan::members(object.get(span.clone())?) {
            let member = member.ok()?;
            match (member.key, member.value) {
                (b"resourceVersion", [b'"', ..]) => {}
                (b"annotations", value) => {
                    for annotation in scan::members(value) {
                        let annotation = annotation.ok()?;
                        if annotation.key == BLUEPRINT.as_bytes() {
                            blueprint = true;
                        } else if annotation.key != INITIAL_EVENTS_END.as_bytes() {
                            annotations.push((
                                Bytes::copy_from_slice(annotation.key),
                                Bytes::copy_from_slice(annotation.value),
                            ));
                        }
                    }
                }
                (b"creationTimestamp", b"null") => creation_timestamp = true,
                _ => return None,
            }
        }
        if annotations.len() > MAX_ANNOTATIONS {
            return None;
        }
        Some(Self {
            form: Form::detect(object)?,
            annotations,
            before: Bytes::copy_from_slice(object.get(..span.start)?),
            after: Bytes::copy_from_slice(object.get(span.end..)?),
            creation_timestamp,
            blueprint,
        })
    }

    /// Tells whether the server ends requested initial events with a bookmark that
    /// cannot be made from the template.
    pub fn had_blueprint(&self) -> bool {
        self.blueprint
    }

    /// Returns the template for bookmarks of metadata alone. Their metadata is a Go
    /// struct in either form of the object, and releases before 1.34 write in it
    /// that there is no creation time.
    pub fn of_metadata_before_1_34(&self) -> Self {
        Self {
            form: Form::Struct,
            creation_timestamp: true,
            ..self.clone()
        }
    }

    /// Returns the object of a bookmark.
    pub fn object(&self, resource_version: impl Display, initial_events_end: bool) -> Vec<u8> {
        let version = format!("\"resourceVersion\":\"{resource_version}\"");
        let annotations = self.annotations_member(initial_events_end);
        let annotations = annotations.as_deref();
        let creation = self
            .creation_timestamp
            .then_some(&b"\"creationTimestamp\":null"[..]);
        let members = match self.form {
            Form::Struct => [Some(version.as_bytes()), creation, annotations],
            Form::Map => [annotations, creation, Some(version.as_bytes())],
        };
        let members: Vec<&[u8]> = members.into_iter().flatten().collect();
        [
            &self.before[..],
            b"{",
            &members.join(&b","[..]),
            b"}",
            &self.after[..],
        ]
        .concat()
    }

    fn annotations_member(&self, initial_events_end: bool) -> Option<Vec<u8>> {
        let mut all: Vec<(&[u8], &[u8])> = self
            .annotations
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        if initial_events_end {
            all.push((INITIAL_EVENTS_END.as_bytes(), b"\"true\""));
            all.sort_unstable();
        }
        let members: Vec<Vec<u8>> = all
            .into_iter()
            .map(|(key, value)| [b"\"", key, b"\":", value].concat())
            .collect();
        let members = members.join(&b","[..]);
        (!members.is_empty()).then(|| [b"\"annotations\":{", &members[..], b"}"].concat())
    }

    /// Returns the whole event.
    pub fn frame(&self, resource_version: impl Display, initial_events_end: bool) -> Bytes {
        watch_frame(
            EventType::Bookmark,
            &self.object(resource_version, initial_events_end),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events are bookmarks of kube-apiserver 1.36.
    #[test]
    fn learnt_bookmarks_come_out_as_they_were() {
        for (plain, end) in [
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"387"},"spec":{"containers":null},"status":{}}"#,
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"387","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}"#,
            ),
            (
                r#"{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"387"}}"#,
                r#"{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"387","annotations":{"k8s.io/initial-events-end":"true"}}}"#,
            ),
            (
                r#"{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"resourceVersion":"387","annotations":{"deprecated.daemonset.template.generation":"0"}},"status":{}}"#,
                r#"{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"resourceVersion":"387","annotations":{"deprecated.daemonset.template.generation":"0","k8s.io/initial-events-end":"true"}},"status":{}}"#,
            ),
            (
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"387"}}"#,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"387"}}"#,
            ),
        ] {
            for from in [plain, end] {
                let template = BookmarkTemplate::learn(from.as_bytes()).unwrap();
                assert_eq!(template.object(387, false), plain.as_bytes());
                assert_eq!(template.object(387, true), end.as_bytes());
            }
        }
    }

    /// The end of initial events in kube-apiserver 1.32.
    #[test]
    fn the_blueprint_is_of_one_watch_alone() {
        let end = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"387","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true","kubernetes.io/initial-events-list-blueprint":"eyJraW5kIjo"}}}"#;
        let plain = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"387","creationTimestamp":null}}"#;
        let template = BookmarkTemplate::learn(end.as_bytes()).unwrap();
        assert_eq!(template.object(387, false), plain.as_bytes());
        assert!(template.had_blueprint());
        let other = BookmarkTemplate::learn(plain.as_bytes()).unwrap();
        assert!(!other.had_blueprint());
    }

    #[test]
    fn strange_bookmarks_are_refused() {
        for strange in [
            r#"{"kind":"Pod","metadata":{"resourceVersion":"1","name":"x"}}"#,
            r#"{"kind":"Pod","metadata":{"resourceVersion":"1","annotations":{"a":"b","c":"d","e":"f","g":"h","i":"j"}}}"#,
            r#"{"kind":"Pod"}"#,
        ] {
            assert_eq!(BookmarkTemplate::learn(strange.as_bytes()), None);
        }
    }
}
