//! Which resources are proven to be the same for every caller who may list
//! them.
//!
//! A store is filled as apifront's own user, and shown to others. That is right
//! for what kube-apiserver itself keeps in etcd. The server behind an APIService
//! may answer each caller in another way. So group versions are cached only if
//! upstream serves them itself, or if the owner says that their server shows the
//! same to all.

use std::collections::HashSet;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};

use super::cache::Unavailable;

/// The groups that kube-apiserver always serves itself. It puts their APIServices
/// back when somebody changes them.
const BUILT_IN: [&str; 24] = [
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

/// The group versions that upstream serves itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Local {
    /// Its APIServices have not been read.
    #[default]
    Unknown,
    /// It has no APIServices, so it serves everything itself.
    All,
    /// Those of the built-in groups, and these.
    These(HashSet<GroupVersion>),
}

impl Local {
    /// Checks whether upstream serves a resource itself.
    pub(super) fn check(&self, gvr: &GroupVersionResource) -> Result<(), Unavailable> {
        let is_local = match self {
            _ if BUILT_IN.contains(&gvr.group.as_str()) => true,
            Self::Unknown => return Err(Unavailable::Filling),
            Self::All => true,
            Self::These(local) => local.contains(&gvr.group_version()),
        };
        match is_local {
            true => Ok(()),
            false => Err(Unavailable::Aggregated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_proven_local_is_the_same_for_all() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let widgets = GroupVersionResource::new("example.com", "v1", "widgets");
        let these = Local::These(HashSet::from([widgets.group_version()]));
        let nothing = Local::These(HashSet::new());
        for (local, of_pods, of_widgets) in [
            (Local::Unknown, Ok(()), Err(Unavailable::Filling)),
            (Local::All, Ok(()), Ok(())),
            (these, Ok(()), Ok(())),
            (nothing, Ok(()), Err(Unavailable::Aggregated)),
        ] {
            assert_eq!(local.check(&pods), of_pods, "{local:?}");
            assert_eq!(local.check(&widgets), of_widgets, "{local:?}");
        }
    }
}
