//! The fields that selectors may name, per resource.
//!
//! `metadata.name` works for every resource. The other selectable fields are
//! compiled into kube-apiserver per kind (`builtin.rs`) or written in a
//! CustomResourceDefinition. Upstream answers a selector on any other field
//! (`store/filter.rs` finds it).

mod builtin;
mod path;

use std::sync::Arc;

pub use self::builtin::field_table;
use self::path::Paths;

use super::texts;

/// The label that is selectable for nearly every resource.
const NAMESPACE: &str = "metadata.namespace";

/// The most members of one JSON path. The schema of a custom resource can be
/// arbitrarily deep. Upstream answers selectors on deeper fields.
const MAX_DEPTH: usize = 16;

/// The place of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The value at a path, or this text if there is none.
    At(Vec<String>, &'static str),
    /// The value at the first path, or at the second if the first is empty.
    Either(Vec<String>, Vec<String>),
    /// No value: the label is accepted and no object has a value.
    Nothing,
}

/// One selectable field: its name in selectors, and the place of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    label: String,
    source: Source,
}

/// The selectable fields of one resource. Objects keep one value for each of
/// the table's columns, in the table's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldTable(Arc<Table>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    fields: Vec<Field>,
    /// For each field, the column with its values.
    columns: Vec<Option<usize>>,
    /// For each column, the paths at which its value may be.
    readers: Vec<Reader>,
    paths: Paths,
    /// Selectors may name `metadata.namespace`.
    namespace: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Reader {
    first: usize,
    otherwise: Option<usize>,
    absent: &'static str,
}

/// The value that a selectable label refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selectable {
    Name,
    Namespace,
    Column(usize),
    /// The empty value, which every object has.
    Empty,
}

impl FieldTable {
    /// Makes the table of the `selectableFields` of a
    /// CustomResourceDefinition's version. Paths that are not plain names are
    /// left out.
    pub fn custom<'p>(json_paths: impl Iterator<Item = &'p str>) -> Self {
        let fields = json_paths.filter_map(|path| {
            let label = path.strip_prefix('.').unwrap_or(path);
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let keys = split(label);
            let known = keys.len() <= MAX_DEPTH
                && keys.iter().all(|k| !k.is_empty() && k.chars().all(plain));
            known.then(|| Field {
                label: label.to_owned(),
                source: Source::At(keys, ""),
            })
        });
        Self::new(fields.collect(), true)
    }

    fn new(fields: Vec<Field>, namespace: bool) -> Self {
        let mut paths = Paths::default();
        let mut readers: Vec<Reader> = Vec::new();
        let columns = fields
            .iter()
            .map(|field| {
                let reader = match &field.source {
                    Source::At(path, absent) => Reader {
                        first: paths.add(path),
                        otherwise: None,
                        absent,
                    },
                    Source::Either(first, otherwise) => Reader {
                        first: paths.add(first),
                        otherwise: Some(paths.add(otherwise)),
                        absent: "",
                    },
                    Source::Nothing => return None,
                };
                // Two labels may have the same value.
                let known = readers.iter().position(|r| *r == reader);
                Some(known.unwrap_or_else(|| {
                    let at = readers.len();
                    readers.push(reader);
                    at
                }))
            })
            .collect();
        Self(Arc::new(Table {
            fields,
            columns,
            readers,
            paths,
            namespace,
        }))
    }

    /// Returns every label except `metadata.name`.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let namespace = self.0.namespace.then_some(NAMESPACE);
        let own = self.0.fields.iter().map(|f| f.label.as_str());
        namespace.into_iter().chain(own)
    }

    /// Returns the table without the labels that `keep` refuses.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) -> Self {
        let fields = self.0.fields.iter().filter(|f| keep(&f.label));
        let namespace = self.0.namespace && keep(NAMESPACE);
        Self::new(fields.cloned().collect(), namespace)
    }

    /// Returns `None` for labels that upstream must judge.
    pub(super) fn lookup(&self, label: &str, namespaced: bool) -> Option<Selectable> {
        match label {
            "metadata.name" => Some(Selectable::Name),
            NAMESPACE => self.0.namespace.then_some(if namespaced {
                Selectable::Namespace
            } else {
                Selectable::Empty
            }),
            _ => {
                let field = self.0.fields.iter().position(|f| f.label == label)?;
                let column = *self.0.columns.get(field)?;
                Some(column.map_or(Selectable::Empty, Selectable::Column))
            }
        }
    }

    /// Returns an object's values by column, as [`texts::joined`] joins them.
    pub(super) fn values(&self, object: &[u8]) -> String {
        let table = &self.0;
        if table.readers.is_empty() {
            return String::new();
        }
        let found = table.paths.read(object);
        let at = |path: usize| found.get(path).and_then(Option::as_deref);
        texts::joined(table.readers.iter().map(|reader| {
            let value = match (at(reader.first), reader.otherwise) {
                (None | Some(""), Some(otherwise)) => at(otherwise),
                (value, _) => value,
            };
            value.unwrap_or(reader.absent)
        }))
    }
}

fn split(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::GroupVersionResource;

    use super::*;

    fn table(group: &str, version: &str, resource: &str) -> FieldTable {
        field_table(&GroupVersionResource::new(group, version, resource))
    }

    fn value(table: &FieldTable, object: &str, label: &str) -> Option<String> {
        match table.lookup(label, true)? {
            Selectable::Name => Some("name".to_owned()),
            Selectable::Namespace => Some("namespace".to_owned()),
            Selectable::Empty => Some(String::new()),
            Selectable::Column(i) => {
                let values = table.values(object.as_bytes());
                texts::Texts::from_joined(&values).get(i).map(str::to_owned)
            }
        }
    }

    #[test]
    fn values_are_those_kube_apiserver_compares() {
        let pod = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n\u0041","hostNetwork":true},"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}"#;
        let event = r#"{"involvedObject":{"kind":"Pod"},"source":{"component":""},"reportingComponent":"kubelet"}"#;
        let cases: &[(&FieldTable, &str, &str, Option<&str>)] = &[
            (&table("", "v1", "pods"), pod, "spec.nodeName", Some("nA")),
            (&table("", "v1", "pods"), pod, "spec.host", Some("nA")),
            (
                &table("", "v1", "pods"),
                pod,
                "spec.hostNetwork",
                Some("true"),
            ),
            (
                &table("", "v1", "pods"),
                "{}",
                "spec.hostNetwork",
                Some("false"),
            ),
            (
                &table("", "v1", "pods"),
                pod,
                "status.podIP",
                Some("10.0.0.1"),
            ),
            (&table("", "v1", "pods"), pod, "status.podIPs", Some("")),
            (&table("", "v1", "pods"), pod, "status.phase", Some("")),
            (&table("", "v1", "pods"), pod, "spec.subdomain", None),
            (&table("", "v1", "nodes"), "{}", "metadata.namespace", None),
            (
                &table("batch", "v1", "jobs"),
                r#"{"status":{"succeeded":3}}"#,
                "status.successful",
                Some("3"),
            ),
            (
                &table("batch", "v1", "jobs"),
                r#"{"status":{}}"#,
                "status.successful",
                Some("0"),
            ),
            (&table("", "v1", "events"), event, "source", Some("kubelet")),
            (
                &table("", "v1", "events"),
                event,
                "involvedObject.kind",
                Some("Pod"),
            ),
            (
                &table("", "v1", "events"),
                r#"{"source":{"component":"x"}}"#,
                "source",
                Some("x"),
            ),
            (
                &table("apps", "v1", "deployments"),
                "{}",
                "status.replicas",
                None,
            ),
            (
                &table("apps", "v1", "deployments"),
                "{}",
                "metadata.namespace",
                Some("namespace"),
            ),
        ];
        for (table, object, label, expected) in cases {
            assert_eq!(value(table, object, label).as_deref(), *expected, "{label}");
        }
    }

    #[test]
    fn a_custom_table_is_read_from_its_definition() {
        let paths = [".spec.color", ".spec.size", ".spec['odd']", "", ".spec..x"];
        let table = FieldTable::custom(paths.into_iter());
        let object = r#"{"spec":{"size":12,"color":null,"other":{"size":3}}}"#;
        assert_eq!(value(&table, object, "spec.color").as_deref(), Some(""));
        assert_eq!(value(&table, object, "spec.size").as_deref(), Some("12"));
        assert_eq!(value(&table, object, "spec['odd']"), None);
        let labels: Vec<_> = table.labels().collect();
        assert_eq!(labels, ["metadata.namespace", "spec.color", "spec.size"]);
        let less = table.retain(|label| label == "spec.size");
        assert_eq!(less.labels().collect::<Vec<_>>(), ["spec.size"]);
        assert_eq!(value(&less, object, "spec.size").as_deref(), Some("12"));
        assert_ne!(less, table);
        assert_eq!(FieldTable::custom(paths.into_iter()), table);
    }
}
