//! Finds the errors in an object, and words them like kube-openapi's
//! validators.
//!
//! An update is checked only for its changes (KEP-4008, ratcheting): parts that
//! equal the old object are skipped.

use kubernetes_wire::api::{go_float::Printed, query::go_quote, status::Cause};
use serde_json::{Map, Value};

use super::{
    Additional, Schema,
    findings::{BLOCKING, Findings},
    format,
    go_value::{bad, type_name},
};

impl Schema {
    /// Returns the errors of a whole object. `old` is the object that it replaces.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut out = Findings::default();
        self.check(object, old, "", &mut out);
        self.finish(out)
    }

    /// Returns the errors of an object whose status alone is written.
    pub(crate) fn validate_status(&self, object: &Value, old: &Value) -> Vec<Cause> {
        let (Some(schema), Some(status)) = (self.properties.get("status"), object.get("status"))
        else {
            return Vec::new();
        };
        let mut out = Findings {
            prefix: "status",
            ..Findings::default()
        };
        schema.check(status, old.get("status"), "", &mut out);
        self.finish(out)
    }

    fn finish(&self, out: Findings) -> Vec<Cause> {
        let mut causes = out.causes;
        let blocked = causes
            .iter()
            .any(|cause| BLOCKING.contains(&cause.reason.as_str()));
        if self.has_rules && blocked {
            causes.push(Cause {
                reason: "FieldValueInvalid".to_owned(),
                message: "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation".to_owned(),
                field: "<nil>".to_owned(),
            });
        }
        causes
    }

    pub(super) fn check(&self, value: &Value, old: Option<&Value>, name: &str, out: &mut Findings) {
        if old == Some(value) {
            return;
        }
        self.check_type(value, name, out);
        if value.is_null() {
            return;
        }
        self.check_compositions(value, name, out);
        match value {
            Value::String(text) => self.check_text(text, name, out),
            Value::Number(_) => self.check_number(value, name, out),
            Value::Array(items) => self.check_items(items, old, name, out),
            _ => {}
        }
        self.check_values(value, name, out);
        if let Value::Object(map) = value {
            self.check_properties(map, old, name, out);
        }
    }

    fn check_type(&self, value: &Value, name: &str, out: &mut Findings) {
        let is = type_name(value);
        let wanted = match self.kind.as_str() {
            _ if self.int_or_string => "integer,string",
            "" => return,
            kind => kind,
        };
        let fits = match value {
            Value::Null => self.nullable,
            // A float without a fraction is an integer too.
            Value::Number(number) => {
                wanted == "number"
                    || wanted.starts_with("integer")
                        && number.as_f64().is_some_and(|n| n.fract() == 0.0)
            }
            _ => wanted.split(',').any(|wanted| wanted == is),
        };
        if !fits {
            out.wrong_type(name, &go_quote(is), wanted);
        }
    }

    fn check_text(&self, text: &str, name: &str, out: &mut Findings) {
        let limits = &self.limits;
        let length = text.chars().count() as u64;
        let shown = bad(&Value::from(text));
        if let Some(max) = limits.max_length.filter(|max| length > *max) {
            let message = format!("Too long: may not be more than {max} bytes");
            out.push("FieldValueTooLong", name, message);
        } else if let Some(min) = limits.min_length.filter(|min| length < *min) {
            let what = format!("should be at least {min} chars long");
            out.invalid(name, &shown, &what);
        } else if let Some(pattern) = self.pattern.as_ref().filter(|p| !p.is_match(text)) {
            out.invalid(name, &shown, &format!("should match '{pattern}'"));
        }
        if !format::text(&self.format, text) {
            out.wrong_type(name, &shown, &self.format);
        }
    }

    fn check_number(&self, value: &Value, name: &str, out: &mut Findings) {
        let Some(number) = value.as_f64() else {
            return;
        };
        let whole = number.fract() == 0.0;
        let fits = value
            .as_i64()
            .is_none_or(|number| format::integer(&self.format, number));
        if self.kind == "integer" && !(whole && fits) {
            let format = match self.format.as_str() {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            out.general(format!(
                "Checked value must be of type integer {format} in {name}"
            ));
        }
        let limits = &self.limits;
        if let Some(of) = limits.multiple_of
            && of != 0.0
            && (number / of).fract() != 0.0
        {
            let what = format!("should be a multiple of {}", Printed(of));
            out.invalid(name, &bad(value), &what);
        }
        if let Some(max) = limits.maximum {
            let over = number > max || (limits.exclusive_maximum && number == max);
            let or_equal = if limits.exclusive_maximum {
                ""
            } else {
                " or equal to"
            };
            if over {
                let what = format!("should be less than{} {}", or_equal, Printed(max));
                out.invalid(name, &bad(value), &what);
            }
        }
        if let Some(min) = limits.minimum {
            let under = number < min || (limits.exclusive_minimum && number == min);
            let or_equal = if limits.exclusive_minimum {
                ""
            } else {
                " or equal to"
            };
            if under {
                let what = format!("should be greater than{or_equal} {}", Printed(min));
                out.invalid(name, &bad(value), &what);
            }
        }
    }

    fn check_items(&self, items: &[Value], old: Option<&Value>, name: &str, out: &mut Findings) {
        if let Some(schema) = &self.items {
            let old = self.counterparts(old);
            for (i, item) in items.iter().enumerate() {
                let old = self.identity(item).and_then(|id| old.get(&id).copied());
                schema.check(item, old, &format!("{name}[{i}]"), out);
            }
        }
        let count = items.len() as u64;
        if let Some(max) = self.limits.max_items.filter(|max| count > *max) {
            too_many(count, max, name, out);
        }
        if let Some(min) = self.limits.min_items.filter(|min| count < *min) {
            let what = format!("should have at least {min} items");
            out.invalid(name, &count.to_string(), &what);
        }
        self.check_duplicates(items, name, out);
    }

    fn check_values(&self, value: &Value, name: &str, out: &mut Findings) {
        let Some(values) = self.values.as_ref().filter(|v| !v.contains(value)) else {
            return;
        };
        let known: Vec<String> = values
            .iter()
            .map(|value| match value {
                Value::String(_) => bad(value),
                other => format!("\"{}\"", bad(other)),
            })
            .collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            bad(value),
            known.join(", ")
        );
        out.push("FieldValueNotSupported", name, message);
    }

    fn check_properties(
        &self,
        map: &Map<String, Value>,
        old: Option<&Value>,
        name: &str,
        out: &mut Findings,
    ) {
        let count = map.len() as u64;
        if let Some(max) = self.limits.max_properties.filter(|max| count > *max) {
            return too_many(count, max, name, out);
        }
        if let Some(min) = self.limits.min_properties.filter(|min| count < *min) {
            let what = format!("should have at least {min} properties");
            return out.invalid(name, &count.to_string(), &what);
        }
        let embedded: &[&str] = if self.embedded_resource {
            &["apiVersion", "kind"]
        } else {
            &[]
        };
        let required = self.required.iter().map(String::as_str);
        for key in required.chain(embedded.iter().copied()) {
            if !map.contains_key(key) {
                out.required(&join(name, key));
            }
        }
        for (key, value) in map {
            let schema = match (self.properties.get(key), &self.additional) {
                (Some(schema), _) => schema,
                (None, Additional::Of(schema)) => schema,
                _ => continue,
            };
            schema.check(
                value,
                old.and_then(|old| old.get(key)),
                &join(name, key),
                out,
            );
        }
    }
}

fn too_many(count: u64, max: u64, name: &str, out: &mut Findings) {
    let message = format!("Too many: {count}: must have at most {max} items");
    out.push("FieldValueTooMany", name, message);
}

fn join(name: &str, key: &str) -> String {
    if name.is_empty() {
        key.to_owned()
    } else {
        format!("{name}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::parse(
            &json!({"type": "object", "required": ["spec"], "properties": {
                "spec": {"type": "object", "required": ["must"], "properties": {
                    "must": {"type": "string"},
                    "int": {"type": "integer", "minimum": 1, "maximum": 10},
                    "exclusive": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1.5, "exclusiveMaximum": true},
                    "multiple": {"type": "integer", "multipleOf": 5},
                    "i32": {"type": "integer", "format": "int32"},
                    "enum": {"type": "string", "enum": ["a", "b"]},
                    "numbers": {"type": "integer", "enum": [1, 2]},
                    "pattern": {"type": "string", "pattern": "^[a-z]+$"},
                    "text": {"type": "string", "minLength": 2, "maxLength": 4},
                    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
                    "any": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2, "minProperties": 1},
                    "ios": {"x-kubernetes-int-or-string": true},
                    "nullable": {"type": "string", "nullable": true},
                    "date": {"type": "string", "format": "date-time"},
                    "embedded": {"type": "object", "x-kubernetes-embedded-resource": true},
                    "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                    "all": {"type": "object", "allOf": [{"required": ["a"]}]},
                    "not": {"type": "object", "not": {"required": ["a"]}},
                }},
                "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
            }}),
        )
    }

    /// The errors are those of kube-apiserver 1.36 with the same schema.
    #[test]
    fn errors_are_those_of_the_real_server() {
        for (spec, wanted) in [
            (json!({"must": "x"}), ""),
            (json!({}), "spec.must: Required value"),
            (
                json!([]),
                "spec: Invalid value: \"array\": spec in body must be of type object: \"array\"",
            ),
            (
                json!({"must": 5}),
                "spec.must: Invalid value: \"integer\": spec.must in body must be of type string: \"integer\"",
            ),
            (
                json!({"must": "x", "int": 0}),
                "spec.int: Invalid value: 0: spec.int in body should be greater than or equal to 1",
            ),
            (
                json!({"must": "x", "int": 11}),
                "spec.int: Invalid value: 11: spec.int in body should be less than or equal to 10",
            ),
            (json!({"must": "x", "int": 2.0}), ""),
            (
                json!({"must": "x", "int": 1.5}),
                "spec.int: Invalid value: \"number\": spec.int in body must be of type integer: \"number\"; <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.int",
            ),
            (
                json!({"must": "x", "exclusive": 0}),
                "spec.exclusive: Invalid value: 0: spec.exclusive in body should be greater than 0",
            ),
            (
                json!({"must": "x", "exclusive": 1.5}),
                "spec.exclusive: Invalid value: 1.5: spec.exclusive in body should be less than 1.5",
            ),
            (
                json!({"must": "x", "multiple": 7}),
                "spec.multiple: Invalid value: 7: spec.multiple in body should be a multiple of 5",
            ),
            (
                json!({"must": "x", "i32": 3_000_000_000_i64}),
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.i32",
            ),
            (
                json!({"must": "x", "enum": "c"}),
                "spec.enum: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (
                json!({"must": "x", "numbers": 3}),
                "spec.numbers: Unsupported value: 3: supported values: \"1\", \"2\"",
            ),
            (
                json!({"must": "x", "pattern": "A1"}),
                "spec.pattern: Invalid value: \"A1\": spec.pattern in body should match '^[a-z]+$'",
            ),
            (
                json!({"must": "x", "text": "x"}),
                "spec.text: Invalid value: \"x\": spec.text in body should be at least 2 chars long",
            ),
            (
                json!({"must": "x", "text": "xxxxx"}),
                "spec.text: Too long: may not be more than 4 bytes",
            ),
            (json!({"must": "x", "text": "üüüü"}), ""),
            (
                json!({"must": "x", "list": []}),
                "spec.list: Invalid value: 0: spec.list in body should have at least 1 items",
            ),
            (
                json!({"must": "x", "list": ["a", "b", "c"]}),
                "spec.list: Too many: 3: must have at most 2 items",
            ),
            (
                json!({"must": "x", "list": ["a", 5]}),
                "spec.list[1]: Invalid value: \"integer\": spec.list[1] in body must be of type string: \"integer\"",
            ),
            (
                json!({"must": "x", "set": ["a", "a"]}),
                "spec.set[1]: Duplicate value: \"a\"",
            ),
            (
                json!({"must": "x", "map": [{"name": "a"}, {"name": "a"}]}),
                "spec.map[1]: Duplicate value: {\"name\":\"a\"}",
            ),
            (
                json!({"must": "x", "map": [{}]}),
                "spec.map[0].name: Required value",
            ),
            (
                json!({"must": "x", "any": {"a": 1, "b": 1, "c": 1}}),
                "spec.any: Too many: 3: must have at most 2 items",
            ),
            (
                json!({"must": "x", "any": {}}),
                "spec.any: Invalid value: 0: spec.any in body should have at least 1 properties",
            ),
            (
                json!({"must": "x", "any": {"a": "x"}}),
                "spec.any.a: Invalid value: \"string\": spec.any.a in body must be of type integer: \"string\"",
            ),
            (json!({"must": "x", "ios": "50%"}), ""),
            (json!({"must": "x", "ios": 1}), ""),
            (
                json!({"must": "x", "ios": true}),
                "spec.ios: Invalid value: \"boolean\": spec.ios in body must be of type integer,string: \"boolean\"",
            ),
            (json!({"must": "x", "nullable": null}), ""),
            (
                json!({"must": "x", "date": "x"}),
                "spec.date: Invalid value: \"x\": spec.date in body must be of type date-time: \"x\"",
            ),
            (
                json!({"must": "x", "embedded": {}}),
                "spec.embedded.apiVersion: Required value; spec.embedded.kind: Required value",
            ),
            (
                json!({"must": "x", "one": {}}),
                "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found none valid; spec.one.a: Required value",
            ),
            (
                json!({"must": "x", "one": {"a": 1, "b": 1}}),
                "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ),
            (
                json!({"must": "x", "all": {}}),
                "spec.all.a: Required value; <nil>: Invalid value: \"\": \"spec.all\" must validate all the schemas (allOf). None validated",
            ),
            (
                json!({"must": "x", "not": {"a": 1}}),
                "<nil>: Invalid value: \"\": \"spec.not\" must not validate the schema (not)",
            ),
        ] {
            let object = json!({"spec": spec});
            assert_eq!(texts(&schema().validate(&object, None)), wanted, "{object}");
        }
    }

    fn texts(causes: &[Cause]) -> String {
        let texts: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        texts.join("; ")
    }

    #[test]
    fn status_is_named_in_fields_alone() {
        let object = json!({"spec": {}, "status": {"ready": "x"}});
        assert_eq!(
            texts(&schema().validate_status(&object, &json!({}))),
            "status.ready: Invalid value: \"string\": ready in body must be of type boolean: \"string\""
        );
    }

    #[test]
    fn an_update_is_held_for_what_it_changes() {
        let old = json!({"spec": {"must": "x", "int": 99, "map": [{"name": "a", "x": 1}]}});
        let mut new = old.clone();
        new["spec"]["text"] = "okay".into();
        assert_eq!(texts(&schema().validate(&new, Some(&old))), "");
        new["spec"]["int"] = 98.into();
        assert_eq!(schema().validate(&new, Some(&old)).len(), 1);
    }

    #[test]
    fn rules_are_said_to_be_left_out() {
        let schema = Schema::parse(&json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "integer", "minimum": 1, "x-kubernetes-validations": [{"rule": "self < 5"}]},
        }}));
        assert_eq!(schema.validate(&json!({"a": 0}), None).len(), 1);
        let causes = schema.validate(&json!({}), None);
        assert_eq!(causes.len(), 2);
        assert!(
            causes[1]
                .message
                .contains("some validation rules were not checked")
        );
    }
}
