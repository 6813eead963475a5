//! Finds out whom apifront may impersonate: everybody, or only subjects whom roles name. This
//! asks with SelfSubjectAccessReviews and a SelfSubjectRulesReview.

use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::rights::{may, one};
use super::{Finding, Section};

const SECTION: Section = Section::Rights;
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";

const IMPERSONATE: &str = "impersonate";

/// The resources that are impersonated by name.
const SUBJECTS: [&str; 3] = ["users", "groups", "serviceaccounts"];

/// The extra key that kube-apiserver gives to all users with certificates since
/// 1.32.
const EXTRA_KEY: &str = "userextras/authentication.kubernetes.io/credential-id";

const FOR_ANYBODY: &str = "apply examples/cluster/rbac-impersonate.yaml, which allows anybody, or \
                           name callers as deploy/kustomize/overlays/example/impersonate.yaml does";

/// The subjects that ClusterRoles name. Roles in namespaces are left out, because
/// any namespace could have some.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named(Vec<Rule>);

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    verbs: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

impl Named {
    /// Asks the API server. Without an answer, no subject is named.
    pub(super) async fn ask(client: &Client) -> Self {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": "default"},
        });
        let answer = client.post(RULES, &[], &review).await;
        let rules = answer.ok().and_then(|answer| {
            let mut told = answer.json()?;
            let rules = told.get_mut("status")?.get_mut("resourceRules")?.take();
            serde_json::from_value(rules).ok()
        });
        Self(rules.unwrap_or_default())
    }

    fn names(&self, resource: &str) -> impl Iterator<Item = &str> {
        let of = |list: &[String], word: &str| list.iter().any(|w| w == word);
        self.0
            .iter()
            .filter(move |rule| of(&rule.verbs, IMPERSONATE) && of(&rule.resources, resource))
            .flat_map(|rule| rule.resource_names.iter().map(String::as_str))
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.names("users").next()
    }

    pub(super) fn anybody(&self) -> bool {
        SUBJECTS.iter().any(|s| self.names(s).next().is_some())
    }
}

/// Examines the rights that `identity.mode: Impersonate` needs.
pub(super) async fn examine(client: &Client, named: &Named) -> Vec<Finding> {
    let mut findings = Vec::new();
    for resource in SUBJECTS {
        let finding = match may(client, "", resource, IMPERSONATE).await {
            Ok(false) if named.anybody() => narrow(resource, named.names(resource).count()),
            _ => one(client, "", resource, IMPERSONATE, FOR_ANYBODY).await,
        };
        findings.push(finding);
    }
    for resource in ["uids", EXTRA_KEY] {
        let group = "authentication.k8s.io";
        findings.push(one(client, group, resource, IMPERSONATE, FOR_ANYBODY).await);
    }
    findings
}

/// Returns the finding about a resource of which only some names are allowed.
fn narrow(resource: &str, names: usize) -> Finding {
    let found = match (resource, names) {
        ("serviceaccounts", 0) => {
            "allowed at most in some namespaces, by their own roles".to_owned()
        }
        (_, names) => format!("allowed for the {names} that roles name"),
    };
    let remedy = "that may be meant so: others read from memory, and are refused for all else";
    Finding::neutral(SECTION, format!("{IMPERSONATE} {resource}"), found).mended_by(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verb: &str, resource: &str, names: &[&str]) -> Rule {
        let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        Rule {
            verbs: owned(&[verb]),
            resources: owned(&[resource]),
            resource_names: owned(names),
        }
    }

    #[test]
    fn only_names_that_may_be_impersonated_count() {
        let named = Named(vec![
            rule("get", "users", &["adam"]),
            rule("impersonate", "groups", &["developers"]),
            rule("impersonate", "users", &["dora", "emil"]),
        ]);
        assert_eq!(named.names("users").collect::<Vec<_>>(), ["dora", "emil"]);
        assert_eq!(named.user(), Some("dora"));
        assert!(named.anybody());
        let nobody = Named(vec![rule("get", "users", &["adam"])]);
        assert!(!nobody.anybody());
        assert_eq!(nobody.user(), None);
    }
}
