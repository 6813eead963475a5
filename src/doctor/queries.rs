//! Can queries be asked? If they are on, somebody needs the right to.

use http::StatusCode;
use serde_json::Value;

use super::client::Client;
use super::{Finding, Section};
use crate::config::Config;
use crate::queries;

const SECTION: Section = Section::Queries;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles?resourceVersion=0";

pub(super) async fn examine(client: &Client, config: &Config) -> Vec<Finding> {
    if !config.queries.enabled {
        return Vec::new();
    }
    vec![group(client).await, askers(client).await]
}

/// Tells whether the API server has the group, too.
async fn group(client: &Client) -> Finding {
    let subject = format!("API group {}", queries::GROUP);
    match client.get(&format!("/apis/{}", queries::GROUP)).await {
        Ok(answer) if answer.status == StatusCode::NOT_FOUND => {
            Finding::good(SECTION, subject, "answered here, and by nobody else")
        }
        Ok(answer) if answer.status == StatusCode::OK => {
            let found = "the API server has it, too: its answers are hidden behind those from here";
            Finding::neutral(SECTION, subject, found)
        }
        Ok(answer) => {
            let found = format!("cannot be examined: {}", answer.error());
            Finding::neutral(SECTION, subject, found)
        }
        Err(error) => {
            let found = format!("cannot be examined: {error}");
            Finding::neutral(SECTION, subject, found)
        }
    }
}

/// Names the roles that let somebody ask.
async fn askers(client: &Client) -> Finding {
    let subject = "the right to ask queries";
    let unknown = |why: String| {
        let found = format!("cannot be examined: {why}");
        Finding::neutral(SECTION, subject, found)
    };
    let roles = match client.get(ROLES).await {
        Ok(answer) if answer.status == StatusCode::OK => answer.body,
        Ok(answer) => return unknown(answer.error()),
        Err(error) => return unknown(error.to_string()),
    };
    let roles: Value = match serde_json::from_slice(&roles) {
        Ok(roles) => roles,
        Err(error) => return unknown(error.to_string()),
    };
    let named = roles_for_queries(&roles);
    if named.is_empty() {
        let found = "no ClusterRole names it: only users who may do everything ask";
        let remedy = "bind a role with create of queries in query.apifront.dev, as \
                      docs/operations/queries.md has it";
        return Finding::neutral(SECTION, subject, found).mended_by(remedy);
    }
    Finding::good(SECTION, subject, format!("in {}", named.join(", ")))
}

/// Returns the names of the roles that name the group.
fn roles_for_queries(roles: &Value) -> Vec<&str> {
    let has = |rule: &Value, list: &str, wanted: &str| {
        let values = rule.get(list).and_then(Value::as_array);
        let mut values = values.into_iter().flatten().filter_map(Value::as_str);
        values.any(|value| value == wanted || value == "*")
    };
    let names_group = |rule: &Value| {
        let groups = rule.get("apiGroups").and_then(Value::as_array);
        let mut groups = groups.into_iter().flatten().filter_map(Value::as_str);
        groups.any(|group| group == queries::GROUP)
    };
    let resource = queries::queries().resource;
    let may_ask = |rule: &Value| {
        names_group(rule) && has(rule, "resources", &resource) && has(rule, "verbs", "create")
    };
    let items = roles.get("items").and_then(Value::as_array);
    let items = items.into_iter().flatten();
    let found = items.filter(|role| {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().any(may_ask)
    });
    found
        .filter_map(|role| role.pointer("/metadata/name")?.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_that_name_the_group_are_found() {
        let role = |name: &str, group: &str, resource: &str, verb: &str| {
            let rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] });
            json!({ "metadata": { "name": name }, "rules": [rule] })
        };
        let roles = json!({ "items": [
            role("all", "*", "*", "*"),
            role("ask", "query.apifront.dev", "queries", "create"),
            role("own", "query.apifront.dev", "*", "*"),
            role("read", "query.apifront.dev", "queries", "get"),
            { "metadata": { "name": "aggregated" }, "rules": null },
        ]});
        assert_eq!(roles_for_queries(&roles), ["ask", "own"]);
        assert!(roles_for_queries(&json!({})).is_empty());
    }
}
