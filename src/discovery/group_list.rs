//! The plain document at `/apis`, and the documents at `/apis/G`, which are parts of
//! it.

use bytes::Bytes;
use kubernetes_wire::api::go_json;
use kubernetes_wire::representation::scan;

/// The start of the list as the aggregator writes it. A server without an
/// aggregator writes no apiVersion, and adds its own address, which depends on
/// the caller.
const HEAD: &[u8] = br#"{"kind":"APIGroupList","apiVersion":"v1","groups":["#;
const GROUP_HEAD: &[u8] = br#"{"kind":"APIGroup","apiVersion":"v1","#;

/// Groups and the names of their versions. The preferred version comes first.
pub(super) type Groups = Vec<(String, Vec<String>)>;

/// Reads the groups of a document. Returns `None` if the document has another form.
pub(super) fn parse(json: &[u8]) -> Option<Groups> {
    if !json.starts_with(HEAD) {
        return None;
    }
    let mut groups = Groups::new();
    for element in scan::elements(scan::get(json, &["groups"])?) {
        let (_, group) = element.ok()?;
        let name = scan::text_at(group, &["name"])?.into_owned();
        let mut versions = Vec::new();
        for element in scan::elements(scan::get(group, &["versions"])?) {
            versions.push(scan::text_at(element.ok()?.1, &["version"])?.into_owned());
        }
        groups.push((name, versions));
    }
    // If writing the groups again gives the same bytes, no field was lost.
    (write(&groups) == json).then_some(groups)
}

pub(super) fn write(groups: &Groups) -> Bytes {
    let mut out = HEAD.to_vec();
    for (i, (name, versions)) in groups.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.push(b'{');
        write_group(name, versions, &mut out);
    }
    out.extend_from_slice(b"]}\n");
    out.into()
}

pub(super) fn group(name: &str, versions: &[String]) -> Bytes {
    let mut out = GROUP_HEAD.to_vec();
    write_group(name, versions, &mut out);
    out.push(b'\n');
    out.into()
}

/// Writes a group without its opening brace.
fn write_group(name: &str, versions: &[String], out: &mut Vec<u8>) {
    let version = |version: &String, out: &mut Vec<u8>| {
        out.extend_from_slice(br#"{"groupVersion":"#);
        out.extend_from_slice(&go_json::to_vec(&format!("{name}/{version}")));
        out.extend_from_slice(br#","version":"#);
        out.extend_from_slice(&go_json::to_vec(version));
        out.push(b'}');
    };
    out.extend_from_slice(br#""name":"#);
    out.extend_from_slice(&go_json::to_vec(name));
    out.extend_from_slice(br#","versions":["#);
    for (i, each) in versions.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        version(each, out);
    }
    out.extend_from_slice(br#"],"preferredVersion":"#);
    if let Some(preferred) = versions.first() {
        version(preferred, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = concat!(
        r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"a","versions":["#,
        r#"{"groupVersion":"a/v2","version":"v2"},{"groupVersion":"a/v1","version":"v1"}],"#,
        r#""preferredVersion":{"groupVersion":"a/v2","version":"v2"}}]}"#,
        "\n"
    );

    #[test]
    fn only_the_aggregators_form_is_read() {
        let groups = parse(JSON.as_bytes()).unwrap();
        assert_eq!(
            groups,
            [("a".to_owned(), vec!["v2".to_owned(), "v1".to_owned()])]
        );
        let preferred = JSON.replace(
            r#""preferredVersion":{"groupVersion":"a/v2","version":"v2"}"#,
            r#""preferredVersion":{"groupVersion":"a/v1","version":"v1"}"#,
        );
        for bad in [
            preferred.as_str(),
            r#"{"kind":"APIGroupList","groups":[]}"#,
            "<html>",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_group_is_its_part_of_the_list() {
        let text = String::from_utf8(group("a", &["v1".to_owned()]).to_vec()).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"kind":"APIGroup","apiVersion":"v1","name":"a","versions":[{"groupVersion":"a/v1","version":"v1"}],"#,
                r#""preferredVersion":{"groupVersion":"a/v1","version":"v1"}}"#,
                "\n"
            )
        );
    }
}
