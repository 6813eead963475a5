//! The resourceVersion inside an object's bytes.

use std::fmt::Display;

use bytes::{Bytes, BytesMut};

use super::scan;

/// Returns the same object with another `metadata.resourceVersion`: a DELETED
/// event carries the last state of the object with the version of its deletion.
/// The result is `None` if the object has no resourceVersion.
pub fn with_resource_version(object: &[u8], resource_version: impl Display) -> Option<Bytes> {
    let span = scan::find(object, &["metadata", "resourceVersion"])?;
    let (before, after) = (object.get(..span.start)?, object.get(span.end..)?);
    let mut out = BytesMut::with_capacity(object.len().saturating_add(8));
    out.extend_from_slice(before);
    out.extend_from_slice(format!("\"{resource_version}\"").as_bytes());
    out.extend_from_slice(after);
    Some(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_objects_own_version_changes() {
        let object = br#"{"metadata":{"annotations":{"resourceVersion":"1","last":"{\"resourceVersion\":\"2\"}"},"resourceVersion":"9","x":1},"spec":{"resourceVersion":"3"}}"#;
        let expected = r#"{"metadata":{"annotations":{"resourceVersion":"1","last":"{\"resourceVersion\":\"2\"}"},"resourceVersion":"1000","x":1},"spec":{"resourceVersion":"3"}}"#;
        assert_eq!(with_resource_version(object, 1000).unwrap(), expected);
        assert_eq!(with_resource_version(br#"{"metadata":{}}"#, 1), None);
        assert_eq!(with_resource_version(b"{", 1), None);
    }
}
