//! Reads a policy file, an unmodified `audit.k8s.io/v1` Policy, as kube-apiserver
//! does. Unknown and repeated fields cause only warnings, because kube-apiserver
//! accepts them. Files that fail its validation are refused.

use std::path::Path;

use kubernetes_wire::api::dns_name::is_dns_subdomain;
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::level::{Level, Stage, Stages};
use super::policy::{Decision, GroupResources, PathPattern, Policy, ResourcePattern, Rule, Target};
use crate::config_errors::{ConfigErrors, FieldError};
use crate::config_file::{self, Format};

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";

/// A policy has a depth of 5. Annotations in `metadata` may need more.
const FORMAT: Format = Format {
    max_depth: 16,
    max_nodes: 200_000,
    duplicate_keys: DuplicateKeyPolicy::LastWins,
};

/// Reads a policy file. Returns all errors in it at once.
pub(super) fn load(file: &Path) -> Result<Policy, ConfigErrors> {
    let errors = |errors| ConfigErrors {
        file: Some(file.to_owned()),
        errors,
    };
    let text = config_file::text(file)
        .map_err(|problem| ConfigErrors::one(Some(file.to_owned()), problem))?;
    let (policy, warnings) = parse(&text).map_err(errors)?;
    for warning in warnings {
        tracing::warn!(file = %file.display(), "audit policy: {warning}");
    }
    Ok(policy)
}

/// Returns the policy, and warnings about the parts without effect.
pub(super) fn parse(text: &str) -> Result<(Policy, Vec<FieldError>), Vec<FieldError>> {
    let document = FORMAT.parse(text)?;
    let mut reader = Reader::default();
    let policy = reader.policy(&document);
    match policy {
        Some(policy) if reader.errors.is_empty() => Ok((policy, reader.warnings)),
        _ => Err(reader.errors),
    }
}

/// Collects errors while it reads on.
#[derive(Default)]
struct Reader {
    errors: Vec<FieldError>,
    warnings: Vec<FieldError>,
}

impl Reader {
    fn error(&mut self, field: impl Into<String>, value: impl ToString, problem: &str) {
        self.errors.push(FieldError {
            field: field.into(),
            value: value.to_string(),
            problem: problem.to_owned(),
        });
    }

    fn policy(&mut self, document: &Value) -> Option<Policy> {
        let Some(policy) = document.as_object() else {
            self.errors
                .push(FieldError::of_file(format!("is no {API_VERSION} {KIND}")));
            return None;
        };
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            match policy.get(field).and_then(Value::as_str) {
                Some(found) if found == expected => {}
                found => self.error(
                    field,
                    found.unwrap_or_default(),
                    &format!("must be {expected}"),
                ),
            }
        }
        self.known(
            "",
            policy,
            &[
                "apiVersion",
                "kind",
                "metadata",
                "rules",
                "omitStages",
                "omitManagedFields",
            ],
        );
        let omit_stages = self.stages("omitStages", policy.get("omitStages"));
        let omit_managed_fields = self
            .bool("omitManagedFields", policy.get("omitManagedFields"))
            .unwrap_or(false);
        let rules = self.list("rules", policy.get("rules"));
        if rules.is_empty() && self.errors.is_empty() {
            self.error(
                "rules",
                "",
                "needed: a policy without rules records nothing",
            );
        }
        let rules = (0..)
            .zip(rules)
            .filter_map(|(i, rule)| {
                self.rule(
                    &format!("rules[{i}]"),
                    rule,
                    omit_stages,
                    omit_managed_fields,
                )
            })
            .collect();
        Some(Policy::new(rules, omit_stages, omit_managed_fields))
    }

    fn rule(&mut self, at: &str, rule: &Value, omit: Stages, fields: bool) -> Option<Rule> {
        let rule = self.object(at, rule)?;
        self.known(
            at,
            rule,
            &[
                "level",
                "users",
                "userGroups",
                "verbs",
                "resources",
                "namespaces",
                "nonResourceURLs",
                "omitStages",
                "omitManagedFields",
            ],
        );
        let level = self.level(&format!("{at}.level"), rule.get("level"));
        let mut texts = |name: &str| self.texts(&format!("{at}.{name}"), rule.get(name));
        let (users, groups, verbs) = (texts("users"), texts("userGroups"), texts("verbs"));
        let (namespaces, urls) = (texts("namespaces"), texts("nonResourceURLs"));
        let stages = self.stages(&format!("{at}.omitStages"), rule.get("omitStages"));
        let omit_managed_fields = self.bool(
            &format!("{at}.omitManagedFields"),
            rule.get("omitManagedFields"),
        );
        let resources = self.resources(&format!("{at}.resources"), rule.get("resources"));
        self.check_urls(&format!("{at}.nonResourceURLs"), &urls);
        let of_resources = !resources.is_empty() || !namespaces.is_empty();
        if of_resources && !urls.is_empty() {
            self.error(
                format!("{at}.nonResourceURLs"),
                urls.join(", "),
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        let target = if of_resources {
            Target::Resources {
                namespaces,
                resources,
            }
        } else if urls.is_empty() {
            Target::Everything
        } else {
            Target::Paths(urls.iter().map(|u| PathPattern::parse(u)).collect())
        };
        Some(Rule {
            decision: Decision {
                level: level?,
                omit_stages: omit.union(stages),
                omit_managed_fields: omit_managed_fields.unwrap_or(fields),
            },
            users,
            groups,
            verbs,
            target,
        })
    }

    fn level(&mut self, at: &str, level: Option<&Value>) -> Option<Level> {
        let text = level.and_then(Value::as_str).unwrap_or_default();
        let found = Level::ALL.into_iter().find(|l| l.as_str() == text);
        if found.is_none() {
            let known: Vec<&str> = Level::ALL.iter().map(|l| l.as_str()).collect();
            self.error(at, text, &format!("must be one of {}", known.join(", ")));
        }
        found
    }

    fn stages(&mut self, at: &str, list: Option<&Value>) -> Stages {
        let texts = self.texts(at, list);
        let mut stages = Stages::default();
        for (i, text) in texts.iter().enumerate() {
            match Stage::ALL.into_iter().find(|s| s.as_str() == text) {
                Some(stage) => stages = stages.with(stage),
                None => {
                    let known: Vec<&str> = Stage::ALL.iter().map(|s| s.as_str()).collect();
                    let problem = format!("must be one of {}", known.join(", "));
                    self.error(format!("{at}[{i}]"), text, &problem);
                }
            }
        }
        stages
    }

    fn check_urls(&mut self, at: &str, urls: &[String]) {
        for (i, url) in urls.iter().enumerate() {
            if url == "*" {
                continue;
            }
            if !url.starts_with('/') {
                self.error(format!("{at}[{i}]"), url, "must begin with a '/'");
            }
            let inner = url.strip_suffix('*').unwrap_or(url);
            if inner.contains('*') {
                let problem = "a wildcard '*' must be the final character";
                self.error(format!("{at}[{i}]"), url, problem);
            }
        }
    }

    fn resources(&mut self, at: &str, list: Option<&Value>) -> Vec<GroupResources> {
        let items = self.list(at, list);
        (0..)
            .zip(items)
            .filter_map(|(i, item)| self.group_resources(&format!("{at}[{i}]"), item))
            .collect()
    }

    fn group_resources(&mut self, at: &str, item: &Value) -> Option<GroupResources> {
        let item = self.object(at, item)?;
        self.known(at, item, &["group", "resources", "resourceNames"]);
        let group = match item.get("group") {
            None | Some(Value::Null) => "",
            Some(Value::String(group)) => group,
            Some(other) => {
                self.error(format!("{at}.group"), other, "must be a string");
                ""
            }
        };
        if !matches!(group, "" | "*") && !is_dns_subdomain(group) {
            let problem = "must be the name of an API group, without its version";
            self.error(format!("{at}.group"), group, problem);
        }
        let resources = self.texts(&format!("{at}.resources"), item.get("resources"));
        let names = self.texts(&format!("{at}.resourceNames"), item.get("resourceNames"));
        if !names.is_empty() && resources.is_empty() {
            self.error(
                format!("{at}.resourceNames"),
                names.join(", "),
                "using resourceNames requires at least one resource",
            );
        }
        Some(GroupResources {
            group: (group != "*").then(|| group.to_owned()),
            resources: resources
                .iter()
                .map(|r| ResourcePattern::parse(r))
                .collect(),
            names,
        })
    }

    fn object<'v>(&mut self, at: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        let object = value.as_object();
        if object.is_none() {
            self.error(at, value, "must be an object");
        }
        object
    }

    fn list<'v>(&mut self, at: &str, value: Option<&'v Value>) -> &'v [Value] {
        match value {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.error(at, other, "must be a list");
                &[]
            }
        }
    }

    fn texts(&mut self, at: &str, value: Option<&Value>) -> Vec<String> {
        let mut texts = Vec::new();
        for (i, item) in self.list(at, value).iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                Value::Null => texts.push(String::new()),
                other => self.error(format!("{at}[{i}]"), other, "must be a string"),
            }
        }
        texts
    }

    fn bool(&mut self, at: &str, value: Option<&Value>) -> Option<bool> {
        match value {
            None | Some(Value::Null) => None,
            Some(Value::Bool(value)) => Some(*value),
            Some(other) => {
                self.error(at, other, "must be true or false");
                None
            }
        }
    }

    fn known(&mut self, at: &str, object: &Map<String, Value>, fields: &[&str]) {
        for field in object.keys().filter(|f| !fields.contains(&f.as_str())) {
            let dot = if at.is_empty() { "" } else { "." };
            self.warnings.push(FieldError {
                field: format!("{at}{dot}{field}"),
                value: String::new(),
                problem: "unknown field, without effect".to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_take_over_what_the_policy_says_for_all() {
        let (policy, warnings) = parse(
            "apiVersion: audit.k8s.io/v1\n\
             kind: Policy\n\
             metadata: {name: x}\n\
             omitStages: [RequestReceived]\n\
             omitManagedFields: true\n\
             rules:\n\
             - level: Request\n  omitStages: [Panic]\n  omitManagedFields: false\n\
             - level: Metadata\n  colour: red\n",
        )
        .unwrap();
        let first = policy.rules[0].decision;
        assert_eq!(first.level, Level::Request);
        assert!(first.omit_stages.contains(Stage::RequestReceived));
        assert!(first.omit_stages.contains(Stage::Panic));
        assert!(!first.omit_stages.contains(Stage::ResponseComplete));
        assert!(!first.omit_managed_fields);
        assert!(policy.rules[1].decision.omit_managed_fields);
        assert_eq!(warnings[0].field, "rules[1].colour");
    }

    #[test]
    fn errors_name_field_and_value() {
        let with = |rule: &str| {
            let text =
                format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n{rule}");
            let errors = parse(&text).expect_err(rule);
            let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
            text.join("\n")
        };
        for (rule, field, value) in [
            ("- level: Everything", "rules[1].level", "Everything"),
            ("- users: [a]", "rules[1].level", "None, Metadata"),
            (
                "- {level: None, omitStages: [Start]}",
                "rules[1].omitStages[0]",
                "Start",
            ),
            (
                "- {level: None, nonResourceURLs: [healthz]}",
                "rules[1].nonResourceURLs[0]",
                "healthz",
            ),
            (
                "- {level: None, nonResourceURLs: ['/a*/b']}",
                "rules[1].nonResourceURLs[0]",
                "/a*/b",
            ),
            (
                "- {level: None, nonResourceURLs: [/a], namespaces: [b]}",
                "rules[1].nonResourceURLs",
                "/a",
            ),
            (
                "- {level: None, resources: [{group: apps/v1}]}",
                "rules[1].resources[0].group",
                "apps/v1",
            ),
            (
                "- {level: None, resources: [{resourceNames: [a]}]}",
                "rules[1].resources[0].resourceNames",
                "a",
            ),
            ("- {level: None, users: bob}", "rules[1].users", "bob"),
            ("- {level: None, verbs: [{}]}", "rules[1].verbs[0]", "{}"),
            ("omitManagedFields: 1", "omitManagedFields", "1"),
        ] {
            let said = with(rule);
            assert!(
                said.contains(field) && said.contains(value),
                "{rule}: {said}"
            );
        }
        for text in [
            "",
            "[]",
            "apiVersion: audit.k8s.io/v1\nkind: Policy",
            "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]",
            "{",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
