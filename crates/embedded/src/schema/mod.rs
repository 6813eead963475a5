//! The structural schema of a custom resource (apiextensions-apiserver
//! `pkg/apiserver/schema`). It is read once from the definition, and applied to
//! every written object.
//!
//! `prune` drops unknown fields, `defaults` fills in missing ones, and
//! `validate` reports errors in the words of the real server. Rules in CEL
//! (`x-kubernetes-validations`) are not evaluated.

mod composition;
mod defaults;
mod findings;
mod format;
mod go_value;
mod list_type;
mod prune;
mod validate;

use std::collections::BTreeMap;

use kubernetes_wire::api::go_regexp;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// The most memory of a compiled pattern. Patterns in use need a few KiB. A pattern
/// that needs more, or that the regex crate cannot express, is not enforced.
const PATTERN_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    /// The type. Empty if the schema names none, as in compositions.
    kind: String,
    format: String,
    nullable: bool,
    int_or_string: bool,
    preserves_unknown: bool,
    embedded_resource: bool,
    default: Option<Value>,
    properties: BTreeMap<String, Schema>,
    additional: Additional,
    items: Option<Box<Schema>>,
    required: Vec<String>,
    limits: Limits,
    values: Option<Vec<Value>>,
    pattern: Option<Regex>,
    list: ListType,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    /// True if this node, or one below it, has rules in CEL.
    has_rules: bool,
}

/// The schema of properties that `properties` does not name.
#[derive(Clone, Debug, Default)]
enum Additional {
    #[default]
    None,
    Any,
    Of(Box<Schema>),
}

#[derive(Clone, Debug, Default)]
struct Limits {
    minimum: Option<f64>,
    exclusive_minimum: bool,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
}

#[derive(Clone, Debug, Default)]
enum ListType {
    #[default]
    Atomic,
    Set,
    /// Items are identified by these keys.
    Map(Vec<String>),
}

impl Schema {
    /// Reads an `openAPIV3Schema`. Malformed parts are ignored.
    pub(crate) fn parse(value: &Value) -> Self {
        let empty = Map::new();
        let map = value.as_object().unwrap_or(&empty);
        let text = |key: &str| {
            map.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let flag = |key: &str| map.get(key) == Some(&Value::Bool(true));
        let list = |key: &str| map.get(key).and_then(Value::as_array).into_iter().flatten();
        let texts = |key: &str| list(key).filter_map(|v| v.as_str().map(str::to_owned));
        let child = |key: &str| map.get(key).map(|v| Box::new(Self::parse(v)));
        let children = |key: &str| list(key).map(Self::parse).collect::<Vec<_>>();
        let mut schema = Self {
            kind: text("type"),
            format: text("format"),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            default: map.get("default").filter(|v| !v.is_null()).cloned(),
            properties: map
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(name, property)| (name.clone(), Self::parse(property)))
                .collect(),
            additional: match map.get("additionalProperties") {
                Some(Value::Bool(true)) => Additional::Any,
                Some(schema @ Value::Object(_)) => Additional::Of(Box::new(Self::parse(schema))),
                _ => Additional::None,
            },
            items: child("items"),
            required: texts("required").collect(),
            limits: Limits::parse(map),
            values: map.get("enum").and_then(Value::as_array).cloned(),
            pattern: map
                .get("pattern")
                .and_then(Value::as_str)
                .and_then(|pattern| {
                    let mut builder = RegexBuilder::new(&go_regexp::translated(pattern));
                    builder.size_limit(PATTERN_BYTES).build().ok()
                }),
            list: match text("x-kubernetes-list-type").as_str() {
                "set" => ListType::Set,
                "map" => ListType::Map(texts("x-kubernetes-list-map-keys").collect()),
                _ => ListType::Atomic,
            },
            all_of: children("allOf"),
            any_of: children("anyOf"),
            one_of: children("oneOf"),
            not: child("not"),
            has_rules: list("x-kubernetes-validations").next().is_some(),
        };
        schema.has_rules |= schema.properties.values().any(|s| s.has_rules)
            || schema.items.as_ref().is_some_and(|s| s.has_rules)
            || matches!(&schema.additional, Additional::Of(s) if s.has_rules);
        schema
    }

    /// Returns the schema of a property: its own, or that of additional
    /// properties.
    fn property(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(schema), _) => Some(schema),
            (None, Additional::Of(schema)) => Some(schema),
            _ => None,
        }
    }
}

impl Limits {
    fn parse(map: &Map<String, Value>) -> Self {
        let number = |key: &str| map.get(key).and_then(Value::as_f64);
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        let flag = |key: &str| map.get(key) == Some(&Value::Bool(true));
        Self {
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        }
    }
}
