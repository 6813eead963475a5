//! YAML text to [`raw::FrontConfiguration`].

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::FieldError;
use super::raw::{self, FrontConfiguration};

/// Nesting of the document itself is 4; more is an attack or a mistake.
const MAX_DEPTH: usize = 16;

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            // Far beyond any real document, far below what costs a second.
            max_nodes: 20_000,
            max_anchors: 64,
            max_aliases: 256,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        // `on` and `yes` are strings in YAML 1.2, as in sigs.k8s.io/yaml.
        strict_booleans: true,
        with_snippet: false,
    }
}

/// One error for each section that does not fit, the first with its place.
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

/// serde stops at the first thing it does not like. Reading section by section
/// finds one in each, and where each of them is.
fn explain(text: &str, error: &serde_saphyr::Error) -> Vec<FieldError> {
    let first = vec![FieldError {
        field: String::new(),
        value: String::new(),
        problem: error.to_string(),
    }];
    let Ok(Value::Object(document)) = serde_saphyr::from_str_with_options::<Value>(text, options())
    else {
        return first;
    };
    let mut errors = Vec::new();
    for (key, value) in document {
        let problem = match key.as_str() {
            "apiVersion" | "kind" => fits::<String>(value),
            "serving" => fits::<raw::Serving>(value),
            "observability" => fits::<raw::Observability>(value),
            "logging" => fits::<raw::Logging>(value),
            "upstream" => fits::<raw::Upstream>(value),
            "authentication" => fits::<raw::Authentication>(value),
            "authorization" => fits::<raw::Authorization>(value),
            "identity" => fits::<raw::Identity>(value),
            "cache" => fits::<raw::Cache>(value),
            "aggregation" => fits::<raw::Aggregation>(value),
            "apis" => fits::<raw::Apis>(value),
            _ => Some("unknown field".to_owned()),
        };
        if let Some(problem) = problem {
            errors.push(FieldError {
                field: key,
                value: String::new(),
                problem,
            });
        }
    }
    // What only YAML can get wrong (an alias, a duplicate key) has no section.
    if errors.is_empty() { first } else { errors }
}

fn fits<T: DeserializeOwned>(value: Value) -> Option<String> {
    serde_json::from_value::<T>(value)
        .err()
        .map(|error| error.to_string())
}
