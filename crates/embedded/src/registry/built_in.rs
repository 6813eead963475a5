//! The built-in resources: names, verbs and hashes as kube-apiserver 1.36
//! publishes them in discovery.

use kubernetes_wire::api::GroupVersionResource;

use super::resource::{
    Fields, Resource, Scale, Subresource,
    Subresource::{Binding, Eviction, Finalize, Log, Status},
    Verbs,
};

struct BuiltIn {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
    verbs: Verbs,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    hash: &'static str,
    subresources: &'static [Subresource],
    /// Label and JSON pointer.
    fields: &'static [(&'static str, &'static str)],
    own_field_error: bool,
    generation: bool,
    create_on_update: bool,
    unconditional_update: bool,
    returns_deleted: bool,
    warning: Option<&'static str>,
}

const fn namespaced(
    group: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    hash: &'static str,
) -> BuiltIn {
    BuiltIn {
        group,
        version: "v1",
        resource,
        singular,
        kind,
        namespaced: true,
        verbs: Verbs::All,
        short_names: &[],
        categories: &[],
        hash,
        subresources: &[],
        fields: &[],
        own_field_error: false,
        generation: false,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        warning: None,
    }
}

const fn cluster(
    group: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    hash: &'static str,
) -> BuiltIn {
    let mut out = namespaced(group, resource, singular, kind, hash);
    out.namespaced = false;
    out
}

const fn review(
    group: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> BuiltIn {
    let mut out = cluster(group, resource, singular, kind, "");
    out.verbs = Verbs::CreateOnly;
    out.namespaced = namespaced;
    out
}

impl BuiltIn {
    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn subresources(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    const fn fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.fields = fields;
        self.own_field_error = true;
        self
    }

    const fn generation(mut self) -> Self {
        self.generation = true;
        self
    }

    const fn create_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    const fn conditional_update(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    const fn returns_deleted(mut self) -> Self {
        self.returns_deleted = true;
        self
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const SCALE: Subresource = Subresource::Scale;

/// Resources stand in the order of discovery: by group, then by name.
const BUILT_IN: &[BuiltIn] = &[
    review("", "bindings", "binding", "Binding", true),
    namespaced("", "configmaps", "configmap", "ConfigMap", "qFsyl6wFWjQ=").short(&["cm"]),
    BuiltIn {
        // Deprecated but alive: core/v1 lifecycle.go.
        warning: Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        ..namespaced("", "endpoints", "endpoints", "Endpoints", "fWeeMqaN/OA=")
            .short(&["ep"])
            .create_on_update()
    },
    namespaced("", "events", "event", "Event", "r2yiGXH7wu8=")
        .short(&["ev"])
        .fields(&[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
            (
                "involvedObject.resourceVersion",
                "/involvedObject/resourceVersion",
            ),
            ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("source", "/source/component"),
            ("type", "/type"),
        ])
        .create_on_update(),
    namespaced(
        "",
        "limitranges",
        "limitrange",
        "LimitRange",
        "EBKMFVe6cwo=",
    )
    .short(&["limits"])
    .create_on_update(),
    BuiltIn {
        verbs: Verbs::NoDeleteCollection,
        ..cluster("", "namespaces", "namespace", "Namespace", "Q3oi5N2YM8M=")
            .short(&["ns"])
            .subresources(&[Finalize, Status])
            .fields(&[("status.phase", "/status/phase")])
            .returns_deleted()
    },
    cluster("", "nodes", "node", "Node", "XwShjMxG9Fs=")
        .short(&["no"])
        .subresources(&[Status])
        .fields(&[("spec.unschedulable", "/spec/unschedulable")]),
    namespaced(
        "",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        "PersistentVolumeClaim",
        "QWTyNDq0dC4=",
    )
    .short(&["pvc"])
    .subresources(&[Status])
    .returns_deleted(),
    cluster(
        "",
        "persistentvolumes",
        "persistentvolume",
        "PersistentVolume",
        "HN/zwEC+JgM=",
    )
    .short(&["pv"])
    .subresources(&[Status])
    .returns_deleted(),
    namespaced("", "pods", "pod", "Pod", "xPOwRZ+Yhw8=")
        .short(&["po"])
        .all()
        .subresources(&[Binding, Eviction, Log, Status])
        .fields(&[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.host", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("spec.hostNetwork", "/spec/hostNetwork"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.podIPs", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ])
        .generation()
        .returns_deleted(),
    namespaced(
        "",
        "podtemplates",
        "podtemplate",
        "PodTemplate",
        "LIXB2x4IFpk=",
    )
    .create_on_update()
    .returns_deleted(),
    namespaced(
        "",
        "replicationcontrollers",
        "replicationcontroller",
        "ReplicationController",
        "Jond2If31h0=",
    )
    .short(&["rc"])
    .all()
    .subresources(&[SCALE, Status])
    .fields(&[("status.replicas", "/status/replicas")])
    .generation(),
    namespaced(
        "",
        "resourcequotas",
        "resourcequota",
        "ResourceQuota",
        "8uhSgffRX6w=",
    )
    .short(&["quota"])
    .subresources(&[Status])
    .create_on_update()
    .returns_deleted(),
    namespaced("", "secrets", "secret", "Secret", "S6u1pOWzb84=").fields(&[("type", "/type")]),
    namespaced(
        "",
        "serviceaccounts",
        "serviceaccount",
        "ServiceAccount",
        "pbx9ZvyFpBE=",
    )
    .short(&["sa"])
    .returns_deleted(),
    namespaced("", "services", "service", "Service", "0/CO1lhkEBI=")
        .short(&["svc"])
        .all()
        .subresources(&[Status])
        .fields(&[
            ("spec.clusterIP", "/spec/clusterIP"),
            ("spec.type", "/spec/type"),
        ])
        .create_on_update()
        .returns_deleted(),
    cluster(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "customresourcedefinition",
        "CustomResourceDefinition",
        "jfWCUB31mvA=",
    )
    .short(&["crd", "crds"])
    .subresources(&[Status])
    .generation()
    .conditional_update()
    .returns_deleted(),
    namespaced(
        "apps",
        "controllerrevisions",
        "controllerrevision",
        "ControllerRevision",
        "85nkx63pcBU=",
    ),
    namespaced(
        "apps",
        "daemonsets",
        "daemonset",
        "DaemonSet",
        "dd7pWHUlMKQ=",
    )
    .short(&["ds"])
    .all()
    .subresources(&[Status])
    .generation(),
    namespaced(
        "apps",
        "deployments",
        "deployment",
        "Deployment",
        "8aSe+NMegvE=",
    )
    .short(&["deploy"])
    .all()
    .subresources(&[SCALE, Status])
    .generation(),
    namespaced(
        "apps",
        "replicasets",
        "replicaset",
        "ReplicaSet",
        "P1RzHs8/mWQ=",
    )
    .short(&["rs"])
    .all()
    .subresources(&[SCALE, Status])
    .fields(&[("status.replicas", "/status/replicas")])
    .generation(),
    namespaced(
        "apps",
        "statefulsets",
        "statefulset",
        "StatefulSet",
        "H+vl74LkKdo=",
    )
    .short(&["sts"])
    .all()
    .subresources(&[SCALE, Status])
    .generation(),
    review(
        AUTHENTICATION,
        "selfsubjectreviews",
        "selfsubjectreview",
        "SelfSubjectReview",
        false,
    ),
    review(
        AUTHENTICATION,
        "tokenreviews",
        "tokenreview",
        "TokenReview",
        false,
    ),
    review(
        AUTHORIZATION,
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        "LocalSubjectAccessReview",
        true,
    ),
    review(
        AUTHORIZATION,
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        "SelfSubjectAccessReview",
        false,
    ),
    review(
        AUTHORIZATION,
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        "SelfSubjectRulesReview",
        false,
    ),
    review(
        AUTHORIZATION,
        "subjectaccessreviews",
        "subjectaccessreview",
        "SubjectAccessReview",
        false,
    ),
    namespaced("batch", "cronjobs", "cronjob", "CronJob", "sd5LIXh4Fjs=")
        .short(&["cj"])
        .all()
        .subresources(&[Status])
        .generation(),
    namespaced("batch", "jobs", "job", "Job", "mudhfqk/qZY=")
        .all()
        .subresources(&[Status])
        .fields(&[("status.successful", "/status/succeeded")])
        .generation(),
    namespaced(
        "coordination.k8s.io",
        "leases",
        "lease",
        "Lease",
        "gqkMMb/YqFM=",
    )
    .create_on_update()
    .conditional_update(),
    namespaced(
        "discovery.k8s.io",
        "endpointslices",
        "endpointslice",
        "EndpointSlice",
        "qgS0xkrxYAI=",
    )
    .generation(),
    cluster(
        NETWORKING,
        "ingressclasses",
        "ingressclass",
        "IngressClass",
        "l/iqIbDgFyQ=",
    )
    .generation(),
    namespaced(
        NETWORKING,
        "ingresses",
        "ingress",
        "Ingress",
        "39NQlfNR+bo=",
    )
    .short(&["ing"])
    .subresources(&[Status])
    .generation(),
    namespaced(
        NETWORKING,
        "networkpolicies",
        "networkpolicy",
        "NetworkPolicy",
        "YpfwF18m1G8=",
    )
    .short(&["netpol"])
    .generation(),
    namespaced(
        "policy",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "PodDisruptionBudget",
        "EVWiDmWqyJw=",
    )
    .short(&["pdb"])
    .subresources(&[Status])
    .generation(),
    cluster(
        RBAC,
        "clusterrolebindings",
        "clusterrolebinding",
        "ClusterRoleBinding",
        "48tpQ8gZHFc=",
    )
    .create_on_update(),
    cluster(
        RBAC,
        "clusterroles",
        "clusterrole",
        "ClusterRole",
        "bYE5ZWDrJ44=",
    )
    .create_on_update(),
    namespaced(
        RBAC,
        "rolebindings",
        "rolebinding",
        "RoleBinding",
        "eGsCzGH6b1g=",
    )
    .create_on_update(),
    namespaced(RBAC, "roles", "role", "Role", "7FuwZcIIItM=").create_on_update(),
    cluster(
        "scheduling.k8s.io",
        "priorityclasses",
        "priorityclass",
        "PriorityClass",
        "1QwjyaZjj3Y=",
    )
    .short(&["pc"])
    .generation(),
    cluster(
        "storage.k8s.io",
        "storageclasses",
        "storageclass",
        "StorageClass",
        "K+m6uJwbjGY=",
    )
    .short(&["sc"]),
];

/// Groups in the order of /apis, which is that of their APIServices' priority.
pub const GROUP_ORDER: &[&str] = &[
    "apps",
    AUTHENTICATION,
    AUTHORIZATION,
    "batch",
    NETWORKING,
    "policy",
    RBAC,
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

pub fn resources() -> Vec<Resource> {
    BUILT_IN.iter().map(BuiltIn::resource).collect()
}

impl BuiltIn {
    fn resource(&self) -> Resource {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
        let mut categories: Vec<String> = owned(self.categories);
        if self.group == "apiextensions.k8s.io" {
            categories.push("api-extensions".to_owned());
        }
        Resource {
            gvr: GroupVersionResource::new(self.group, self.version, self.resource),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            singular: self.singular.to_owned(),
            namespaced: self.namespaced,
            verbs: self.verbs,
            short_names: owned(self.short_names),
            categories,
            storage_version_hash: self.hash.to_owned(),
            subresources: self.subresources.to_vec(),
            fields: Fields {
                extra: self
                    .fields
                    .iter()
                    .map(|&(label, pointer)| (label.to_owned(), pointer.to_owned()))
                    .collect(),
                own_error: self.own_field_error,
            },
            generation: self.generation,
            create_on_update: self.create_on_update,
            unconditional_update: self.unconditional_update,
            returns_deleted: self.returns_deleted,
            warning: self.warning.map(str::to_owned),
            scale: self.subresources.contains(&SCALE).then(|| Scale {
                spec_replicas: "/spec/replicas".to_owned(),
                status_replicas: "/status/replicas".to_owned(),
                selector: Some("/spec/selector".to_owned()),
            }),
            custom: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::schema::Schema;

    use super::*;

    #[test]
    fn the_table_names_kinds_and_groups_that_are_known() {
        for resource in resources() {
            let kind = Schema::builtin().kind(&resource.api_version(), &resource.kind);
            assert!(kind.is_some(), "{}", resource.kind);
            let group = resource.gvr.group.as_str();
            let known = group.is_empty() || GROUP_ORDER.contains(&group);
            assert!(known, "{}", resource.kind);
        }
    }
}
