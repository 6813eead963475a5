//! Which resource a name means, as kubectl understands it.

use apifront_query::ResourceReference;
use kube::client::{APIGroupDiscovery, APIResourceDiscovery};

/// Finds a resource by its plural, singular, kind or short name, with or without a group,
/// or a version and a group. The groups are in the order of their priorities, and so are
/// the versions of each.
pub(super) fn find(groups: &[APIGroupDiscovery], wanted: &str) -> Option<ResourceReference> {
    let wanted = wanted.to_lowercase();
    let readings = readings(&wanted);
    let of_reading = |wanted: &Wanted<'_>| {
        // All names come before all short names.
        let by = [
            is_named as fn(&APIResourceDiscovery, &str) -> bool,
            is_short_for,
        ];
        by.into_iter()
            .find_map(|matches| wanted.find(groups, matches))
    };
    readings.iter().find_map(of_reading)
}

struct Wanted<'w> {
    name: &'w str,
    version: Option<&'w str>,
    group: Option<&'w str>,
}

/// Returns what a text may mean, most likely first: `deployments.v1.apps`,
/// `deployments.apps`, or a name with dots.
fn readings(text: &str) -> Vec<Wanted<'_>> {
    let mut readings = Vec::with_capacity(3);
    if let Some((name, rest)) = text.split_once('.') {
        if let Some((version, group)) = rest.split_once('.') {
            readings.push(Wanted {
                name,
                version: Some(version),
                group: Some(group),
            });
        }
        readings.push(Wanted {
            name,
            version: None,
            group: Some(rest),
        });
    }
    readings.push(Wanted {
        name: text,
        version: None,
        group: None,
    });
    readings
}

impl Wanted<'_> {
    fn find(
        &self,
        groups: &[APIGroupDiscovery],
        matches: fn(&APIResourceDiscovery, &str) -> bool,
    ) -> Option<ResourceReference> {
        // As kubectl does, it takes the beginning of a group for the group.
        let exact = groups.iter().filter(|group| match self.group {
            Some(wanted) => name_of(group) == wanted,
            None => true,
        });
        let begins = groups.iter().filter(|group| match self.group {
            Some(wanted) => !wanted.is_empty() && name_of(group).starts_with(wanted),
            None => false,
        });
        exact.chain(begins).find_map(|group| {
            let versions = group.versions.iter().filter_map(|version| {
                let name = version.version.as_deref()?;
                Some((name, version))
            });
            let mut versions = versions.filter(|(name, _)| self.version.is_none_or(|v| v == *name));
            versions.find_map(|(version, served)| {
                let mut resources = served.resources.iter();
                let found = resources.find(|r| is_listed(r) && matches(r, self.name))?;
                Some(ResourceReference {
                    group: name_of(group).to_owned(),
                    version: version.to_owned(),
                    resource: found.resource.clone()?,
                })
            })
        })
    }
}

/// Returns the name of a group, empty for the core group.
pub(super) fn name_of(group: &APIGroupDiscovery) -> &str {
    let name = group.metadata.as_ref().and_then(|m| m.name.as_deref());
    name.unwrap_or_default()
}

fn is_listed(resource: &APIResourceDiscovery) -> bool {
    resource.verbs.iter().any(|verb| verb == "list")
}

fn is_named(resource: &APIResourceDiscovery, name: &str) -> bool {
    let kind = resource
        .response_kind
        .as_ref()
        .and_then(|r| r.kind.as_ref());
    let kind = kind.map(|kind| kind.to_lowercase());
    resource.resource.as_deref() == Some(name)
        || resource.singular_resource.as_deref() == Some(name)
        || kind.as_deref() == Some(name)
}

fn is_short_for(resource: &APIResourceDiscovery, name: &str) -> bool {
    resource.short_names.iter().any(|short| short == name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({
            "resource": plural,
            "responseKind": { "group": "", "version": "", "kind": kind },
            "singularResource": kind.to_lowercase(),
            "shortNames": short,
            "scope": "Namespaced",
            "verbs": ["list", "watch"],
        })
    }

    fn groups() -> Vec<APIGroupDiscovery> {
        let mut review = resource("reviews", "Review", &[]);
        review["verbs"] = json!(["create"]);
        let groups = json!([
            { "versions": [{ "version": "v1", "resources": [
                resource("pods", "Pod", &["po"]),
                resource("events", "Event", &["ev"]),
                resource("services", "Service", &["svc"]),
                review,
            ] }] },
            { "metadata": { "name": "apps" }, "versions": [
                { "version": "v1", "resources": [resource("deployments", "Deployment", &["deploy"])] },
                { "version": "v1beta1", "resources": [
                    resource("deployments", "Deployment", &["deploy"]),
                    resource("old", "Old", &[]),
                ] },
            ] },
            { "metadata": { "name": "events.k8s.io" }, "versions": [
                { "version": "v1", "resources": [resource("events", "Event", &["ev"])] },
            ] },
            { "metadata": { "name": "example.test" }, "versions": [
                { "version": "v1", "resources": [
                    resource("po", "Parcel", &[]),
                    resource("pods", "Pod", &[]),
                ] },
            ] },
        ]);
        serde_json::from_value(groups).unwrap()
    }

    #[test]
    fn names_are_those_of_kubectl() {
        let groups = groups();
        for (wanted, expected) in [
            ("pods", "/v1/pods"),
            ("pod", "/v1/pods"),
            ("Pod", "/v1/pods"),
            ("svc", "/v1/services"),
            // A resource's name wins against a short name of an earlier group.
            ("po", "example.test/v1/po"),
            ("pods.example.test", "example.test/v1/pods"),
            ("pods.v1.example.test", "example.test/v1/pods"),
            ("pods.v1.", "/v1/pods"),
            ("pods.v2.", ""),
            ("deploy", "apps/v1/deployments"),
            ("deployments.apps", "apps/v1/deployments"),
            ("deployment.v1beta1.apps", "apps/v1beta1/deployments"),
            ("deploy.v2.apps", ""),
            // Only an older version has it.
            ("old", "apps/v1beta1/old"),
            ("ev", "/v1/events"),
            ("ev.events", "events.k8s.io/v1/events"),
            ("events.events.k8s.io", "events.k8s.io/v1/events"),
            ("reviews", ""),
            ("nothings", ""),
            ("", ""),
            (".", ""),
            ("...", ""),
        ] {
            let found = find(&groups, wanted);
            let found = found.map(|r| format!("{}/{}/{}", r.group, r.version, r.resource));
            assert_eq!(found.unwrap_or_default(), expected, "{wanted}");
        }
    }
}
