//! Checks single fields of the document as written.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::quantity::{Quantity, parse_bytes};
use super::{FieldError, parse_duration};

/// Maps a field (`serving.securePort`) to the flag that set it (`--secure-port`).
pub(super) type Overrides = BTreeMap<String, String>;

/// Collects errors. Each method notes what is wrong and returns a harmless value, so
/// that the rest is checked too. If an error was noted, no value leaves this module.
#[derive(Default)]
pub(super) struct Check {
    errors: Vec<FieldError>,
    flags: Overrides,
}

impl Check {
    pub(super) fn new(flags: Overrides) -> Self {
        Self {
            errors: Vec::new(),
            flags,
        }
    }

    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }

    pub(super) fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    pub(super) fn error(&mut self, field: &str, value: &str, problem: &str) {
        let field = match self.flags.get(field) {
            Some(flag) => flag.clone(),
            None => field.to_owned(),
        };
        self.errors.push(FieldError {
            field,
            value: value.to_owned(),
            problem: problem.to_owned(),
        });
    }

    pub(super) fn duration(
        &mut self,
        field: &str,
        raw: &Option<String>,
        default: Duration,
    ) -> Duration {
        let Some(text) = raw else { return default };
        parse_duration(text).unwrap_or_else(|| {
            self.error(
                field,
                text,
                "must be a duration like 2m, 10s, 1h30m or 500ms",
            );
            default
        })
    }

    pub(super) fn positive_duration(
        &mut self,
        field: &str,
        raw: &Option<String>,
        default: Duration,
    ) -> Duration {
        let duration = self.duration(field, raw, default);
        if duration.is_zero() {
            self.error(
                field,
                raw.as_deref().unwrap_or_default(),
                "must be more than 0s",
            );
        }
        duration
    }

    pub(super) fn bytes(&mut self, field: &str, raw: &Option<Quantity>) -> Option<u64> {
        let Quantity(text) = raw.as_ref()?;
        let bytes = parse_bytes(text);
        if bytes.is_none() {
            self.error(field, text, "must be bytes like 512Mi, 2Gi or 1000000000");
        }
        bytes
    }

    pub(super) fn count(
        &mut self,
        field: &str,
        raw: Option<i64>,
        default: usize,
        allowed: RangeInclusive<usize>,
    ) -> usize {
        let Some(number) = raw else { return default };
        match usize::try_from(number) {
            Ok(n) if allowed.contains(&n) => n,
            _ => {
                let (low, high) = allowed.into_inner();
                self.error(
                    field,
                    &number.to_string(),
                    &format!("must be between {low} and {high}"),
                );
                default
            }
        }
    }

    pub(super) fn port(&mut self, field: &str, raw: Option<i64>, default: u16) -> u16 {
        self.count(field, raw, default.into(), 0..=u16::MAX.into()) as u16
    }

    pub(super) fn ip(&mut self, field: &str, raw: &Option<String>, default: IpAddr) -> IpAddr {
        let Some(text) = raw else { return default };
        text.parse().unwrap_or_else(|_| {
            self.error(field, text, "must be an IP address");
            default
        })
    }

    /// Returns an optional file name. Relative names stay as given: they are
    /// resolved against the working directory.
    pub(super) fn file(&mut self, field: &str, raw: &Option<String>) -> Option<PathBuf> {
        let text = raw.as_ref()?;
        if text.is_empty() {
            self.error(field, "", "must not be empty");
            return None;
        }
        Some(PathBuf::from(text))
    }

    pub(super) fn needed_file(
        &mut self,
        field: &str,
        raw: &Option<String>,
        why: &str,
    ) -> Option<PathBuf> {
        if raw.is_none() {
            self.error(field, "", why);
        }
        self.file(field, raw)
    }

    pub(super) fn needed_text(&mut self, field: &str, raw: &Option<String>) -> Option<String> {
        match raw {
            Some(text) if !text.is_empty() => Some(text.clone()),
            _ => {
                self.error(field, "", "needed");
                None
            }
        }
    }

    pub(super) fn one_of<T: Copy>(
        &mut self,
        field: &str,
        raw: &Option<String>,
        default: T,
        choices: &[(&str, T)],
    ) -> T {
        let Some(text) = raw else { return default };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| name == text) {
            return *choice;
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.error(field, text, &format!("must be one of {}", names.join(", ")));
        default
    }

    /// Returns the header names in lower case.
    pub(super) fn header_names(
        &mut self,
        field: &str,
        raw: &Option<Vec<String>>,
        default: &str,
    ) -> Vec<String> {
        let Some(list) = raw else {
            return vec![default.to_ascii_lowercase()];
        };
        for (i, name) in list.iter().enumerate() {
            if http::HeaderName::try_from(name.as_str()).is_err() {
                self.error(&format!("{field}[{i}]"), name, "must be a header name");
            }
        }
        list.iter().map(|n| n.to_ascii_lowercase()).collect()
    }
}
