//! Reads kube-apiserver's file for tracing, an unmodified `apiserver.config.k8s.io`
//! TracingConfiguration (k8s.io/apiserver `server/options/tracing.go`,
//! component-base `tracing/api/v1`). Decoding is as strict as kube-apiserver's.

use std::path::Path;

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::endpoint::{self, Endpoint};
use crate::config_errors::{ConfigErrors, FieldError};
use crate::config_file::{self, Format};

/// All versions have the same fields.
const API_VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.k8s.io/v1beta1",
    "apiserver.k8s.io/v1alpha1",
];
const KIND: &str = "TracingConfiguration";

/// The file has a depth of 1.
const FORMAT: Format = Format {
    max_depth: 4,
    max_nodes: 1_000,
    duplicate_keys: DuplicateKeyPolicy::Error,
};

const MILLION: u32 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) endpoint: Endpoint,
    /// The traces in a million that begin here and are sampled. A trace that a
    /// caller began is sampled if the caller samples it.
    pub(super) sampling_rate_per_million: u32,
}

/// Reads a file. Returns all errors in it at once.
pub(super) fn load(file: &Path) -> Result<Settings, ConfigErrors> {
    let errors = |errors| ConfigErrors {
        file: Some(file.to_owned()),
        errors,
    };
    let text = config_file::text(file)
        .map_err(|problem| ConfigErrors::one(Some(file.to_owned()), problem))?;
    parse(&text).map_err(errors)
}

fn error(field: &str, value: &str, problem: impl Into<String>) -> FieldError {
    FieldError {
        field: field.to_owned(),
        value: value.to_owned(),
        problem: problem.into(),
    }
}

fn parse(text: &str) -> Result<Settings, Vec<FieldError>> {
    let document = FORMAT.parse(text)?;
    let Some(fields) = document.as_object() else {
        return Err(vec![FieldError::of_file(format!("is no {KIND}"))]);
    };
    let mut errors = unknown(fields);
    errors.extend(kind(fields));
    let endpoint = endpoint(fields.get("endpoint"));
    let rate = rate(fields.get("samplingRatePerMillion"));
    match (endpoint, rate) {
        (Ok(endpoint), Ok(sampling_rate_per_million)) if errors.is_empty() => Ok(Settings {
            endpoint,
            sampling_rate_per_million,
        }),
        (endpoint, rate) => {
            errors.extend(endpoint.err());
            errors.extend(rate.err());
            Err(errors)
        }
    }
}

fn unknown(fields: &Map<String, Value>) -> Vec<FieldError> {
    const KNOWN: [&str; 4] = ["apiVersion", "kind", "endpoint", "samplingRatePerMillion"];
    let unknown = fields.iter().filter(|(f, _)| !KNOWN.contains(&f.as_str()));
    let refused = |(field, value): (&String, &Value)| error(field, &shown(value), "unknown field");
    unknown.map(refused).collect()
}

fn kind(fields: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, allowed) in [("apiVersion", &API_VERSIONS[..]), ("kind", &[KIND])] {
        let value = fields.get(field).unwrap_or(&Value::Null);
        if !value.as_str().is_some_and(|text| allowed.contains(&text)) {
            let problem = format!("must be {}", allowed.join(" or "));
            errors.push(error(field, &shown(value), problem));
        }
    }
    errors
}

fn endpoint(value: Option<&Value>) -> Result<Endpoint, FieldError> {
    let text = match value {
        None | Some(Value::Null) => endpoint::DEFAULT,
        Some(Value::String(text)) => text,
        Some(value) => return Err(error("endpoint", &shown(value), "must be text")),
    };
    Endpoint::parse(text).map_err(|problem| error("endpoint", text, problem))
}

fn rate(value: Option<&Value>) -> Result<u32, FieldError> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(0);
    };
    // `5.0` and `1e3` are whole numbers in YAML.
    let rate = value.as_f64().filter(|rate| rate.fract() == 0.0);
    let rate = rate.filter(|rate| (0.0..=f64::from(MILLION)).contains(rate));
    rate.map(|rate| rate as u32).ok_or_else(|| {
        let problem = format!("must be a whole number between 0 and {MILLION}");
        error("samplingRatePerMillion", &shown(value), problem)
    })
}

/// Returns a value for an error message.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";

    fn errors(text: &str) -> Vec<String> {
        let errors = parse(text).unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_version_and_the_defaults() {
        for version in API_VERSIONS {
            let text = format!("apiVersion: {version}\nkind: {KIND}\n");
            let settings = parse(&text).unwrap();
            assert_eq!(settings.endpoint.uri(), "http://localhost:4317");
            assert_eq!(settings.sampling_rate_per_million, 0);
        }
        let settings = format!("{HEAD}endpoint: collector:1\nsamplingRatePerMillion: 1000000\n");
        let settings = parse(&settings).unwrap();
        assert_eq!(settings.endpoint.uri(), "http://collector:1");
        assert_eq!(settings.sampling_rate_per_million, MILLION);
        for (rate, read) in [("5.0", 5), ("1e3", 1000)] {
            let settings = parse(&format!("{HEAD}samplingRatePerMillion: {rate}\n")).unwrap();
            assert_eq!(settings.sampling_rate_per_million, read);
        }
        assert!(
            parse(&format!(
                "{HEAD}endpoint: null\nsamplingRatePerMillion: null"
            ))
            .is_ok()
        );
    }

    #[test]
    fn all_errors_name_field_and_value() {
        let text = "apiVersion: v1\nendpoint: http://x\nsamplingRatePerMillion: -1\nextra: 7\n";
        assert_eq!(
            errors(text),
            [
                "extra: \"7\": unknown field",
                "apiVersion: \"v1\": must be apiserver.config.k8s.io/v1 or apiserver.k8s.io/v1beta1 or \
                 apiserver.k8s.io/v1alpha1",
                "kind: must be TracingConfiguration",
                "endpoint: \"http://x\": must be HOST:PORT, dns:///HOST:PORT or unix:///PATH: \
                 unsupported scheme: http",
                "samplingRatePerMillion: \"-1\": must be a whole number between 0 and 1000000",
            ]
        );
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        for (line, named) in [
            ("samplingRatePerMillion: 1000001", "1000001"),
            ("samplingRatePerMillion: 0.5", "0.5"),
            ("samplingRatePerMillion: '5'", "\"5\""),
            ("samplingRatePerMillion: 4294967297", "4294967297"),
            ("endpoint: 7", "must be text"),
            ("endpoint: ''", "must be HOST:PORT"),
            ("metadata: {name: a}", "metadata: \"{"),
            ("kind: TracingConfiguration", "duplicate"),
            (
                "Endpoint: localhost:1",
                "Endpoint: \"localhost:1\": unknown field",
            ),
        ] {
            let errors = errors(&format!("{HEAD}{line}\n")).join("\n");
            assert!(errors.contains(named), "{line}: {errors}");
        }
        for text in ["", "- a", "[[[[[[[[1]]]]]]]]", "{", "text"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
