//! One named health check, and where it counts.

/// `Err` is the reason; only `/x/<check>` and the log show it.
pub type CheckResult = Result<(), String>;

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

    /// As a metric label: kube-apiserver counts the three paths alone.
    pub fn path(self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Livez => "/livez",
            Self::Readyz => "/readyz",
        }
    }

    /// `/readyz` and `/readyz/<check>`.
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
    /// Fails what it is part of.
    Fails,
    /// Is shown and fails nothing.
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
    /// Part of all three paths. Names are kube-apiserver's where the meaning is
    /// (`ping`, `informer-sync`, `poststarthook/…`).
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

    /// Not cured by a restart, so not part of `/livez` and `/healthz`.
    pub fn readyz_only(mut self) -> Self {
        self.readyz_only = true;
        self
    }

    /// Takes a while after the start: `/livez` counts it as passed during
    /// `--livez-grace-period`.
    pub fn boot_sequence(mut self) -> Self {
        self.boot_sequence = true;
        self
    }

    /// Shown by `/readyz?verbose`, where it fails nothing, and by
    /// `/readyz/<check>`, which has its reason.
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
