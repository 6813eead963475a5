//! The APIServices of what this server serves. kube-apiserver's aggregator has one for
//! each group version: for built-in groups from its start on, and for custom resources
//! while they are defined.

use std::collections::BTreeSet;

use kubernetes_wire::api::{GroupResource, GroupVersion};
use serde_json::{Value, json};

use super::{meta, server::EmbeddedServer, storage::Expect};

const GROUP: &str = "apiregistration.k8s.io";

/// The label of APIServices that no person wrote. `true` means that it goes when its
/// group version does.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The priorities of custom resources (kubernetes
/// `pkg/controlplane/controller/crdregistration`).
const CUSTOM: (u32, u32) = (1000, 100);

/// The priorities of built-in groups and of their versions, as in kube-apiserver
/// (kubernetes `pkg/controlplane/apiserver/aggregator.go`). The aggregator's own group
/// has none: it is always first.
const BUILT_IN: &[(&str, u32, u32)] = &[
    ("", 18000, 1),
    ("apps", 17800, 15),
    ("authentication.k8s.io", 17700, 15),
    ("authorization.k8s.io", 17600, 15),
    ("batch", 17400, 15),
    ("networking.k8s.io", 17200, 15),
    ("policy", 17100, 15),
    ("rbac.authorization.k8s.io", 17000, 15),
    ("storage.k8s.io", 16800, 15),
    ("apiextensions.k8s.io", 16700, 15),
    ("scheduling.k8s.io", 16600, 15),
    ("coordination.k8s.io", 16500, 15),
    ("discovery.k8s.io", 16200, 15),
    ("flowcontrol.apiserver.k8s.io", 16100, 21),
];

impl EmbeddedServer {
    /// Registers what is served now, and removes what was registered for custom
    /// resources that are gone.
    pub(super) fn register_api_services(&self) {
        let resource = GroupResource {
            group: GROUP.to_owned(),
            resource: "apiservices".to_owned(),
        };
        let versions = self.served().versions();
        let served = versions.iter().filter(|version| version.group != GROUP);
        let mut names = BTreeSet::new();
        for version in served {
            let name = format!("{}.{}", version.version, version.group);
            if self.storage().get(&resource, &name).is_none() {
                self.seed(GROUP, "v1", api_service(&name, version));
            }
            names.insert(name);
        }
        let label = format!("/metadata/labels/{}", AUTOMANAGED.replace('/', "~1"));
        for (name, stored) in &self.storage().snapshot(&resource).objects {
            let goes = stored
                .value
                .pointer(&label)
                .is_some_and(|value| value == "true");
            if goes && !names.contains(&**name) {
                // After a concurrent write, the next definition removes it.
                let _ = self
                    .storage()
                    .remove(&resource, name, Expect::Revision(stored.revision));
            }
        }
    }
}

fn api_service(name: &str, version: &GroupVersion) -> Value {
    let built_in = BUILT_IN.iter().find(|(group, ..)| *group == version.group);
    let managed = if built_in.is_some() {
        "onstart"
    } else {
        "true"
    };
    let (group_priority, version_priority) =
        built_in.map_or(CUSTOM, |(_, group, version)| (*group, *version));
    let mut spec = json!({
        "version": version.version,
        "groupPriorityMinimum": group_priority,
        "versionPriority": version_priority,
    });
    // The core group is left out.
    if let Some(spec) = spec.as_object_mut().filter(|_| !version.group.is_empty()) {
        spec.insert("group".to_owned(), json!(version.group));
    }
    json!({
        "kind": "APIService",
        "metadata": {"name": name, "labels": {AUTOMANAGED: managed}},
        "spec": spec,
        "status": {"conditions": [{
            "type": "Available",
            "status": "True",
            "lastTransitionTime": meta::now(),
            "reason": "Local",
            "message": "Local APIServices are always available",
        }]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::GROUP_ORDER;

    fn registered(server: &EmbeddedServer) -> BTreeSet<String> {
        let resource = GroupResource {
            group: GROUP.to_owned(),
            resource: "apiservices".to_owned(),
        };
        let snapshot = server.storage().snapshot(&resource);
        snapshot.objects.keys().map(|key| key.to_string()).collect()
    }

    #[test]
    fn each_group_version_is_registered_while_it_is_served() {
        let server = EmbeddedServer::new();
        let built_in = registered(&server);
        assert!(
            built_in.contains("v1.") && built_in.contains("v1.apps"),
            "{built_in:?}"
        );
        assert_eq!(built_in.len(), BUILT_IN.len());

        server.load_samples();
        let with_samples = registered(&server);
        let custom: Vec<&String> = with_samples.difference(&built_in).collect();
        let expected = [
            "v1.stable.example.com",
            "v1alpha1.wardle.example.com",
            "v1beta1.stable.example.com",
        ];
        assert_eq!(custom, expected);

        server.remove_definition("crontabs.stable.example.com");
        server.remove_definition("flunders.wardle.example.com");
        server.registry().set_definitions(std::iter::empty());
        server.register_api_services();
        assert_eq!(registered(&server), built_in);
    }

    #[test]
    fn priorities_are_in_the_order_of_discovery() {
        let groups = BUILT_IN.iter().map(|(group, ..)| *group);
        let groups: Vec<&str> = groups.filter(|group| !group.is_empty()).collect();
        assert_eq!(GROUP_ORDER.first(), Some(&GROUP));
        assert_eq!(groups, GROUP_ORDER[1..]);
        assert!(
            BUILT_IN
                .iter()
                .map(|(_, priority, _)| priority)
                .is_sorted_by(|a, b| a >= b)
        );
    }
}
