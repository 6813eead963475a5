//! The releases in which a kind is deprecated and removed, and the warning
//! about it (apiserver `endpoints/deprecation/deprecation.go`).

use kubernetes_wire::api::Release;

/// A deprecated kind in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    pub api_version: String,
    pub kind: String,
    pub deprecated: Release,
    /// The first release without the kind, if it is decided.
    pub removed: Option<Release>,
    /// For example `apps/v1 Deployment`.
    pub replacement: Option<String>,
}

impl Lifecycle {
    /// Tells whether a server of this release deprecates the kind. An unknown
    /// release counts as a new one.
    pub fn is_deprecated_in(&self, release: Option<Release>) -> bool {
        release.is_none_or(|release| self.deprecated <= release)
    }

    pub fn warning(&self) -> String {
        let mut text = format!("{}{}+", self.beginning(), self.deprecated);
        if let Some(removed) = self.removed {
            text += &format!(", unavailable in v{removed}+");
        }
        if let Some(replacement) = &self.replacement {
            text += &format!("; use {replacement}");
        }
        text
    }

    /// Tells whether the text is this warning, as any release words it.
    pub fn is_warned_of_by(&self, text: &str) -> bool {
        text.starts_with(&self.beginning())
    }

    fn beginning(&self) -> String {
        format!("{} {} is deprecated in v", self.api_version, self.kind)
    }
}

/// The content of a warning about a built-in kind. The warning proves that the API
/// server knows the route and has admitted the caller to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInWarning<'t> {
    pub api_version: &'t str,
    pub removed: Option<Release>,
}

impl<'t> BuiltInWarning<'t> {
    /// Parses a warning. `None` for any other text.
    pub fn read(text: &'t str) -> Option<Self> {
        let (what, rest) = text.split_once(" is deprecated in v")?;
        let (api_version, kind) = what.split_once(' ')?;
        if api_version.is_empty() || kind.is_empty() || kind.contains(' ') {
            return None;
        }
        let (deprecated, rest) = rest.split_once('+')?;
        Release::parse(deprecated)?;
        let (removed, rest) = match rest.strip_prefix(", unavailable in v") {
            Some(rest) => {
                let (removed, rest) = rest.split_once('+')?;
                (Some(Release::parse(removed)?), rest)
            }
            None => (None, rest),
        };
        (rest.is_empty() || rest.starts_with("; use ")).then_some(Self {
            api_version,
            removed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifecycle(removed: Option<(u32, u32)>, replacement: Option<&str>) -> Lifecycle {
        Lifecycle {
            api_version: "example.com/v1beta1".into(),
            kind: "Widget".into(),
            deprecated: (1, 21).into(),
            removed: removed.map(Into::into),
            replacement: replacement.map(str::to_owned),
        }
    }

    #[test]
    fn warnings_are_worded_as_kube_apiserver_words_them() {
        let use_v1 = Some("example.com/v1 Widget");
        for (removed, replacement, expected) in [
            (None, None, ""),
            (Some((1, 25)), None, ", unavailable in v1.25+"),
            (None, use_v1, "; use example.com/v1 Widget"),
            (
                Some((1, 25)),
                use_v1,
                ", unavailable in v1.25+; use example.com/v1 Widget",
            ),
        ] {
            let lifecycle = lifecycle(removed, replacement);
            let text = lifecycle.warning();
            let beginning = "example.com/v1beta1 Widget is deprecated in v1.21+";
            assert_eq!(text, format!("{beginning}{expected}"));
            assert!(lifecycle.is_warned_of_by(&text));
            let read = BuiltInWarning::read(&text).unwrap();
            assert_eq!(read.api_version, "example.com/v1beta1");
            assert_eq!(read.removed, lifecycle.removed);
        }
    }

    #[test]
    fn only_warnings_of_built_in_kinds_are_read_as_such() {
        for other in [
            "",
            "unknown field \"spec.x\"",
            "example.com/v1beta1 Widget is deprecated",
            "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget",
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use x",
            "v1 Endpoints is deprecated in v1.x+",
            "v1 Endpoints is deprecated in v1.33",
            "v1 Endpoints is deprecated in v1.33+ and so on",
            "the v1 Endpoints is deprecated in v1.33+",
            "v1 Endpoints is deprecated in v1.33+, unavailable in vx+",
        ] {
            assert_eq!(BuiltInWarning::read(other), None, "{other}");
        }
    }

    #[test]
    fn deprecated_is_what_the_server_already_deprecates() {
        let lifecycle = lifecycle(None, None);
        for (release, expected) in [
            (Some((1, 20)), false),
            (Some((1, 21)), true),
            (Some((2, 0)), true),
            (None, true),
        ] {
            let release = release.map(Release::from);
            assert_eq!(lifecycle.is_deprecated_in(release), expected, "{release:?}");
        }
    }
}
