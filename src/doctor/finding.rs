//! One line of a report.

use serde::Serialize;

/// The part of a start that was examined, in the order of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Section {
    Configuration,
    Certificates,
    Ports,
    ApiServers,
    Rights,
    Callers,
    Features,
    Resources,
    Shapes,
    Queries,
    Backends,
}

impl Section {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Configuration => "Configuration",
            Self::Certificates => "Certificates",
            Self::Ports => "Ports",
            Self::ApiServers => "API servers",
            Self::Rights => "Rights of apifront itself",
            Self::Callers => "Callers' identities",
            Self::Features => "Features of the API server",
            Self::Resources => "Resources",
            Self::Shapes => "Shapes of answers",
            Self::Queries => "Queries",
            Self::Backends => "Backends",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    Good,
    /// apifront works, but less well than it could, or there was nothing to examine.
    Neutral,
    /// apifront does not start or does not serve its clients.
    Fault,
}

impl Verdict {
    pub(super) fn mark(self) -> char {
        match self {
            Self::Good => '✓',
            Self::Neutral => '–',
            Self::Fault => '✗',
        }
    }
}

/// A finding about one subject, such as a file, a server or a right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub section: Section,
    pub subject: String,
    pub verdict: Verdict,
    pub found: String,
    /// A way to repair it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn new(
        section: Section,
        verdict: Verdict,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self {
            section,
            subject: subject.into(),
            verdict,
            found: found.into(),
            remedy: None,
        }
    }

    pub(super) fn good(
        section: Section,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(section, Verdict::Good, subject, found)
    }

    pub(super) fn neutral(
        section: Section,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(section, Verdict::Neutral, subject, found)
    }

    pub(super) fn fault(
        section: Section,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(section, Verdict::Fault, subject, found)
    }

    #[must_use]
    pub(super) fn mended_by(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
