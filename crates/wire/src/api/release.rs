//! A minor release of Kubernetes.

use std::fmt;

use serde::Deserialize;

/// A minor release such as `1.36`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The first number, which has always been 1.
    pub major: u32,
    /// The second number, such as 36.
    pub minor: u32,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl From<(u32, u32)> for Release {
    fn from((major, minor): (u32, u32)) -> Self {
        Self { major, minor }
    }
}

/// The part of the answer to `/version` that is read.
#[derive(Deserialize)]
struct Version {
    major: String,
    minor: String,
}

impl Release {
    /// Parses `1.36`, the form in tables and in the configuration.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self {
            major: number(major)?,
            minor: number(minor)?,
        })
    }

    /// Reads the answer to `/version`. Vendors add to the minor version
    /// (`31+`), so only its leading digits count, as in apiserver
    /// `endpoints/deprecation`.
    pub fn of_server(document: &[u8]) -> Option<Self> {
        let version: Version = serde_json::from_slice(document).ok()?;
        let minor = &version.minor;
        let end = minor.find(|c: char| !c.is_ascii_digit());
        Some(Self {
            major: number(&version.major)?,
            minor: number(minor.get(..end.unwrap_or(minor.len()))?)?,
        })
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_name_their_release_in_many_ways() {
        for (major, minor, expected) in [
            ("1", "36", Some((1, 36))),
            ("1", "31+", Some((1, 31))),
            ("1", "2.3-build4", Some((1, 2))),
            ("1", "", None),
            ("", "36", None),
            ("1", "x", None),
            ("+1", "36", None),
        ] {
            let document = format!(r#"{{"major":"{major}","minor":"{minor}","gitVersion":"v"}}"#);
            let release = Release::of_server(document.as_bytes());
            assert_eq!(release, expected.map(Release::from), "{document}");
        }
        assert!(Release::of_server(b"<html>").is_none());
        assert!(Release::from((1, 9)) < Release::from((1, 10)));
        assert_eq!(Release::parse("1.36").unwrap().to_string(), "1.36");
    }
}
