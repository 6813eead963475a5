//! The documents as clients see them: upstream's documents, with the versions
//! of backends, and without hidden versions and resources.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use kubernetes_wire::negotiation::Aggregated;
use parking_lot::Mutex;

use super::document::{self, Group, ResourceFacts, Version};
use super::encoded_document::EncodedDocument;
use super::group_list::{self, Groups};
use super::group_order::{self, Entry, TieBreak};
use super::priorities::Priorities;
use super::remote_document::Document;
use crate::aggregation::SourceVersion;
use crate::runtime_config::RuntimeConfig;

/// The `APIGroupDiscoveryList` of `/api` or `/apis`.
pub(super) struct Merged {
    pub(super) encoded: Arc<EncodedDocument>,
    /// The number of upstream's document.
    pub(super) number: u64,
    /// The groups in the document. Empty if the document has another form.
    groups: Vec<Group>,
    versions: HashSet<GroupVersion>,
    /// The hidden versions: upstream's and those that the configuration registers.
    pub(super) hidden: HashSet<GroupVersion>,
    facts: OnceLock<HashMap<GroupVersionResource, ResourceFacts>>,
}

/// Returns the wanted versions of upstream's document, unchanged.
pub(super) fn of_upstream(
    upstream: &Document,
    wanted: &[SourceVersion],
) -> Vec<(GroupVersion, Version)> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let groups = document::parse(&upstream.body).unwrap_or_default();
    let all = document::versions(&groups);
    all.filter(|(gv, _)| wanted.iter().any(|w| w.group_version == *gv))
        .map(|(gv, version)| (gv, version.clone()))
        .collect()
}

impl Merged {
    /// Merges upstream's document with `ours`, the versions that the configuration
    /// registers.
    pub(super) fn new(
        upstream: &Document,
        aggregated: Aggregated,
        mut ours: Vec<(GroupVersion, Version)>,
        priorities: &Priorities,
        config: &RuntimeConfig,
    ) -> Self {
        let unchanged = || {
            Arc::new(EncodedDocument::new(
                upstream.body.clone(),
                upstream.etag.clone(),
            ))
        };
        let Some(parsed) = document::parse(&upstream.body) else {
            tracing::warn!("the upstream's discovery document has an unknown form");
            return Self::from_groups(upstream, unchanged(), Vec::new(), HashSet::new());
        };
        if ours.is_empty() && config.is_default() {
            return Self::from_groups(upstream, unchanged(), parsed, HashSet::new());
        }
        let mut hidden = HashSet::new();
        let mut shown = |gv: GroupVersion, version: &Version| {
            let left = visible(&gv, version, config);
            if left.is_none() {
                hidden.insert(gv);
            }
            left
        };
        let mut entries = entries(&parsed, &ours, &mut shown);
        ours.retain_mut(|(gv, version)| match shown(gv.clone(), version) {
            Some(left) => {
                *version = left;
                true
            }
            None => false,
        });
        for entry in &mut entries {
            let group = &entry.group;
            entry.versions.retain(|(version, _)| {
                !hidden.contains(&GroupVersion {
                    group: group.clone(),
                    version: version.clone(),
                })
            });
        }
        entries.retain(|e| !e.versions.is_empty());
        group_order::insert(&mut entries, &ours, priorities, TieBreak::Group);
        let creation_timestamp = parsed.iter().any(|group| group.creation_timestamp);
        let groups: Vec<Group> = entries
            .into_iter()
            .map(|entry| Group {
                name: entry.group,
                versions: entry.versions.into_iter().map(|(_, v)| v).collect(),
                creation_timestamp,
            })
            .collect();
        if groups == parsed {
            return Self::from_groups(upstream, unchanged(), parsed, hidden);
        }
        let (json, etag) = document::write(&groups, aggregated.api_version());
        let encoded = Arc::new(EncodedDocument::new(json, Some(etag)));
        Self::from_groups(upstream, encoded, groups, hidden)
    }

    fn from_groups(
        upstream: &Document,
        encoded: Arc<EncodedDocument>,
        groups: Vec<Group>,
        hidden: HashSet<GroupVersion>,
    ) -> Self {
        let versions = document::versions(&groups).map(|(gv, _)| gv).collect();
        Self {
            encoded,
            number: upstream.number,
            groups,
            versions,
            hidden,
            facts: OnceLock::new(),
        }
    }

    pub(super) fn has(&self, version: &GroupVersion) -> bool {
        self.versions.contains(version)
    }

    pub(super) fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g.name == group)
    }

    pub(super) fn preferred(&self, group: &str, resource: &str) -> Option<GroupVersionResource> {
        let group = self.groups.iter().find(|g| g.name == group)?;
        let versions = group.versions.iter();
        let mut resources =
            versions.map(|version| GroupVersionResource::new(&group.name, &version.name, resource));
        resources.find(|resource| self.facts(resource).is_some())
    }

    pub(super) fn facts(&self, resource: &GroupVersionResource) -> Option<ResourceFacts> {
        let facts = self.facts.get_or_init(|| document::facts(&self.groups));
        facts.get(resource).cloned()
    }
}

/// Returns the shown versions of upstream's groups. A version in `ours` replaces
/// upstream's, even if it is hidden.
fn entries(
    upstream: &[Group],
    ours: &[(GroupVersion, Version)],
    shown: &mut impl FnMut(GroupVersion, &Version) -> Option<Version>,
) -> Vec<Entry<Version>> {
    let mut entries = Vec::new();
    for group in upstream {
        let versions = group.versions.iter().filter_map(|version| {
            let gv = GroupVersion {
                group: group.name.clone(),
                version: version.name.clone(),
            };
            if ours.iter().any(|(of_ours, _)| *of_ours == gv) {
                return Some((version.name.clone(), version.clone()));
            }
            Some((version.name.clone(), shown(gv, version)?))
        });
        entries.push(Entry {
            group: group.name.clone(),
            versions: versions.collect(),
        });
    }
    entries
}

/// Returns the version without its hidden resources, or `None` if nothing is left.
fn visible(gv: &GroupVersion, version: &Version, config: &RuntimeConfig) -> Option<Version> {
    if !config.is_enabled(gv) {
        return None;
    }
    version.without(|resource| {
        let gvr = GroupVersionResource::new(&gv.group, &gv.version, resource);
        !config.is_resource_enabled(&gvr)
    })
}

/// The plain list of groups at `/apis`.
pub(super) struct MergedGroups {
    pub(super) encoded: Arc<EncodedDocument>,
    /// The groups in the list. Empty if the document has another form.
    groups: Groups,
    of_groups: Mutex<HashMap<String, Arc<EncodedDocument>>>,
}

impl MergedGroups {
    /// Merges upstream's list with `ours`, the versions that the configuration
    /// registers. `hidden` versions are not shown.
    pub(super) fn new(
        upstream: &Document,
        ours: &[GroupVersion],
        priorities: &Priorities,
        hidden: &HashSet<GroupVersion>,
    ) -> Self {
        let unchanged = || Arc::new(EncodedDocument::new(upstream.body.clone(), None));
        let of = |encoded, groups| Self {
            encoded,
            groups,
            of_groups: Mutex::default(),
        };
        let Some(parsed) = group_list::parse(&upstream.body) else {
            return of(unchanged(), Groups::new());
        };
        if ours.is_empty() && hidden.is_empty() {
            return of(unchanged(), parsed);
        }
        let is_shown = |group: &str, version: &str| {
            !hidden.contains(&GroupVersion {
                group: group.to_owned(),
                version: version.to_owned(),
            })
        };
        let mut entries: Vec<Entry<()>> = parsed
            .iter()
            .map(|(group, versions)| Entry {
                group: group.clone(),
                versions: versions
                    .iter()
                    .filter(|version| is_shown(group, version))
                    .map(|version| (version.clone(), ()))
                    .collect(),
            })
            .filter(|entry| !entry.versions.is_empty())
            .collect();
        let ours: Vec<(GroupVersion, ())> = ours
            .iter()
            .filter(|gv| !gv.group.is_empty() && is_shown(&gv.group, &gv.version))
            .map(|gv| (gv.clone(), ()))
            .collect();
        group_order::insert(&mut entries, &ours, priorities, TieBreak::ApiService);
        let groups: Groups = entries
            .into_iter()
            .map(|e| {
                (
                    e.group,
                    e.versions.into_iter().map(|(name, ())| name).collect(),
                )
            })
            .collect();
        let json = group_list::write(&groups);
        of(Arc::new(EncodedDocument::new(json, None)), groups)
    }

    pub(super) fn group(&self, name: &str) -> Option<Arc<EncodedDocument>> {
        let (name, versions) = self.groups.iter().find(|(n, _)| n == name)?;
        let mut made = self.of_groups.lock();
        let make = || {
            Arc::new(EncodedDocument::new(
                group_list::group(name, versions),
                None,
            ))
        };
        Some(made.entry(name.clone()).or_insert_with(make).clone())
    }
}
