//! The plain document at `/apis/G/V`, without hidden resources.

use bytes::Bytes;
use kubernetes_wire::representation::scan;

/// Returns the document without hidden resources and their subresources. `None` if
/// the document has another form.
pub(super) fn without(json: &Bytes, hidden: impl Fn(&str) -> bool) -> Option<Bytes> {
    let span = scan::find(json, &["resources"])?;
    let resources = json.slice(span.clone());
    let mut kept: Vec<&[u8]> = Vec::new();
    for element in scan::elements(&resources) {
        let (_, resource) = element.ok()?;
        let name = scan::text_at(resource, &["name"])?;
        let parent = name.split('/').next().unwrap_or_default();
        if !hidden(parent) {
            kept.push(resource);
        }
    }
    let mut out = json.get(..span.start)?.to_vec();
    out.push(b'[');
    out.extend_from_slice(&kept.join(&b','));
    out.push(b']');
    out.extend_from_slice(json.get(span.end..)?);
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subresources_go_with_their_resource() {
        let json = Bytes::from_static(
            br#"{"kind":"APIResourceList","resources":[{"name":"a","x":1},{"name":"a/status"},{"name":"ab"}]}
"#,
        );
        assert_eq!(
            without(&json, |name| name == "a").unwrap(),
            &br#"{"kind":"APIResourceList","resources":[{"name":"ab"}]}
"#[..]
        );
        assert_eq!(without(&json, |_| false).unwrap(), json);
        assert_eq!(without(&Bytes::from_static(b"<html>"), |_| false), None);
    }
}
