//! The table of the built-in resources.

use super::super::resource::Subresource::{self, Binding, Eviction, Finalize, Log, Status};
use super::super::resource::Verbs;
use super::{BuiltIn, cluster, namespaced, review};

const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const SCALE: Subresource = Subresource::Scale;

/// The resources in the order of discovery: by group, then by name.
pub(super) const BUILT_IN: &[BuiltIn] = &[
    review("", "bindings", "binding", "Binding", true),
    namespaced("", "configmaps", "configmap", "ConfigMap", "qFsyl6wFWjQ=").short(&["cm"]),
    BuiltIn {
        // Endpoints is deprecated but still served: core/v1 lifecycle.go.
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
    cluster(
        "apiregistration.k8s.io",
        "apiservices",
        "apiservice",
        "APIService",
        "InPBPD7+PqM=",
    )
    .subresources(&[Status])
    .conditional_update(),
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
        FLOW_CONTROL,
        "flowschemas",
        "flowschema",
        "FlowSchema",
        "GJVAJZSZBIw=",
    )
    .subresources(&[Status])
    .generation(),
    cluster(
        FLOW_CONTROL,
        "prioritylevelconfigurations",
        "prioritylevelconfiguration",
        "PriorityLevelConfiguration",
        "Kir5PVfvNeI=",
    )
    .subresources(&[Status])
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

/// The groups in the order of /apis: the aggregator's own, then the others in the order
/// of their APIServices' priorities.
pub(crate) const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
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
    FLOW_CONTROL,
];
