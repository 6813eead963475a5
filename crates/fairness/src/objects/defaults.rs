//! The objects that kube-apiserver always has, and those that it creates in a new
//! cluster (k8s.io/apiserver `apis/flowcontrol/bootstrap`).

use super::{
    DistinguisherMethod, ExemptPriorityLevel, FlowDistinguisherMethod, FlowSchema, FlowSchemaSpec,
    GroupSubject, LimitResponse, LimitedPriorityLevel, Metadata, NonResourcePolicyRule, Objects,
    PolicyRulesWithSubjects, PriorityLevelConfiguration, PriorityLevelReference, PriorityLevelSpec,
    QueuingConfiguration, ResourcePolicyRule, ServiceAccountSubject, Subject, UserSubject,
};
use kubernetes_wire::api::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED};

use DistinguisherMethod::{ByNamespace, ByUser};

/// The name of the exempt level, and of its schema.
pub(crate) const EXEMPT: &str = "exempt";
/// The name of the level and the schema for requests that no other schema matches.
pub(crate) const CATCH_ALL: &str = "catch-all";

const ALL: &[&str] = &["*"];
const NODES: &str = "system:nodes";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const LEASES: &str = "coordination.k8s.io";

pub(crate) fn mandatory_priority_levels() -> [PriorityLevelConfiguration; 2] {
    let exempt = PriorityLevelSpec {
        kind: "Exempt".to_owned(),
        limited: None,
        exempt: Some(ExemptPriorityLevel {
            nominal_concurrency_shares: Some(0),
            lendable_percent: Some(0),
        }),
    };
    [named(EXEMPT, exempt), limited(CATCH_ALL, 5, 0, None)]
}

pub(crate) fn mandatory_flow_schemas() -> [FlowSchema; 2] {
    let everybody = groups(&[UNAUTHENTICATED, AUTHENTICATED]);
    [
        schema(EXEMPT, EXEMPT, 1, None, anything(groups(&[MASTERS]))),
        schema(
            CATCH_ALL,
            CATCH_ALL,
            10_000,
            Some(ByUser),
            anything(everybody),
        ),
    ]
}

/// Returns kube-apiserver's suggested objects, without the mandatory ones.
pub(super) fn suggested() -> Objects {
    Objects {
        flow_schemas: suggested_flow_schemas(),
        priority_levels: vec![
            limited("system", 30, 33, Some((64, 6))),
            limited("node-high", 40, 25, Some((64, 6))),
            limited("leader-election", 10, 0, Some((16, 4))),
            limited("workload-high", 40, 50, Some((128, 6))),
            limited("workload-low", 100, 90, Some((128, 6))),
            limited("global-default", 20, 50, Some((128, 6))),
        ],
    }
}

fn suggested_flow_schemas() -> Vec<FlowSchema> {
    let everybody = || groups(&[UNAUTHENTICATED, AUTHENTICATED]);
    let system_accounts = || {
        vec![Subject {
            kind: "ServiceAccount".to_owned(),
            service_account: Some(ServiceAccountSubject {
                namespace: "kube-system".to_owned(),
                name: "*".to_owned(),
            }),
            ..Subject::default()
        }]
    };
    let probes = PolicyRulesWithSubjects {
        subjects: everybody(),
        resource_rules: Vec::new(),
        non_resource_rules: vec![NonResourcePolicyRule {
            verbs: owned(&["get"]),
            non_resource_urls: owned(&["/healthz", "/readyz", "/livez"]),
        }],
    };
    let mut leaders = users(&[CONTROLLER_MANAGER, SCHEDULER]);
    leaders.extend(system_accounts());
    let leader_election = PolicyRulesWithSubjects {
        subjects: leaders,
        resource_rules: vec![resources(
            &["get", "create", "update"],
            LEASES,
            &["leases"],
            false,
        )],
        non_resource_rules: Vec::new(),
    };
    let node_high = PolicyRulesWithSubjects {
        subjects: groups(&[NODES]),
        resource_rules: vec![
            resources(ALL, "", &["nodes", "nodes/status"], true),
            resources(ALL, LEASES, &["leases"], false),
        ],
        non_resource_rules: Vec::new(),
    };
    let manager = anything(users(&[CONTROLLER_MANAGER]));
    let scheduler = anything(users(&[SCHEDULER]));
    let accounts = anything(groups(&[SERVICE_ACCOUNTS]));
    let (by_user, by_namespace) = (Some(ByUser), Some(ByNamespace));
    [
        ("probes", EXEMPT, 2, None, probes),
        (
            "system-leader-election",
            "leader-election",
            100,
            by_user,
            leader_election,
        ),
        ("system-node-high", "node-high", 400, by_user, node_high),
        (
            "system-nodes",
            "system",
            500,
            by_user,
            anything(groups(&[NODES])),
        ),
        (
            "kube-controller-manager",
            "workload-high",
            800,
            by_namespace,
            manager,
        ),
        (
            "kube-scheduler",
            "workload-high",
            800,
            by_namespace,
            scheduler,
        ),
        (
            "kube-system-service-accounts",
            "workload-high",
            900,
            by_namespace,
            anything(system_accounts()),
        ),
        ("service-accounts", "workload-low", 9000, by_user, accounts),
        (
            "global-default",
            "global-default",
            9900,
            by_user,
            anything(everybody()),
        ),
    ]
    .into_iter()
    .map(|(name, level, precedence, method, rules)| schema(name, level, precedence, method, rules))
    .collect()
}

fn schema(
    name: &str,
    level: &str,
    precedence: i32,
    method: Option<DistinguisherMethod>,
    rules: PolicyRulesWithSubjects,
) -> FlowSchema {
    FlowSchema {
        metadata: metadata(name),
        spec: FlowSchemaSpec {
            priority_level_configuration: PriorityLevelReference {
                name: level.to_owned(),
            },
            matching_precedence: precedence,
            distinguisher_method: method.map(|method| FlowDistinguisherMethod { method }),
            rules: vec![rules],
        },
    }
}

/// Returns a limited level. `None` for the queues and the hand size makes one that
/// refuses.
fn limited(
    name: &str,
    shares: i32,
    lendable_percent: i32,
    queues: Option<(i32, i32)>,
) -> PriorityLevelConfiguration {
    let kind = if queues.is_some() { "Queue" } else { "Reject" };
    let limited = LimitedPriorityLevel {
        nominal_concurrency_shares: Some(shares),
        lendable_percent: Some(lendable_percent),
        borrowing_limit_percent: None,
        limit_response: LimitResponse {
            kind: kind.to_owned(),
            queuing: queues.map(|(queues, hand_size)| QueuingConfiguration {
                queues,
                hand_size,
                queue_length_limit: 50,
            }),
        },
    };
    let spec = PriorityLevelSpec {
        kind: "Limited".to_owned(),
        limited: Some(limited),
        exempt: None,
    };
    named(name, spec)
}

fn named(name: &str, spec: PriorityLevelSpec) -> PriorityLevelConfiguration {
    PriorityLevelConfiguration {
        metadata: metadata(name),
        spec,
    }
}

fn metadata(name: &str) -> Metadata {
    Metadata {
        name: name.to_owned(),
        uid: String::new(),
    }
}

/// Returns rules that match every request of the subjects.
fn anything(subjects: Vec<Subject>) -> PolicyRulesWithSubjects {
    PolicyRulesWithSubjects {
        subjects,
        resource_rules: vec![resources(ALL, "*", ALL, true)],
        non_resource_rules: vec![NonResourcePolicyRule {
            verbs: owned(ALL),
            non_resource_urls: owned(ALL),
        }],
    }
}

/// Returns a rule for resources of all namespaces.
fn resources(
    verbs: &[&str],
    group: &str,
    resources: &[&str],
    cluster_scope: bool,
) -> ResourcePolicyRule {
    ResourcePolicyRule {
        verbs: owned(verbs),
        api_groups: owned(&[group]),
        resources: owned(resources),
        cluster_scope,
        namespaces: owned(ALL),
    }
}

fn groups(names: &[&str]) -> Vec<Subject> {
    let subject = |name: &&str| Subject {
        kind: "Group".to_owned(),
        group: Some(GroupSubject {
            name: (*name).to_owned(),
        }),
        ..Subject::default()
    };
    names.iter().map(subject).collect()
}

fn users(names: &[&str]) -> Vec<Subject> {
    let subject = |name: &&str| Subject {
        kind: "User".to_owned(),
        user: Some(UserSubject {
            name: (*name).to_owned(),
        }),
        ..Subject::default()
    };
    names.iter().map(subject).collect()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
