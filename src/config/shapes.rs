//! `shapes`: the reads that are answered in another shape than their clients ask for.

use std::collections::BTreeSet;

use super::cache::patterns;
use super::check::Check;
use super::raw;
use crate::authz::NamedCallers;
use crate::shapes::{ManagedFields, ShapeRule};

/// Each read is compared with all rules, and each rule has metrics of its own.
const MAX_RULES: usize = 100;

/// The longest name, which is a metric's label.
const MAX_NAME_BYTES: usize = 63;

pub(super) fn check(raw: &[raw::ShapeRule], check: &mut Check) -> Vec<ShapeRule> {
    if raw.len() > MAX_RULES {
        let problem = format!("must have at most {MAX_RULES} rules");
        check.error("shapes", &raw.len().to_string(), &problem);
    }
    let mut names = BTreeSet::new();
    let rules = raw.iter().zip(0..).take(MAX_RULES);
    rules
        .map(|(raw, i)| {
            let rule = rule(&format!("shapes[{i}]"), raw, check);
            if !rule.name.is_empty() && !names.insert(rule.name.clone()) {
                check.error(&format!("shapes[{i}].name"), &rule.name, "must be unique");
            }
            rule
        })
        .collect()
}

fn rule(field: &str, raw: &raw::ShapeRule, check: &mut Check) -> ShapeRule {
    let at = |name: &str| format!("{field}.{name}");
    let name = raw.name.clone().unwrap_or_default();
    let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_label) {
        let problem = "must be 1 to 63 letters, digits, '-', '_' or '.'";
        check.error(&at("name"), &name, problem);
    }
    if raw.managed_fields.is_none() {
        check.error(&at("managedFields"), "", "needed: Drop or Keep");
    }
    let texts = |name: &str, given: &Option<Vec<String>>, check: &mut Check| {
        let given = given.clone().unwrap_or_default();
        if given.iter().any(String::is_empty) {
            check.error(&at(name), "", "must not have an empty text");
        }
        given
    };
    let callers = NamedCallers {
        users: texts("users", &raw.users, check),
        groups: texts("groups", &raw.groups, check),
    };
    let user_agents = texts("userAgents", &raw.user_agents, check);
    let callers = match callers.users.is_empty() && callers.groups.is_empty() {
        true => None,
        false => Some(callers),
    };
    if callers.is_none() && user_agents.is_empty() {
        let problem = "must name users, groups or userAgents; groups: ['*'] is everybody";
        check.error(field, &name, problem);
    }
    let resources = patterns(&at("resources"), &raw.resources, &["*"], check);
    if resources.is_empty() && raw.resources.iter().all(Vec::is_empty) {
        check.error(&at("resources"), "", "must name a resource");
    }
    ShapeRule {
        name,
        callers,
        user_agents,
        resources,
        managed_fields: check.one_of(
            &at("managedFields"),
            &raw.managed_fields,
            ManagedFields::Keep,
            &[("Drop", ManagedFields::Drop), ("Keep", ManagedFields::Keep)],
        ),
    }
}
