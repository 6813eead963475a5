//! A named health check, and the health paths that include it.

use std::fmt;

use apifront_watch_cache::ResourcePattern;

/// The result of a check. Only `/x/<check>` and the log show the reason in `Err`.
pub type CheckResult = Result<(), Reason>;

/// The reason why a check fails. Every caller may ask health paths, so a reason has
/// only fixed words, numbers and resources of the configuration. It cannot hold the
/// name of a caller or an object, or text from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    pub fn new(words: &'static str) -> Self {
        Self(words.to_owned())
    }

    /// Makes a reason such as `5 saved stores are still being read`.
    pub fn of_count(count: u64, words: &'static str) -> Self {
        Self(format!("{count} {words}"))
    }

    /// Makes a reason such as `no API server could be reached for 12s`.
    pub fn of_time(words: &'static str, seconds: u64) -> Self {
        Self(format!("{words} {seconds}s"))
    }

    /// Makes a reason such as `not filled yet: pods, nodes`.
    pub fn of_resources<'a>(
        words: &'static str,
        resources: impl IntoIterator<Item = &'a ResourcePattern>,
    ) -> Self {
        let resources = resources.into_iter().map(ToString::to_string);
        let resources: Vec<String> = resources.collect();
        Self(format!("{words}: {}", resources.join(", ")))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    /// Returns the path for metric labels. As in kube-apiserver's metrics, the names
    /// of checks are left out.
    pub fn path(self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Livez => "/livez",
            Self::Readyz => "/readyz",
        }
    }

    /// Parses `/readyz` and `/readyz/<check>`.
    pub fn of_path(path: &str) -> Option<(Self, Option<&str>)> {
        [Self::Healthz, Self::Livez, Self::Readyz]
            .into_iter()
            .find_map(|endpoint| {
                let rest = path.strip_prefix(endpoint.path())?;
                match rest.strip_prefix('/') {
                    Some(check) => Some((endpoint, Some(check))),
                    None => rest.is_empty().then_some((endpoint, None)),
                }
            })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// A failure of the check fails the health path.
    Fails,
    /// A failure of the check is only shown.
    Informs,
}

pub struct Check {
    name: String,
    look: Box<dyn Fn() -> CheckResult + Send + Sync>,
    readyz_only: bool,
    boot_sequence: bool,
    weight: Weight,
}

impl Check {
    /// Makes a check for all three paths. A check with the meaning of one of
    /// kube-apiserver's has its name (`ping`, `informer-sync`, `poststarthook/…`).
    pub fn new(
        name: impl Into<String>,
        look: impl Fn() -> CheckResult + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            look: Box::new(look),
            readyz_only: false,
            boot_sequence: false,
            weight: Weight::Fails,
        }
    }

    /// Marks a check that a restart does not cure. `/livez` and `/healthz` leave it
    /// out.
    pub fn readyz_only(mut self) -> Self {
        self.readyz_only = true;
        self
    }

    /// Marks a check that needs a while after the start. `/livez` counts it as
    /// passed during `--livez-grace-period`.
    pub fn boot_sequence(mut self) -> Self {
        self.boot_sequence = true;
        self
    }

    /// Marks a check that `/readyz?verbose` shows but that does not fail it.
    /// `/readyz/<check>` gives its reason.
    pub fn informational(mut self) -> Self {
        self.readyz_only = true;
        self.weight = Weight::Informs;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_part_of(&self, endpoint: Endpoint) -> bool {
        endpoint == Endpoint::Readyz || !self.readyz_only
    }

    pub(super) fn is_informational(&self) -> bool {
        self.weight == Weight::Informs
    }

    pub(super) fn look(&self, endpoint: Endpoint, in_grace: bool) -> CheckResult {
        if endpoint == Endpoint::Livez && self.boot_sequence && in_grace {
            return Ok(());
        }
        (self.look)()
    }
}
