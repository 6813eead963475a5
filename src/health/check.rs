//! One named health check, and the health paths that it is part of.

use std::fmt;

use apifront_watch_cache::ResourcePattern;

/// The result of a check. `Err` is the reason; only `/x/<check>` and the log
/// show it.
pub type CheckResult = Result<(), Reason>;

/// The reason why a check fails. Health paths answer everybody, so a reason is made
/// of fixed words, numbers and resources of the configuration. It cannot hold the
/// name of a caller or an object, or a text out of a file.
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

/// The three health paths.
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

    /// Returns the path for metric labels. kube-apiserver's metrics have only
    /// the three paths, without the names of checks.
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
    /// Makes a check that is part of all three paths. A check that means the
    /// same as one of kube-apiserver's has its name (`ping`, `informer-sync`,
    /// `poststarthook/…`).
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

    /// Marks a check that a restart does not cure. It is not part of `/livez`
    /// and `/healthz`.
    pub fn readyz_only(mut self) -> Self {
        self.readyz_only = true;
        self
    }

    /// Marks a check that needs a while after the start to pass. `/livez`
    /// counts it as passed during `--livez-grace-period`.
    pub fn boot_sequence(mut self) -> Self {
        self.boot_sequence = true;
        self
    }

    /// Marks a check that `/readyz?verbose` shows without failing because of
    /// it. `/readyz/<check>` gives its reason.
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
