//! The built-in resources: names, verbs and hashes as kube-apiserver 1.36
//! publishes them in discovery.

use super::{
    Fields, Resource, Scale, Subresource,
    Subresource::{Binding, Eviction, Finalize, Log, Status},
    Verbs,
};
use kubernetes_wire::api::GroupVersionResource;

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
    empty: &'static str,
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
        empty: "{}",
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

    const fn empty(mut self, json: &'static str) -> Self {
        self.empty = json;
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

/// In each group by resource, the order of discovery.
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
        .create_on_update()
        .empty(
            r#"{"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#,
        ),
    namespaced("", "limitranges", "limitrange", "LimitRange", "EBKMFVe6cwo=")
        .short(&["limits"])
        .create_on_update()
        .empty(r#"{"spec":{"limits":null}}"#),
    BuiltIn {
        verbs: Verbs::NoDeleteCollection,
        ..cluster("", "namespaces", "namespace", "Namespace", "Q3oi5N2YM8M=")
            .short(&["ns"])
            .subresources(&[Finalize, Status])
            .fields(&[("status.phase", "/status/phase")])
            .returns_deleted()
            .empty(r#"{"spec":{},"status":{}}"#)
    },
    cluster("", "nodes", "node", "Node", "XwShjMxG9Fs=")
        .short(&["no"])
        .subresources(&[Status])
        .fields(&[("spec.unschedulable", "/spec/unschedulable")])
        .empty(
            r#"{"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}"#,
        ),
    namespaced(
        "",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        "PersistentVolumeClaim",
        "QWTyNDq0dC4=",
    )
    .short(&["pvc"])
    .subresources(&[Status])
    .returns_deleted()
    .empty(r#"{"spec":{"resources":{}},"status":{}}"#),
    cluster(
        "",
        "persistentvolumes",
        "persistentvolume",
        "PersistentVolume",
        "HN/zwEC+JgM=",
    )
    .short(&["pv"])
    .subresources(&[Status])
    .returns_deleted()
    .empty(r#"{"spec":{},"status":{}}"#),
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
        .returns_deleted()
        .empty(r#"{"spec":{"containers":null},"status":{}}"#),
    namespaced("", "podtemplates", "podtemplate", "PodTemplate", "LIXB2x4IFpk=")
        .create_on_update()
        .returns_deleted()
        .empty(r#"{"template":{"metadata":{},"spec":{"containers":null}}}"#),
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
    .generation()
    .empty(r#"{"spec":{},"status":{"replicas":0}}"#),
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
    .returns_deleted()
    .empty(r#"{"spec":{},"status":{}}"#),
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
        .returns_deleted()
        .empty(r#"{"spec":{},"status":{"loadBalancer":{}}}"#),
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
    .returns_deleted()
    .empty(
        r#"{"spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}"#,
    ),
    namespaced(
        "apps",
        "controllerrevisions",
        "controllerrevision",
        "ControllerRevision",
        "85nkx63pcBU=",
    )
    .empty(r#"{"data":null,"revision":0}"#),
    namespaced("apps", "daemonsets", "daemonset", "DaemonSet", "dd7pWHUlMKQ=")
        .short(&["ds"])
        .all()
        .subresources(&[Status])
        .generation()
        .empty(
            r#"{"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}}"#,
        ),
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
    .generation()
    .empty(
        r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#,
    ),
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
    .generation()
    .empty(
        r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}}"#,
    ),
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
    .generation()
    .empty(
        r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}}"#,
    ),
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
        .generation()
        .empty(
            r#"{"spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}}"#,
        ),
    namespaced("batch", "jobs", "job", "Job", "mudhfqk/qZY=")
        .all()
        .subresources(&[Status])
        .fields(&[("status.successful", "/status/succeeded")])
        .generation()
        .empty(r#"{"spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}}"#),
    namespaced(
        "coordination.k8s.io",
        "leases",
        "lease",
        "Lease",
        "gqkMMb/YqFM=",
    )
    .create_on_update()
    .conditional_update()
    .empty(r#"{"spec":{}}"#),
    namespaced(
        "discovery.k8s.io",
        "endpointslices",
        "endpointslice",
        "EndpointSlice",
        "qgS0xkrxYAI=",
    )
    .generation()
    .empty(r#"{"addressType":"","endpoints":null,"ports":null}"#),
    cluster(
        NETWORKING,
        "ingressclasses",
        "ingressclass",
        "IngressClass",
        "l/iqIbDgFyQ=",
    )
    .generation()
    .empty(r#"{"spec":{}}"#),
    namespaced(
        NETWORKING,
        "ingresses",
        "ingress",
        "Ingress",
        "39NQlfNR+bo=",
    )
    .short(&["ing"])
    .subresources(&[Status])
    .generation()
    .empty(r#"{"spec":{},"status":{"loadBalancer":{}}}"#),
    namespaced(
        NETWORKING,
        "networkpolicies",
        "networkpolicy",
        "NetworkPolicy",
        "YpfwF18m1G8=",
    )
    .short(&["netpol"])
    .generation()
    .empty(r#"{"spec":{"podSelector":{}}}"#),
    namespaced(
        "policy",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "PodDisruptionBudget",
        "EVWiDmWqyJw=",
    )
    .short(&["pdb"])
    .subresources(&[Status])
    .generation()
    .empty(
        r#"{"spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}}"#,
    ),
    cluster(
        RBAC,
        "clusterrolebindings",
        "clusterrolebinding",
        "ClusterRoleBinding",
        "48tpQ8gZHFc=",
    )
    .create_on_update()
    .empty(r#"{"roleRef":{"apiGroup":"","kind":"","name":""}}"#),
    cluster(
        RBAC,
        "clusterroles",
        "clusterrole",
        "ClusterRole",
        "bYE5ZWDrJ44=",
    )
    .create_on_update()
    .empty(r#"{"rules":null}"#),
    namespaced(
        RBAC,
        "rolebindings",
        "rolebinding",
        "RoleBinding",
        "eGsCzGH6b1g=",
    )
    .create_on_update()
    .empty(r#"{"roleRef":{"apiGroup":"","kind":"","name":""}}"#),
    namespaced(RBAC, "roles", "role", "Role", "7FuwZcIIItM=")
        .create_on_update()
        .empty(r#"{"rules":null}"#),
    cluster(
        "scheduling.k8s.io",
        "priorityclasses",
        "priorityclass",
        "PriorityClass",
        "1QwjyaZjj3Y=",
    )
    .short(&["pc"])
    .generation()
    .empty(r#"{"value":0}"#),
    cluster(
        "storage.k8s.io",
        "storageclasses",
        "storageclass",
        "StorageClass",
        "K+m6uJwbjGY=",
    )
    .short(&["sc"])
    .empty(r#"{"provisioner":""}"#),
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
            empty: self.empty,
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
    use super::*;

    #[test]
    fn the_table_is_sane() {
        for resource in resources() {
            let empty: Result<serde_json::Map<_, serde_json::Value>, _> =
                serde_json::from_str(resource.empty);
            assert!(empty.is_ok(), "{}", resource.kind);
            assert!(
                resource.gvr.group.is_empty() || GROUP_ORDER.contains(&resource.gvr.group.as_str()),
                "{}",
                resource.kind
            );
        }
    }
}
