//! A deprecation that the configuration adds (`apis.deprecations`).

use kubernetes_wire::api::GroupVersion;

#[derive(Clone, Debug, PartialEq)]
pub struct Deprecation {
    pub group_version: GroupVersion,
    /// `None` means every kind of the version.
    pub kind: Option<String>,
    /// The release as (major, minor).
    pub deprecated: (u32, u32),
    pub removed: Option<(u32, u32)>,
    pub replacement: Option<String>,
}
