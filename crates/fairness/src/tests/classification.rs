//! Which schema a request gets.

use super::support::{Lcg, classify, engine, info, user};
use crate::matching::Rule;
use crate::objects::{
    GroupSubject, NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule,
    ServiceAccountSubject, Subject, UserSubject,
};
use crate::{FlowSchema, Ignored, Objects, PriorityLevelConfiguration};

fn level(name: &str) -> PriorityLevelConfiguration {
    let json = format!(
        r#"{{"kind":"PriorityLevelConfiguration","metadata":{{"name":"{name}","uid":"of-{name}",
        "generation":1}},"spec":{{"type":"Limited","limited":{{"nominalConcurrencyShares":10,
        "lendablePercent":0,"limitResponse":{{"type":"Queue","queuing":
        {{"queues":8,"handSize":2,"queueLengthLimit":5}}}}}}}},"status":{{}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

fn schema(name: &str, level: &str, precedence: i32, of: &str) -> FlowSchema {
    let json = format!(
        r#"{{"kind":"FlowSchema","metadata":{{"name":"{name}","uid":"of-{name}"}},"spec":
        {{"priorityLevelConfiguration":{{"name":"{level}"}},"matchingPrecedence":{precedence},
        "distinguisherMethod":{{"type":"ByUser"}},"rules":[{{"subjects":
        [{{"kind":"User","user":{{"name":"{of}"}}}}],"nonResourceRules":null,"resourceRules":
        [{{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,
        "namespaces":["*"]}}]}}]}},"status":{{"conditions":[]}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

#[test]
fn the_default_schemas_classify_as_in_a_new_cluster() {
    let (fairness, ..) = engine(600);
    let authenticated = "system:authenticated";
    let account = |name| user(name, &["system:serviceaccounts", authenticated]);
    let node = user("system:node:n", &["system:nodes", authenticated]);
    let manager = user("system:kube-controller-manager", &[authenticated]);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/l";
    let cases = [
        (
            "GET",
            "/api/v1/pods",
            user("admin", &["system:masters"]),
            "exempt",
        ),
        (
            "GET",
            "/healthz",
            user("system:anonymous", &["system:unauthenticated"]),
            "probes",
        ),
        ("GET", "/readyz/etcd", user("a", &[authenticated]), "probes"),
        (
            "POST",
            "/readyz",
            user("a", &[authenticated]),
            "global-default",
        ),
        ("GET", lease, manager.clone(), "system-leader-election"),
        ("DELETE", lease, manager.clone(), "kube-controller-manager"),
        ("GET", "/api/v1/pods", manager, "kube-controller-manager"),
        ("GET", lease, node.clone(), "system-node-high"),
        (
            "PATCH",
            "/api/v1/nodes/n/status",
            node.clone(),
            "system-node-high",
        ),
        ("GET", "/api/v1/nodes/n/proxy", node.clone(), "system-nodes"),
        ("GET", "/api/v1/pods", node, "system-nodes"),
        (
            "GET",
            "/api",
            user("system:kube-scheduler", &[authenticated]),
            "kube-scheduler",
        ),
        (
            "GET",
            "/api",
            account("system:serviceaccount:kube-system:x"),
            "kube-system-service-accounts",
        ),
        (
            "GET",
            "/api",
            account("system:serviceaccount:kube-systemd:x"),
            "service-accounts",
        ),
        (
            "GET",
            "/api",
            user("alice", &[authenticated]),
            "global-default",
        ),
        // This caller has none of the groups that every caller gets.
        ("GET", "/api", user("alice", &[]), "catch-all"),
    ];
    for (method, target, user, expected) in cases {
        let class = classify(&fairness, info(method, target), &user);
        assert_eq!(
            class.flow_schema(),
            expected,
            "{method} {target} {}",
            user.name
        );
        assert_eq!(class.is_exempt(), ["exempt", "probes"].contains(&expected));
    }
}

#[test]
fn objects_classify_by_precedence_and_name() {
    let (fairness, ..) = engine(600);
    let ignored = fairness.configure(Objects {
        flow_schemas: vec![
            schema("z", "busy", 70, "alice"),
            schema("late", "busy", 9000, "alice"),
            schema("y", "quiet", 70, "alice"),
            schema("nowhere", "missing", 1, "alice"),
        ],
        priority_levels: vec![level("busy"), level("quiet")],
    });
    let uid = |value: Option<&http::HeaderValue>| value.unwrap().to_str().unwrap().to_owned();
    let (name, level) = ("nowhere".to_owned(), "missing".to_owned());
    assert_eq!(ignored, [Ignored::Dangling { name, level }]);
    let pods = info("GET", "/api/v1/pods");
    let class = classify(&fairness, pods.clone(), &user("alice", &[]));
    assert_eq!(
        (class.flow_schema(), uid(class.flow_schema_uid())),
        ("y", "of-y".to_owned())
    );
    assert_eq!(
        (class.priority_level(), uid(class.priority_level_uid())),
        ("quiet", "of-quiet".to_owned())
    );
    // The suggested schemas are gone; the mandatory ones remain.
    let class = classify(
        &fairness,
        pods.clone(),
        &user("bob", &["system:authenticated"]),
    );
    assert_eq!(
        (class.flow_schema(), class.flow_schema_uid()),
        ("catch-all", None)
    );
    let class = classify(&fairness, pods.clone(), &user("admin", &["system:masters"]));
    assert_eq!(
        (class.flow_schema(), class.priority_level()),
        ("exempt", "exempt")
    );
}

#[test]
fn broken_objects_are_ignored() {
    let (fairness, ..) = engine(600);
    let mut exempt = level("not-exempt");
    exempt.spec.kind = "Exempt".to_owned();
    let mut too_many = level("too-many-cards");
    let limited = too_many.spec.limited.as_mut().unwrap();
    limited.limit_response.queuing.as_mut().unwrap().hand_size = 9;
    let mut no_queues = level("no-queues");
    no_queues
        .spec
        .limited
        .as_mut()
        .unwrap()
        .limit_response
        .queuing = None;
    let broken = vec![exempt, too_many, no_queues, level("fine"), level("fine")];
    let ignored = fairness.configure(Objects {
        flow_schemas: vec![
            schema("a", "too-many-cards", 1, "alice"),
            schema("b", "fine", 2, "alice"),
            schema("b", "fine", 1, "bob"),
        ],
        priority_levels: broken,
    });
    let names: Vec<String> = ignored.iter().map(Ignored::to_string).collect();
    let begins = [
        "PriorityLevelConfiguration not-exempt is ignored",
        "PriorityLevelConfiguration too-many-cards is ignored",
        "PriorityLevelConfiguration no-queues is ignored",
        "PriorityLevelConfiguration fine is ignored",
        "FlowSchema a is ignored",
        "the second FlowSchema b is ignored",
    ];
    assert_eq!(names.len(), begins.len(), "{names:?}");
    for (name, begin) in names.iter().zip(begins) {
        assert!(name.starts_with(begin), "{name}");
    }
    let class = classify(&fairness, info("GET", "/api/v1/pods"), &user("alice", &[]));
    assert_eq!(class.flow_schema(), "b");
}

const NAMES: [&str; 10] = [
    "alice",
    "*",
    "system:serviceaccount:a:b",
    "system:serviceaccount:a:",
    "system:serviceaccount:ab:c",
    "g1",
    "g2",
    "a",
    "b",
    "",
];
const VERBS: [&str; 3] = ["get", "list", "*"];
const GROUPS: [&str; 3] = ["", "apps", "*"];
const RESOURCES: [&str; 5] = ["pods", "pods/log", "*", "log", "pods/"];
const NAMESPACES: [&str; 3] = ["a", "b", "*"];
const URLS: [&str; 8] = ["/x", "/x/", "/x/*", "/x/y", "*", "/", "", "/x*"];

impl Lcg {
    fn one(&mut self, words: &[&str]) -> String {
        words[self.below(words.len() as u64) as usize].to_owned()
    }

    fn some(&mut self, words: &[&str]) -> Vec<String> {
        let n = 1 + self.below(2);
        (0..n).map(|_| self.one(words)).collect()
    }

    fn subject(&mut self) -> Subject {
        Subject {
            kind: self.one(&["User", "Group", "ServiceAccount", "Other"]),
            user: (self.below(8) > 0).then(|| UserSubject {
                name: self.one(&NAMES),
            }),
            group: (self.below(8) > 0).then(|| GroupSubject {
                name: self.one(&NAMES),
            }),
            service_account: (self.below(8) > 0).then(|| ServiceAccountSubject {
                namespace: self.one(&NAMES),
                name: self.one(&NAMES),
            }),
        }
    }

    fn rule(&mut self) -> PolicyRulesWithSubjects {
        let mut rule = PolicyRulesWithSubjects::default();
        for _ in 0..1 + self.below(3) {
            rule.subjects.push(self.subject());
        }
        for _ in 0..1 + self.below(3) {
            rule.resource_rules.push(ResourcePolicyRule {
                verbs: self.some(&VERBS),
                api_groups: self.some(&GROUPS),
                resources: self.some(&RESOURCES),
                namespaces: self.some(&NAMESPACES),
                cluster_scope: self.below(2) == 0,
            });
        }
        for _ in 0..1 + self.below(3) {
            rule.non_resource_rules.push(NonResourcePolicyRule {
                verbs: self.some(&VERBS),
                non_resource_urls: self.some(&URLS),
            });
        }
        rule
    }
}

/// Evaluates the same rules as k8s.io/apiserver v0.37.1 did, and expects the same
/// answers: their number, and their FNV-1a hash.
#[test]
fn rules_match_as_in_kube_apiserver() {
    let mut random = Lcg(11);
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    let mut count = 0;
    for _ in 0..60_000 {
        let rule = random.rule();
        let mut info = info("GET", "/api");
        info.is_resource_request = random.below(2) == 0;
        info.verb = random.one(&VERBS[..2]);
        info.gvr.group = random.one(&GROUPS[..2]);
        info.gvr.resource = random.one(&["pods", "nodes"]);
        info.subresource = random.one(&["", "log"]);
        info.namespace = random.one(&["", "a", "b", "c"]);
        info.path = random.one(&["/x", "/x/", "/x/y", "/x/y/z", "/", "/xy", ""]);
        let mut user = user(&random.one(&NAMES), &[]);
        user.groups = random.some(&NAMES);
        let matches = Rule::from_object(&rule).matches(&info, &user);
        count += u32::from(matches);
        sum = (sum ^ u64::from(matches)).wrapping_mul(0x0100_0000_01b3);
    }
    assert_eq!((count, sum), (3593, 0x7024_4533_031a_c660));
}
