//! Merges one specification into another by kube-openapi's rules (`pkg/aggregator`,
//! `MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters`). If both have a
//! path, the first one's stays. If a definition or a parameter of the same name has
//! different content, the second one's is renamed, and its references too. Equal
//! definitions become one with the group version kinds of both.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::kinds::{KINDS, merge_kinds, sort_kinds};
use super::references::{DEFINITION, PARAMETER, rename};
use super::spec::{Spec, Texts};

#[derive(Debug, thiserror::Error)]
#[error("definition {0}: not a list of group version kinds")]
pub(super) struct NotKinds(String);

/// Merges `source` into `dest`. After an error, `dest` is unchanged.
pub(super) fn merge<'a>(dest: &mut Spec<'a>, mut source: Spec<'a>) -> Result<(), NotKinds> {
    source.keep_paths(|path| !dest.paths.contains_key(path));
    if source.paths.is_empty() {
        return Ok(());
    }
    let definitions = renames(&dest.definitions, &source.definitions, equal_but_for_kinds);
    let parameters = renames(&dest.parameters, &source.parameters, equal);
    let references = prefixed(DEFINITION, &definitions)
        .chain(prefixed(PARAMETER, &parameters))
        .collect();
    apply(&mut source.definitions, &definitions, &references);
    apply(&mut source.parameters, &parameters, &references);
    apply(&mut source.paths, &BTreeMap::new(), &references);
    for text in source.paths.values_mut() {
        if let Some(sorted) = sort_kinds(text) {
            *text = sorted.into();
        }
    }

    let mut kinds = Vec::new();
    for (name, text) in &source.definitions {
        if let Some(existing) = dest.definitions.get(name)
            && let Some(merged) = merge_kinds(existing, text).map_err(|_| NotKinds(name.clone()))?
        {
            kinds.push((name.clone(), merged));
        }
    }
    add(&mut dest.definitions, source.definitions);
    add(&mut dest.parameters, source.parameters);
    add(&mut dest.paths, source.paths);
    for (name, text) in kinds {
        dest.definitions.insert(name, text.into());
    }
    Ok(())
}

fn add<'a>(dest: &mut Texts<'a>, source: Texts<'a>) {
    for (name, text) in source {
        dest.entry(name).or_insert(text);
    }
}

/// Returns new names for the entries of `source` that differ from the entry of the
/// same name in `dest`.
fn renames(
    dest: &Texts<'_>,
    source: &Texts<'_>,
    equal: impl Fn(&str, &str) -> bool,
) -> BTreeMap<String, String> {
    let mut renames = BTreeMap::new();
    let mut given = BTreeSet::new();
    for (name, text) in source {
        if dest.get(name).is_none_or(|existing| equal(existing, text)) {
            continue;
        }
        let numbered = (2..).map(|n| format!("{name}_v{n}"));
        // If an equal entry was renamed before, its new name is used again.
        for new in numbered {
            let fits = match dest.get(&new) {
                Some(existing) => equal(existing, text),
                None => !given.contains(&new) && !source.contains_key(&new),
            };
            if fits {
                given.insert(new.clone());
                renames.insert(name.clone(), new);
                break;
            }
        }
    }
    renames
}

fn prefixed<'a>(
    prefix: &'a str,
    renames: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (String, String)> + 'a {
    let whole = move |name: &String| format!("{prefix}{name}");
    renames.iter().map(move |(a, b)| (whole(a), whole(b)))
}

fn apply(
    texts: &mut Texts<'_>,
    names: &BTreeMap<String, String>,
    references: &BTreeMap<String, String>,
) {
    if references.is_empty() {
        return;
    }
    let before = std::mem::take(texts);
    texts.extend(before.into_iter().map(|(name, text)| {
        let name = names.get(&name).cloned().unwrap_or(name);
        let text = match text {
            Cow::Borrowed(text) => rename(text, references),
            Cow::Owned(text) => rename(&text, references).into_owned().into(),
        };
        (name, text)
    }));
}

fn equal(a: &str, b: &str) -> bool {
    let parse = |text| serde_json::from_str::<Value>(text).ok();
    a == b || parse(a).is_some_and(|a| Some(a) == parse(b))
}

fn equal_but_for_kinds(a: &str, b: &str) -> bool {
    let parse = |text| {
        let mut value: Value = serde_json::from_str(text).ok()?;
        value.as_object_mut()?.remove(KINDS);
        Some(value)
    };
    a == b || parse(a).is_some_and(|a| Some(a) == parse(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(first: &str, others: &[&str]) -> Value {
        let mut dest = Spec::parse(first.as_bytes()).unwrap();
        for other in others {
            let source = Spec::parse(other.as_bytes()).unwrap();
            merge(&mut dest, source).unwrap();
        }
        serde_json::from_slice(&dest.write(0)).unwrap()
    }

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    const FIRST: &str =
        r##"{"paths":{"/a":{"$ref":"#/definitions/A"}},"definitions":{"A":{"type":"string"}}}"##;

    #[test]
    fn the_first_of_two_paths_stays() {
        let second = r##"{"paths":{"/a":{"$ref":"#/definitions/B"}},"definitions":{"B":{}}}"##;
        assert_eq!(merged(FIRST, &[second]), value(FIRST));
        // A definition that only the dropped path used is dropped, too.
        let second = r##"{"paths":{"/a":{"$ref":"#/definitions/B"},"/b":{}},"definitions":{"B":{},"C":{}}}"##;
        let all = merged(FIRST, &[second]);
        assert_eq!(
            all["definitions"],
            value(r#"{"A":{"type":"string"},"C":{}}"#)
        );
        assert_eq!(all["paths"]["/b"], value("{}"));
    }

    #[test]
    fn clashing_definitions_are_renamed() {
        let second = r##"{"paths":{"/b":{"$ref":"#/definitions/A"}},"definitions":{"A":{"type":"integer","p":{"$ref":"#/definitions/A"}}}}"##;
        let third = second.replace("\"/b\"", "\"/c\"");
        let fourth = r##"{"paths":{"/d":{"$ref":"#/definitions/A"}},"definitions":{"A":{"type":"number"}}}"##;
        let all = merged(FIRST, &[second, &third, fourth]);
        assert_eq!(
            all,
            value(
                r##"{"paths":{
                    "/a":{"$ref":"#/definitions/A"},
                    "/b":{"$ref":"#/definitions/A_v2"},
                    "/c":{"$ref":"#/definitions/A_v3"},
                    "/d":{"$ref":"#/definitions/A_v4"}},
                "definitions":{
                    "A":{"type":"string"},
                    "A_v2":{"type":"integer","p":{"$ref":"#/definitions/A_v2"}},
                    "A_v3":{"type":"integer","p":{"$ref":"#/definitions/A_v3"}},
                    "A_v4":{"type":"number"}}}"##
            )
        );
        // A definition that does not refer to itself is shared.
        let fifth = fourth.replace("\"/d\"", "\"/e\"");
        let all = merged(FIRST, &[fourth, &fifth]);
        assert_eq!(
            all["paths"]["/e"],
            value(r##"{"$ref":"#/definitions/A_v2"}"##)
        );
        assert_eq!(all["definitions"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn clashing_parameters_are_renamed() {
        let spec = |path: &str, name: &str| {
            format!(
                r##"{{"paths":{{"{path}":[{{"$ref":"#/parameters/p"}}]}},"parameters":{{"p":{{"name":"{name}"}}}}}}"##
            )
        };
        let all = merged(&spec("/a", "x"), &[&spec("/b", "y"), &spec("/c", "x")]);
        assert_eq!(
            all["paths"]["/b"][0],
            value(r##"{"$ref":"#/parameters/p_v2"}"##)
        );
        assert_eq!(
            all["paths"]["/c"][0],
            value(r##"{"$ref":"#/parameters/p"}"##)
        );
        assert_eq!(all["parameters"]["p_v2"]["name"], "y");
    }

    #[test]
    fn equal_definitions_have_all_kinds() {
        let spec = |path: &str, kinds: &str| {
            format!(
                r##"{{"paths":{{"{path}":{{"$ref":"#/definitions/A"}}}},"definitions":{{"A":{{"type":"object"{kinds},"x-z":1}}}}}}"##
            )
        };
        let kind = |group: &str| format!(r#"{{"group":"{group}","kind":"K","version":"v1"}}"#);
        let with = |path: &str, groups: &[&str]| {
            let kinds: Vec<_> = groups.iter().map(|g| kind(g)).collect();
            spec(path, &format!(r#","{KINDS}":[{}]"#, kinds.join(",")))
        };
        for (first, second, expected) in [
            (
                with("/a", &["a", "c"]),
                with("/b", &["b"]),
                &["a", "b", "c"][..],
            ),
            (with("/a", &["c", "a"]), with("/b", &["a"]), &["c", "a"]),
            (spec("/a", ""), with("/b", &["b"]), &["b"]),
            (with("/a", &["a"]), spec("/b", ""), &["a"]),
        ] {
            let mut dest = Spec::parse(first.as_bytes()).unwrap();
            merge(&mut dest, Spec::parse(second.as_bytes()).unwrap()).unwrap();
            let kinds: Vec<_> = expected.iter().map(|g| kind(g)).collect();
            assert_eq!(
                dest.definitions["A"],
                format!(
                    r#"{{"type":"object","{KINDS}":[{}],"x-z":1}}"#,
                    kinds.join(",")
                )
            );
        }
        let first = with("/a", &["a"]);
        let mut dest = Spec::parse(first.as_bytes()).unwrap();
        let bad = spec("/b", &format!(r#","{KINDS}":["b"]"#));
        assert!(merge(&mut dest, Spec::parse(bad.as_bytes()).unwrap()).is_err());
        assert_eq!(dest.paths.len(), 1);
    }
}
