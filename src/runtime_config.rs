//! The APIs that are shown and served: `apis.runtimeConfig`, with the keys and
//! precedence of kube-apiserver's `--runtime-config` (k8s.io/apiserver
//! `server/resourceconfig`).
//!
//! The settings can only hide APIs. They cannot add any that upstream does not
//! serve.

use std::collections::BTreeMap;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};

/// Keys for many versions at once, each with the test for its versions. They are
/// applied in this order, whatever their order in the file. A key for one version
/// takes precedence over them, and a key for a resource over that.
const CLASSES: [(&str, VersionClass); 4] = [
    ("api/all", |_| true),
    ("api/ga", |version| stage(version) == Some("")),
    ("api/beta", |version| stage(version) == Some("beta")),
    ("api/alpha", |version| stage(version) == Some("alpha")),
];

type VersionClass = fn(&str) -> bool;

/// kube-apiserver's own groups. Only these have class keys: the stages of custom
/// resources and extension APIs are not known here, so they must be named one by
/// one.
const BUILT_IN_GROUPS: [&str; 24] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The default hides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// The settings, in the order of [`CLASSES`].
    classes: [Option<bool>; CLASSES.len()],
    versions: BTreeMap<GroupVersion, bool>,
    resources: BTreeMap<GroupVersionResource, bool>,
}

enum Key {
    Class(usize),
    Version(GroupVersion),
    Resource(GroupVersionResource),
}

impl RuntimeConfig {
    /// Each error comes with the key of its setting.
    pub fn parse(settings: &BTreeMap<String, bool>) -> Result<Self, Vec<(String, &'static str)>> {
        let mut config = Self::default();
        let mut errors = Vec::new();
        for (key, on) in settings {
            match Key::parse(key) {
                Ok(Key::Class(class)) => {
                    if let Some(setting) = config.classes.get_mut(class) {
                        *setting = Some(*on);
                    }
                }
                Ok(Key::Version(version)) => {
                    config.versions.insert(version, *on);
                }
                Ok(Key::Resource(resource)) => {
                    config.resources.insert(resource, *on);
                }
                Err(problem) => errors.push((format!("{key}={on}"), problem)),
            }
        }
        if settings.len() == 1 && config.classes.first() == Some(&Some(false)) {
            errors.push(("api/all=false".to_owned(), "alone leaves no API to serve"));
        }
        if errors.is_empty() {
            Ok(config)
        } else {
            Err(errors)
        }
    }

    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Tells whether anything of the group version may be shown and served: the
    /// whole version, or a resource that is enabled on its own.
    pub fn is_enabled(&self, version: &GroupVersion) -> bool {
        let of_version =
            |r: &GroupVersionResource| r.group == version.group && r.version == version.version;
        self.is_version_enabled(version)
            || self.resources.iter().any(|(r, on)| *on && of_version(r))
    }

    /// Tells whether the resource and its subresources may be shown and served.
    pub fn is_resource_enabled(&self, resource: &GroupVersionResource) -> bool {
        match self.resources.get(resource) {
            Some(on) => *on,
            None => self.is_version_enabled(&resource.group_version()),
        }
    }

    /// Tells whether a setting may hide the version or a resource in it.
    pub fn hides_some_of(&self, version: &GroupVersion) -> bool {
        let of_version =
            |r: &GroupVersionResource| r.group == version.group && r.version == version.version;
        !self.is_version_enabled(version) || self.resources.iter().any(|(r, _)| of_version(r))
    }

    fn is_version_enabled(&self, version: &GroupVersion) -> bool {
        if let Some(on) = self.versions.get(version) {
            return *on;
        }
        if !is_built_in_group(&version.group) {
            return true;
        }
        let settings = self.classes.iter().zip(CLASSES);
        settings
            .filter(|(_, (_, means))| means(&version.version))
            .filter_map(|(on, _)| *on)
            .next_back()
            .unwrap_or(true)
    }
}

impl Key {
    fn parse(key: &str) -> Result<Self, &'static str> {
        if let Some(class) = CLASSES.iter().position(|(name, _)| *name == key) {
            return Ok(Self::Class(class));
        }
        let mut parts = key.split('/');
        let (group, version, resource) = match (parts.next(), parts.next(), parts.next()) {
            (Some(version), None, _) => ("", version, None),
            (Some(group), Some(version), resource) => (group, version, resource),
            (None, ..) => ("", "", None),
        };
        if parts.next().is_some() || version.is_empty() || resource == Some("") {
            return Err(
                "the key must be a group/version, v1, a group/version/resource, api/all, \
                        api/ga, api/beta or api/alpha",
            );
        }
        if group == "api" {
            return Err("of api/… there are api/all, api/ga, api/beta and api/alpha");
        }
        if stage(group).is_some() {
            return Err("resources of the core group are written /v1/pods");
        }
        let Some(resource) = resource else {
            return Ok(Self::Version(GroupVersion {
                group: group.to_owned(),
                version: version.to_owned(),
            }));
        };
        if resource.chars().any(char::is_uppercase) {
            return Err("a resource is the lower-case plural");
        }
        let resource = GroupVersionResource::new(group, version, resource);
        Ok(Self::Resource(resource))
    }
}

pub fn is_built_in_group(group: &str) -> bool {
    BUILT_IN_GROUPS.contains(&group)
}

/// Parses one `key=value` of the flag. A missing value means true.
pub fn parse_setting(text: &str) -> Result<(String, bool), String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let (key, value) = (key.trim(), value.trim());
    let class = CLASSES.iter().any(|(name, _)| *name == key);
    let on = match value {
        "true" => true,
        "false" => false,
        // Go's ParseBool accepts these, for single versions and resources.
        "" | "1" | "t" | "T" | "TRUE" | "True" if !class => true,
        "0" | "f" | "F" | "FALSE" | "False" if !class => false,
        _ => return Err(format!("{key} must be true or false")),
    };
    Ok((key.to_owned(), on))
}

/// Returns the stage of a version: `""` for `v1`, `beta` for `v2beta1`. `None` if
/// the name has another form.
fn stage(version: &str) -> Option<&'static str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let rest = version.strip_prefix('v')?;
    if digits(rest) {
        return Some("");
    }
    ["alpha", "beta"].into_iter().find(|stage| {
        rest.split_once(stage)
            .is_some_and(|(major, minor)| digits(major) && digits(minor))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RuntimeConfig, Vec<(String, &'static str)>> {
        let settings = text.split(',').map(|s| parse_setting(s).unwrap());
        RuntimeConfig::parse(&settings.collect())
    }

    fn config(text: &str) -> RuntimeConfig {
        parse(text).unwrap()
    }

    #[test]
    fn the_narrower_key_wins() {
        for (text, version, enabled) in [
            ("batch/v1=false", "batch/v1", false),
            ("batch/v1=0", "batch/v2", true),
            ("v1=false", "v1", false),
            ("/v1=false", "v1", false),
            ("v1=false", "batch/v1", true),
            ("api/beta=false", "resource.k8s.io/v1beta2", false),
            ("api/beta=false", "resource.k8s.io/v1", true),
            ("api/beta=false", "resource.k8s.io/v1alpha3", true),
            ("api/beta=false", "example.com/v1beta1", true),
            ("api/beta=false,policy/v1beta1", "policy/v1beta1", true),
            ("api/all=false,api/ga=true", "apps/v1", true),
            ("api/all=false,api/ga=true", "apps/v1beta2", false),
            ("api/ga=true,api/all=false", "apps/v1", true),
            ("api/all=false,v1", "v1", true),
            ("api/all=false,v1", "apps/v1", false),
            ("example.com/v1beta1=false", "example.com/v1beta1", false),
            ("batch/v1=false,batch/v1/jobs=true", "batch/v1", true),
            ("batch/v1/jobs=false", "batch/v1", true),
        ] {
            let version = GroupVersion::parse(version).unwrap();
            assert_eq!(config(text).is_enabled(&version), enabled, "{text}");
        }
    }

    #[test]
    fn resources_have_the_last_word() {
        for (text, enabled) in [
            ("batch/v1/jobs=false", false),
            ("batch/v1=false", false),
            ("batch/v1=false,batch/v1/jobs=true", true),
            ("batch/v1=false,batch/v1/cronjobs=true", false),
            ("batch/v1beta1/jobs=false", true),
            ("api/all=false,batch/v1/jobs", true),
        ] {
            let jobs = GroupVersionResource::new("batch", "v1", "jobs");
            assert_eq!(config(text).is_resource_enabled(&jobs), enabled, "{text}");
        }
        let pods = GroupVersionResource::new("", "v1", "pods");
        assert!(!config("/v1/pods=false").is_resource_enabled(&pods));
        assert!(RuntimeConfig::default().is_resource_enabled(&pods));
        assert!(RuntimeConfig::default().is_default());
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "a/b/c/d=false",
            "batch/=false",
            "batch/v1/=false",
            "batch/v1/Jobs=false",
            "v1/pods=false",
            "api/legacy=true",
            "=true",
            "api/all=false",
        ] {
            assert_eq!(parse(bad).unwrap_err().len(), 1, "{bad}");
        }
        for bad in ["batch/v1=no", "api/all=1", "api/ga"] {
            assert!(parse_setting(bad).is_err(), "{bad}");
        }
    }
}
