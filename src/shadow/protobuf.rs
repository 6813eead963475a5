//! Finds the first difference of two answers in protobuf.

use std::time::Duration;

use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::list::List;
use kubernetes_wire::representation::protobuf_envelope::Answer;
use kubernetes_wire::representation::transcode;
use kubernetes_wire::schema::{Message, Schema};

use super::difference::Difference;
use super::json;

/// Returns the first difference by its path, as far as the schema of built-in kinds
/// knows the fields. `None` if the sides have no common structure.
pub(super) fn first_difference(upstream: &[u8], apifront: &[u8]) -> Option<Difference> {
    let (theirs, ours) = (Answer::parse(upstream)?, Answer::parse(apifront)?);
    for (path, one, other) in [
        ("body.apiVersion", theirs.api_version, ours.api_version),
        ("body.kind", theirs.kind, ours.kind),
    ] {
        if one != other {
            return Some(Difference::of_texts(path, one, other));
        }
    }
    let message = |kind: &str| Schema::builtin().kind(theirs.api_version, kind);
    if let Some(message) = message(theirs.kind) {
        return of_objects("body", message, theirs.message, ours.message);
    }
    let theirs_list = List::parse(Encoding::Protobuf, upstream, usize::MAX).ok()?;
    let ours_list = List::parse(Encoding::Protobuf, apifront, usize::MAX).ok()?;
    let (version, token) = (
        (theirs_list.resource_version, ours_list.resource_version),
        (theirs_list.continue_token, ours_list.continue_token),
    );
    for (path, (one, other)) in [
        ("body.metadata.resourceVersion", version),
        ("body.metadata.continue", token),
    ] {
        if one != other {
            let (one, other) = (Some(one.as_bytes()), Some(other.as_bytes()));
            return Some(Difference::of_bytes(path, one, other));
        }
    }
    let message = theirs.kind.strip_suffix("List").and_then(message);
    let length = theirs_list.items.len().max(ours_list.items.len());
    (0..length).find_map(|i| {
        let path = format!("body.items[{i}]");
        let (one, other) = (theirs_list.items.get(i), ours_list.items.get(i));
        if one == other {
            return None;
        }
        let (Some(one), Some(other)) = (one, other) else {
            return Some(Difference::of_bytes(&path, one.copied(), other.copied()));
        };
        let inside = message.and_then(|message| of_objects(&path, message, one, other));
        Some(inside.unwrap_or_else(|| Difference::of_bytes(&path, Some(one), Some(other))))
    })
}

fn of_objects(path: &str, message: &Message, one: &[u8], other: &[u8]) -> Option<Difference> {
    let as_json = |bytes: &[u8]| {
        let mut out = Vec::new();
        transcode::to_json(message, bytes, &mut out).ok()?;
        Some(out)
    };
    json::first_difference(path, &as_json(one)?, &as_json(other)?, Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::representation::BuiltInObject;

    use super::*;

    fn config_map(value: &str) -> Vec<u8> {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"k":"{value}"}}}}"#
        );
        let object = BuiltInObject::from_json(json.as_bytes()).unwrap();
        object.to_protobuf().unwrap().to_vec()
    }

    #[test]
    fn fields_have_their_names() {
        let found = first_difference(&config_map("1"), &config_map("2")).unwrap();
        assert_eq!(found.path, "body.data.k");
        assert_eq!(first_difference(b"k8s\0", &config_map("2")), None);
    }
}
