//! Decides which resources may be cached, by the server that answers for them.
//!
//! A store is filled with apifront's own rights and shown to every caller who
//! may list the resource. That is right for objects that kube-apiserver itself
//! keeps in etcd, but a server behind an APIService may answer each caller
//! differently. So a group version is cached only if upstream serves it itself,
//! or if the configuration (`cache.aggregated`) says that its server shows the
//! same to all callers.

use std::collections::HashMap;
use std::sync::LazyLock;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use kubernetes_wire::schema::Schema;

use super::unavailable::Unavailable;

/// The server of a group version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// Upstream itself, which keeps the objects in etcd.
    Upstream,
    /// The server behind the APIService, for example `kube-system/metrics:443`.
    Service(String),
}

/// The servers of all group versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// The APIServices have not been read yet.
    #[default]
    Unknown,
    /// Upstream has no APIServices, so it serves everything itself.
    UpstreamAlone,
    /// It cannot be found out which server answers.
    Unreadable,
    /// The APIServices were read.
    Known(ByGroup),
}

/// The servers by group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByGroup(HashMap<String, Vec<(String, Server)>>);

impl FromIterator<(GroupVersion, Server)> for ByGroup {
    fn from_iter<T: IntoIterator<Item = (GroupVersion, Server)>>(servers: T) -> Self {
        let mut all = Self::default();
        for (GroupVersion { group, version }, server) in servers {
            all.0.entry(group).or_default().push((version, server));
        }
        // The order means nothing, and must not look like a change.
        for versions in all.0.values_mut() {
            versions.sort_by(|a, b| a.0.cmp(&b.0));
        }
        all
    }
}

impl ByGroup {
    fn get(&self, group: &str, version: &str) -> Option<&Server> {
        let versions = self.0.get(group)?;
        let found = versions.iter().find(|(name, _)| name == version);
        found.map(|(_, server)| server)
    }
}

/// The group versions of kube-apiserver's own kinds. It serves them itself
/// unless an APIService says otherwise. It permits that only for group versions
/// that it does not serve.
static BUILT_IN: LazyLock<ByGroup> = LazyLock::new(|| {
    let kinds = Schema::builtin().kinds();
    let mut versions: Vec<&str> = kinds.map(|(api_version, ..)| api_version).collect();
    versions.sort_unstable();
    versions.dedup();
    let versions = versions.into_iter().filter_map(GroupVersion::parse);
    versions
        .map(|version| (version, Server::Upstream))
        .collect()
});

impl Servers {
    fn get(&self, gvr: &GroupVersionResource) -> Option<&Server> {
        let told = match self {
            Self::Known(servers) => servers.get(&gvr.group, &gvr.version),
            Self::UpstreamAlone => Some(&Server::Upstream),
            Self::Unknown | Self::Unreadable => None,
        };
        told.or_else(|| BUILT_IN.get(&gvr.group, &gvr.version))
    }

    /// Checks whether upstream serves a resource itself.
    pub(super) fn check(&self, gvr: &GroupVersionResource) -> Result<(), Unavailable> {
        match self.get(gvr) {
            Some(Server::Upstream) => Ok(()),
            None if *self == Self::Unknown => Err(Unavailable::Filling),
            Some(Server::Service(_)) | None => Err(Unavailable::Aggregated),
        }
    }

    /// Tells whether another server answers for the resource than before.
    pub(super) fn moved(&self, before: &Self, gvr: &GroupVersionResource) -> bool {
        *before != Self::Unknown && *self != Self::Unknown && self.get(gvr) != before.get(gvr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(servers: &[(&str, &str, Option<&str>)]) -> Servers {
        let servers = servers.iter().map(|(group, version, service)| {
            let group_version = GroupVersion {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            };
            let service = service.map(|service| Server::Service(service.to_owned()));
            (group_version, service.unwrap_or(Server::Upstream))
        });
        Servers::Known(servers.collect())
    }

    #[test]
    fn only_what_is_proven_local_is_the_same_for_all() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let widgets = GroupVersionResource::new("example.com", "v1", "widgets");
        // One of kube-apiserver's own groups, in a version that it does not
        // have.
        let newer = GroupVersionResource::new("apps", "v9", "deployments");
        let metrics = GroupVersionResource::new("metrics.k8s.io", "v1beta1", "pods");
        let remote = Err(Unavailable::Aggregated);
        let soon = Err(Unavailable::Filling);
        let nothing = known(&[]);
        let local = known(&[("example.com", "v1", None), ("apps", "v9", None)]);
        let elsewhere = known(&[
            ("", "v1", Some("a/b:443")),
            ("example.com", "v1", Some("a/b:443")),
            ("apps", "v9", Some("a/b:443")),
        ]);
        for (servers, expected) in [
            (Servers::Unknown, [Ok(()), soon, soon, soon]),
            (Servers::UpstreamAlone, [Ok(()), Ok(()), Ok(()), Ok(())]),
            (Servers::Unreadable, [Ok(()), remote, remote, remote]),
            (nothing, [Ok(()), remote, remote, remote]),
            (local, [Ok(()), Ok(()), Ok(()), remote]),
            (elsewhere, [remote, remote, remote, remote]),
        ] {
            let all = [&pods, &widgets, &newer, &metrics];
            assert_eq!(all.map(|gvr| servers.check(gvr)), expected, "{servers:?}");
        }
    }

    #[test]
    fn another_service_is_another_server() {
        let widgets = GroupVersionResource::new("example.com", "v1", "widgets");
        let pods = GroupVersionResource::new("", "v1", "pods");
        let of = |service| known(&[("example.com", "v1", service)]);
        let (local, one, two) = (of(None), of(Some("a/one:443")), of(Some("a/two:443")));
        for (before, now, expected) in [
            (&local, &local, false),
            (&local, &one, true),
            (&one, &two, true),
            (&two, &two, false),
            (&one, &known(&[]), true),
            (&Servers::Unknown, &one, false),
        ] {
            assert_eq!(now.moved(before, &widgets), expected, "{before:?} {now:?}");
            assert!(!now.moved(before, &pods));
        }
    }
}
