//! Fills in defaults (apiextensions-apiserver `schema/defaulting`). Where null is
//! not allowed, it counts as absent: it takes the default, or is removed if there
//! is none.

use serde_json::Value;

use super::{Additional, Schema};

impl Schema {
    /// Fills in the defaults of a value from the top down: a default may add fields
    /// that have defaults themselves.
    pub(crate) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, schema) in &self.properties {
                    let absent = map
                        .get(name)
                        .is_none_or(|value| value.is_null() && !schema.nullable);
                    if absent && let Some(default) = &schema.default {
                        map.insert(name.clone(), default.clone());
                    }
                }
                map.retain(|name, value| {
                    let Some(schema) = self.property(name) else {
                        return true;
                    };
                    if value.is_null() && !schema.nullable {
                        // The loop above fills in named properties, this one all others.
                        match (&schema.default, &self.additional) {
                            (Some(default), Additional::Of(_)) => *value = default.clone(),
                            _ => return false,
                        }
                    }
                    schema.fill(value);
                    true
                });
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else {
                    return;
                };
                for item in items {
                    if item.is_null()
                        && !schema.nullable
                        && let Some(default) = &schema.default
                    {
                        *item = default.clone();
                    }
                    schema.fill(item);
                }
            }
            Value::Number(number) => {
                if let Some(whole) = number.as_f64().and_then(whole)
                    && number.is_f64()
                {
                    *value = whole.into();
                }
            }
            _ => {}
        }
    }
}

/// Returns a float without a fraction as an integer, as Go writes it.
fn whole(number: f64) -> Option<i64> {
    /// Floats are exact up to here.
    const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() < EXACT_BELOW).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_fields_and_forbidden_nulls() {
        let schema = Schema::parse(&json!({"properties": {
            "plain": {"type": "string", "default": "d"},
            "nested": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 3}}},
            "nullable": {"type": "string", "nullable": true, "default": "n"},
            "bare": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"v": {"default": 7}}}},
        }}));
        for (given, wanted) in [
            (
                json!({}),
                json!({"plain": "d", "nested": {"x": 3}, "nullable": "n"}),
            ),
            (
                json!({"plain": null, "nested": null, "nullable": null, "bare": null}),
                json!({"plain": "d", "nested": {"x": 3}, "nullable": null}),
            ),
            (
                json!({"plain": "p", "nested": {"x": 1.0}, "nullable": "x", "list": [{}, {"v": 1}]}),
                json!({"plain": "p", "nested": {"x": 1}, "nullable": "x", "list": [{"v": 7}, {"v": 1}]}),
            ),
        ] {
            let mut value = given;
            schema.fill(&mut value);
            assert_eq!(value, wanted);
        }
    }
}
