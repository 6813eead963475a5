//! Defines the values that the port without authentication may report: those that
//! cannot hold the name of a caller or an object. A report with a name in it cannot
//! be [`Nameless`], which the compiler checks. It needs a grant, which that port
//! does not give.

use std::collections::BTreeMap;

use kubernetes_wire::api::GroupVersionResource;
use serde::{Serialize, Serializer};

use crate::metrics::KnownNames;
use crate::server::state::generation::Generation;
use crate::status::Spared;

/// A value without names of users, groups, service accounts, namespaces or objects,
/// without paths, and without anything else that a caller wrote. It may hold fixed
/// words, numbers, and the names that metrics have as labels. Texts are not allowed.
pub(super) trait Nameless: Serialize {}

impl Nameless for bool {}
impl Nameless for u32 {}
impl Nameless for u64 {}
impl Nameless for usize {}
impl Nameless for i64 {}
impl Nameless for f64 {}
impl Nameless for &'static str {}
impl<T: Nameless> Nameless for Option<T> {}
impl<T: Nameless> Nameless for Vec<T> {}
impl<T: Nameless> Nameless for BTreeMap<&'static str, T> {}
impl Nameless for Spared {}

/// Declares reports whose fields are all [`Nameless`].
macro_rules! nameless {
    ($(
        $(#[$about:meta])*
        $vis:vis struct $name:ident $(<$parameter:ident>)? {$(
            $(#[$field_about:meta])*
            $field_vis:vis $field:ident: $type:ty,
        )*}
    )*) => {$(
        $(#[$about])*
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        $vis struct $name $(<$parameter>)? {$(
            $(#[$field_about])*
            $field_vis $field: $type,
        )*}

        impl $(<$parameter: $crate::server::answer::own::nameless::Nameless>)?
            $crate::server::answer::own::nameless::Nameless for $name $(<$parameter>)?
        where
            $($type: $crate::server::answer::own::nameless::Nameless,)*
        {}
    )*};
}
pub(super) use nameless;

/// Figures, and the resource that they belong to.
#[derive(Serialize)]
pub(super) struct Named<N, F> {
    #[serde(flatten)]
    resource: N,
    #[serde(flatten)]
    figures: F,
}

impl<N: Nameless, F: Nameless> Nameless for Named<N, F> {}

/// The name of a resource, in reports for callers with a grant. It may be a name
/// that a caller made up.
#[derive(Serialize)]
pub(super) struct AnyResource {
    group: String,
    version: String,
    resource: String,
}

/// The name of a resource that an answer has proved, as in labels of metrics.
/// Callers cannot make it up. It is empty for all resources without series of their
/// own.
#[derive(Serialize)]
pub(super) struct ProvenResource(AnyResource);

pub(super) trait NamesResources: Sized {
    /// Returns `None` if the report leaves the resource out.
    fn name(gvr: &GroupVersionResource, known: &KnownNames) -> Option<Self>;
}

impl NamesResources for AnyResource {
    fn name(gvr: &GroupVersionResource, _: &KnownNames) -> Option<Self> {
        Some(Self {
            group: gvr.group.clone(),
            version: gvr.version.clone(),
            resource: gvr.resource.clone(),
        })
    }
}

impl NamesResources for ProvenResource {
    fn name(gvr: &GroupVersionResource, known: &KnownNames) -> Option<Self> {
        let unnamed = gvr.resource.is_empty() && gvr.group.is_empty() && gvr.version.is_empty();
        let is_proven = unnamed || known.find(gvr, "").is_some();
        let name = AnyResource::name(gvr, known).filter(|_| is_proven);
        name.map(Self)
    }
}

impl Nameless for ProvenResource {}

/// Names the resources of the figures, but at most `most` of them. Also returns how
/// many are left out.
pub(super) fn named<N: NamesResources, F>(
    figures: impl IntoIterator<Item = (GroupVersionResource, F)>,
    known: &KnownNames,
    most: usize,
) -> (Vec<Named<N, F>>, usize) {
    let (mut listed, mut left_out) = (Vec::new(), 0_usize);
    for (gvr, figures) in figures {
        let name = N::name(&gvr, known).filter(|_| listed.len() < most);
        match name {
            Some(resource) => listed.push(Named { resource, figures }),
            None => left_out = left_out.saturating_add(1),
        }
    }
    (listed, left_out)
}

/// A resource version. It is written as a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct VersionNumber(pub(super) u64);

impl Serialize for VersionNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Nameless for VersionNumber {}

/// The address of an API server, `host:port`, from the configuration.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct ServerAddress(String);

impl ServerAddress {
    pub(super) fn of_api_servers(generation: &Generation) -> Vec<(Self, bool)> {
        let upstream = generation.upstream.load_full();
        let endpoints = upstream.endpoints().iter();
        endpoints
            .map(|endpoint| (Self(endpoint.name.clone()), endpoint.is_healthy()))
            .collect()
    }
}

impl Nameless for ServerAddress {}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::*;

    /// Tells whether a type is [`Nameless`]. If it is, this constant hides that of
    /// the trait.
    struct Asked<T>(PhantomData<T>);

    impl<T: Nameless> Asked<T> {
        const IS: bool = true;
    }

    trait Otherwise {
        const IS: bool = false;
    }

    impl<T> Otherwise for Asked<T> {}

    #[test]
    fn texts_and_what_holds_texts_are_not_nameless() {
        const {
            assert!(Asked::<Vec<Option<u64>>>::IS && Asked::<&'static str>::IS);
            assert!(!Asked::<String>::IS && !Asked::<Vec<String>>::IS);
            assert!(!Asked::<BTreeMap<String, u64>>::IS);
            assert!(!Asked::<serde_json::Value>::IS);
            assert!(!Asked::<GroupVersionResource>::IS);
            assert!(!Asked::<crate::shadow::ToldDifference>::IS);
        }
    }

    #[test]
    fn only_proven_names_are_shown() {
        let known = KnownNames::default();
        let gvr = |resource| GroupVersionResource::new("apps", "v1", resource);
        known.prove(&gvr("deployments"), "").unwrap();
        let figures = |n: u64| BTreeMap::from([("objects", n)]);
        let none = GroupVersionResource::new("", "", "");
        let all = || {
            let resources = [gvr("chosen"), gvr("deployments"), none.clone()];
            resources
                .into_iter()
                .zip([figures(1), figures(2), figures(3)])
        };
        let (shown, left_out) = named::<ProvenResource, _>(all(), &known, 9);
        assert_eq!(
            serde_json::to_string(&shown).unwrap(),
            concat!(
                r#"[{"group":"apps","version":"v1","resource":"deployments","objects":2},"#,
                r#"{"group":"","version":"","resource":"","objects":3}]"#
            )
        );
        assert_eq!(left_out, 1);
        let (shown, left_out) = named::<AnyResource, _>(all(), &known, 2);
        assert_eq!((shown.len(), left_out), (2, 1));
        let version = serde_json::to_string(&VersionNumber(7)).unwrap();
        assert_eq!(version, "\"7\"");
    }
}
