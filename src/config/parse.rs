//! Parses YAML text to [`raw::FrontConfiguration`].

use serde_json::Value;

use super::FieldError;
use super::raw::{self, FrontConfiguration};

/// The document's own depth is 4. More is an attack or a mistake.
const MAX_DEPTH: usize = 16;

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            // Real documents have far fewer nodes. This many are parsed in far less
            // than a second.
            max_nodes: 20_000,
            max_anchors: 64,
            max_aliases: 256,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        // As in YAML 1.2, `on` and `yes` are text.
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Returns the document or all its errors.
pub(super) fn parse(text: &str) -> Result<FrontConfiguration, Vec<FieldError>> {
    let config = match serde_saphyr::from_str_with_options::<FrontConfiguration>(text, options()) {
        Ok(config) => config,
        Err(error) => return Err(explain(text, &error)),
    };
    let mut errors = Vec::new();
    for (field, value, expected) in [
        ("apiVersion", &config.api_version, raw::API_VERSION),
        ("kind", &config.kind, raw::KIND),
    ] {
        if value.as_deref() != Some(expected) {
            errors.push(FieldError {
                field: field.to_owned(),
                value: value.clone().unwrap_or_default(),
                problem: format!("must be {expected}"),
            });
        }
    }
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
}

/// Finds all errors, with their fields. serde stops at the first error, but every
/// field is optional: so each value is tried alone, in a document with nothing else.
fn explain(text: &str, error: &serde_saphyr::Error) -> Vec<FieldError> {
    let Ok(document) = serde_saphyr::from_str_with_options::<Value>(text, options()) else {
        // The text is not YAML, or exceeds the budget.
        return vec![unplaced(error)];
    };
    let mut errors: Vec<FieldError> = Vec::new();
    visit(&document, &mut Vec::new(), &mut |path, value| {
        let alone = path
            .iter()
            .rev()
            .fold(value.clone(), |inner, step| match step {
                Step::Key(key) => Value::Object([((*key).to_owned(), inner)].into_iter().collect()),
                Step::Item(_) => Value::Array(vec![inner]),
            });
        let Err(problem) = serde_json::from_value::<FrontConfiguration>(alone) else {
            return;
        };
        let error = field_error(path, value, problem.to_string());
        if !errors.contains(&error) {
            errors.push(error);
        }
    });
    // Some errors are those of the YAML text as a whole, for example a field that
    // occurs twice. They have no field here.
    if errors.is_empty() {
        errors.push(unplaced(error));
    }
    if let ([only], Some(place)) = (errors.as_mut_slice(), error.location())
        && !only.field.is_empty()
    {
        let (line, column) = (place.line(), place.column());
        only.problem
            .push_str(&format!(" (line {line}, column {column})"));
    }
    errors
}

fn unplaced(error: &serde_saphyr::Error) -> FieldError {
    FieldError {
        field: String::new(),
        value: String::new(),
        problem: error.to_string(),
    }
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

/// Calls `leaf` with each value that contains no other. The depth is bounded by
/// [`MAX_DEPTH`].
fn visit<'a>(
    value: &'a Value,
    path: &mut Vec<Step<'a>>,
    leaf: &mut impl FnMut(&[Step<'a>], &'a Value),
) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                path.push(Step::Key(key));
                visit(value, path, leaf);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, value) in items.iter().enumerate() {
                path.push(Step::Item(i));
                visit(value, path, leaf);
                path.pop();
            }
        }
        leaf_value => leaf(path, leaf_value),
    }
}

fn field_error(path: &[Step<'_>], value: &Value, problem: String) -> FieldError {
    let mut field = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                if !field.is_empty() {
                    field.push('.');
                }
                field.push_str(key);
                // The error is the unknown field, not a field below it.
                if problem.starts_with(&format!("unknown field `{key}`")) {
                    break;
                }
            }
            Step::Item(i) => field.push_str(&format!("[{i}]")),
        }
    }
    let value = match value {
        _ if problem.starts_with("unknown field") => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    };
    FieldError {
        field,
        value,
        problem,
    }
}
