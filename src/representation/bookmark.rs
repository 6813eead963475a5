//! Bookmarks. Their object is an empty one of the resource's kind, and how that
//! is written only the server of the kind knows (`"spec":{"containers":null}`):
//! the shape is learnt from one bookmark of the upstream.

use std::fmt::Display;

use bytes::Bytes;

use super::envelope::{EventType, Form, watch_frame};
use super::scan;

/// Marks the bookmark that ends the initial events of a watch (KEP-3157).
const INITIAL_EVENTS_END: &[u8] = br#"{"k8s.io/initial-events-end":"true"}"#;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookmarkTemplate {
    form: Form,
    /// Up to the value of `metadata`.
    before: Bytes,
    after: Bytes,
    /// Servers before 1.35 write `"creationTimestamp":null`.
    creation_timestamp: bool,
}

impl BookmarkTemplate {
    /// From the object of a bookmark event. `None` if it holds what a bookmark
    /// is not known to hold.
    pub fn learn(object: &[u8]) -> Option<Self> {
        let object = object.trim_ascii();
        let span = scan::find(object, &["metadata"])?;
        let mut creation_timestamp = false;
        for member in scan::members(object.get(span.clone())?) {
            let member = member.ok()?;
            match (member.key, member.value) {
                (b"resourceVersion", [b'"', ..]) | (b"annotations", INITIAL_EVENTS_END) => {}
                (b"creationTimestamp", b"null") => creation_timestamp = true,
                _ => return None,
            }
        }
        Some(Self {
            form: Form::detect(object)?,
            before: Bytes::copy_from_slice(object.get(..span.start)?),
            after: Bytes::copy_from_slice(object.get(span.end..)?),
            creation_timestamp,
        })
    }

    /// The object of a bookmark.
    pub fn object(&self, resource_version: impl Display, initial_events_end: bool) -> Vec<u8> {
        let version = format!("\"resourceVersion\":\"{resource_version}\"");
        let annotations = [&b"\"annotations\":"[..], INITIAL_EVENTS_END].concat();
        let annotations = initial_events_end.then_some(&annotations[..]);
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

    /// The whole event.
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

    /// Bookmarks of kube-apiserver 1.36.
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

    #[test]
    fn strange_bookmarks_are_refused() {
        for strange in [
            r#"{"kind":"Pod","metadata":{"resourceVersion":"1","name":"x"}}"#,
            r#"{"kind":"Pod","metadata":{"resourceVersion":"1","annotations":{"a":"b"}}}"#,
            r#"{"kind":"Pod"}"#,
        ] {
            assert_eq!(BookmarkTemplate::learn(strange.as_bytes()), None);
        }
    }
}
