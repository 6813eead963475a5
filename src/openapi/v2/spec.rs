//! A specification of version 2, as the JSON texts of its parts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::references::{DEFINITION, PARAMETER, references};

pub(super) type Texts<'a> = BTreeMap<String, Cow<'a, str>>;

#[derive(Clone, Debug, Default)]
pub(super) struct Spec<'a> {
    /// All members in order. An empty text marks the place of each map below.
    members: Vec<(String, Cow<'a, str>)>,
    pub(super) paths: Texts<'a>,
    pub(super) definitions: Texts<'a>,
    pub(super) parameters: Texts<'a>,
}

pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl<'a> Spec<'a> {
    pub(super) fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        let Members(members) = serde_json::from_slice(text)?;
        let mut spec = Self::default();
        for (name, value) in members {
            let map = match name.as_str() {
                "paths" => &mut spec.paths,
                "definitions" => &mut spec.definitions,
                "parameters" => &mut spec.parameters,
                _ => {
                    spec.members.push((name, value.get().into()));
                    continue;
                }
            };
            let Members(items) = serde_json::from_str(value.get())?;
            let texts = items.into_iter().map(|(k, v)| (k, Cow::Borrowed(v.get())));
            map.extend(texts);
            spec.members.push((name, "".into()));
        }
        // Other members are extensions, which no merge keeps.
        spec.paths.retain(|path, _| path.starts_with('/'));
        Ok(spec)
    }

    /// Keeps the paths that `keep` accepts. Drops the others, and the definitions
    /// that only they used, like kube-openapi's `FilterSpecByPaths`.
    pub(super) fn keep_paths(&mut self, keep: impl Fn(&str) -> bool) {
        if self.paths.keys().all(|path| keep(path)) {
            return;
        }
        let before = self.used_definitions();
        self.paths.retain(|path, _| keep(path));
        let after = self.used_definitions();
        self.definitions
            .retain(|name, _| after.contains(name) || !before.contains(name));
    }

    /// Returns the definitions to which paths refer, directly or indirectly.
    fn used_definitions(&self) -> BTreeSet<String> {
        let mut definitions = BTreeSet::new();
        let mut parameters = BTreeSet::new();
        let mut unread: Vec<&str> = self.paths.values().map(AsRef::as_ref).collect();
        while let Some(text) = unread.pop() {
            for reference in references(text) {
                if let Some(name) = reference.strip_prefix(DEFINITION) {
                    if definitions.insert(name.to_owned()) {
                        unread.extend(self.definitions.get(name).map(AsRef::as_ref));
                    }
                } else if let Some(name) = reference.strip_prefix(PARAMETER)
                    && parameters.insert(name.to_owned())
                {
                    unread.extend(self.parameters.get(name).map(AsRef::as_ref));
                }
            }
        }
        definitions
    }

    /// Writes the document. Members keep their original order, and maps are
    /// sorted by key, as kube-openapi writes them.
    pub(super) fn write(&self, length: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(length);
        out.push(b'{');
        let has = |name: &str| self.members.iter().any(|(n, _)| n == name);
        for (name, text) in &self.members {
            match name.as_str() {
                "paths" => {
                    write_map(&mut out, name, Some(&self.paths));
                    if !has("definitions") {
                        write_map(&mut out, "definitions", not_empty(&self.definitions));
                    }
                    if !has("parameters") {
                        write_map(&mut out, "parameters", not_empty(&self.parameters));
                    }
                }
                "definitions" => write_map(&mut out, name, not_empty(&self.definitions)),
                "parameters" => write_map(&mut out, name, not_empty(&self.parameters)),
                _ => write_member(&mut out, name, text),
            }
        }
        out.push(b'}');
        out
    }
}

/// Returns `None` for an empty map, like Go's `omitempty`.
fn not_empty<'m, 'a>(map: &'m Texts<'a>) -> Option<&'m Texts<'a>> {
    (!map.is_empty()).then_some(map)
}

fn write_map(out: &mut Vec<u8>, name: &str, map: Option<&Texts<'_>>) {
    let Some(map) = map else { return };
    write_name(out, name);
    out.push(b'{');
    for (name, text) in map {
        write_member(out, name, text);
    }
    out.push(b'}');
}

fn write_member(out: &mut Vec<u8>, name: &str, text: &str) {
    write_name(out, name);
    out.extend_from_slice(text.as_bytes());
}

/// Writes a name, after a comma if one is needed.
fn write_name(out: &mut Vec<u8>, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
    out.push(b':');
}

pub(super) fn object(members: &[(String, Cow<'_, str>)]) -> String {
    let mut out = vec![b'{'];
    for (name, text) in members {
        write_member(&mut out, name, text);
    }
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"{"swagger":"2.0","info":{"title":"t"},"paths":{"/a/":{"$ref":"#/definitions/A"},"/b/":{"p":[{"$ref":"#/parameters/p"}]}},"definitions":{"A":{"$ref":"#/definitions/C"},"B":{},"C":{"$ref":"#/definitions/A"},"D":{}},"parameters":{"p":{"$ref":"#/definitions/B"}},"security":[]}"##;

    #[test]
    fn what_is_read_is_written() {
        let spec = Spec::parse(TEXT.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(spec.write(0)).unwrap(), TEXT);
        for bad in ["[]", "<html>", r#"{"paths":[]}"#, "{", r#"{"paths":{}} x"#] {
            assert!(Spec::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn unused_definitions_go_with_their_paths() {
        let mut spec = Spec::parse(TEXT.as_bytes()).unwrap();
        spec.keep_paths(|path| path != "/a/");
        let names: Vec<_> = spec.definitions.keys().collect();
        assert_eq!(names, ["B", "D"]);
        let mut spec = Spec::parse(TEXT.as_bytes()).unwrap();
        spec.keep_paths(|path| path != "/b/");
        let names: Vec<_> = spec.definitions.keys().collect();
        assert_eq!(names, ["A", "C", "D"]);
    }
}
