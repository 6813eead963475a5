//! Makes the checked [`Config`] of the document as written.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use apifront_watch_cache::Consistency;

use super::access::{Access, Delegated};
use super::aggregation::{Aggregation, Apis};
use super::overrides::Overrides;
use super::quantity::{Quantity, parse_bytes};
use super::serving::DefaultPorts;
use super::{
    Config, FieldError, Flow, Logging, Observability, Serving, Upstream, cache, parse_duration, raw,
};

/// The default ports of a front. 6443 and 9443 are documented, and must not
/// change.
const FRONT: DefaultPorts = DefaultPorts {
    secure: 6443,
    insecure: 0,
};
const OBSERVABILITY_PORT: u16 = 9443;
/// The default ports without a configuration file: those of `kubectl proxy`.
const OWNER: DefaultPorts = DefaultPorts {
    secure: 0,
    insecure: 8001,
};

/// The kind of process that a configuration is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// No file and no kubeconfig.
    Demo,
    /// A kubeconfig and no file.
    Personal,
    Front,
}

/// Collects errors. Each method notes what is wrong and returns a harmless
/// value, so that the rest is checked too. Nothing that was made while an error
/// was noted leaves this module.
#[derive(Default)]
pub(super) struct Check {
    errors: Vec<FieldError>,
    flags: Overrides,
}

impl Config {
    /// Checks the document. `flags` names the flag of each field that was not
    /// set by the file.
    pub(super) fn check(
        raw: &raw::FrontConfiguration,
        shape: Shape,
        flags: Overrides,
    ) -> Result<Self, Vec<FieldError>> {
        let mut check = Check {
            errors: Vec::new(),
            flags,
        };
        let front = shape == Shape::Front;
        let upstream = match shape {
            Shape::Demo => {
                if let Some(context) = &raw.upstream.context {
                    check.error("upstream.context", context, "needs --kubeconfig");
                }
                Some(Upstream::Embedded)
            }
            Shape::Personal | Shape::Front => Upstream::check(&raw.upstream, &mut check),
        };
        let access = if front {
            Delegated::check(raw, &mut check).map(|d| Access::Delegated(Box::new(d)))
        } else {
            Some(Access::Owner)
        };
        let (ports, observability_port) = if front {
            (FRONT, OBSERVABILITY_PORT)
        } else {
            (OWNER, 0)
        };
        let serving = Serving::check(&raw.serving, ports, &mut check);
        let observability =
            Observability::check(&raw.observability, observability_port, &mut check);
        let logging = Logging::check(&raw.logging, &mut check);
        // The embedded server proves its version in microseconds, and a person
        // who tries apifront wants to see its cache answer at once.
        let cache_defaults = match shape {
            Shape::Demo => cache::Defaults {
                consistency: Consistency::Fresh,
                preload: &["pods"],
            },
            Shape::Personal | Shape::Front => cache::Defaults {
                consistency: Consistency::Strict,
                preload: &[],
            },
        };
        let cache = cache::check(&raw.cache, cache_defaults, &mut check);
        let flow = Flow::check(&raw.flow, &mut check);
        let proxy_client = access
            .as_ref()
            .and_then(Access::delegated)
            .and_then(|d| d.proxy_client.clone());
        let aggregation = Aggregation::check(&raw.aggregation, proxy_client, &mut check);
        let apis = Apis::check(&raw.apis, &mut check);
        match (upstream, access) {
            (Some(upstream), Some(access)) if check.errors.is_empty() => Ok(Self {
                serving,
                observability,
                logging,
                upstream,
                access,
                flow,
                cache,
                aggregation,
                apis,
            }),
            _ => Err(check.errors),
        }
    }
}

impl Check {
    #[cfg(test)]
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

    /// Returns an optional file name. Relative names stay as given, and are
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

    /// Returns the choice that `raw` names.
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

    /// Returns header names in lower case.
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
