//! Finds out what apifront itself may do at the API server. This asks with
//! SelfSubjectAccessReviews.

use apifront_watch_cache::Settings;
use futures::StreamExt;
use futures::stream;
use kubernetes_wire::api::GroupVersionResource;
use serde_json::json;

use super::client::Client;
use super::impersonation::{self, Named};
use super::{Finding, Section};
use crate::config::{Access, Config, Identity};
use crate::flow;

const SECTION: Section = Section::Rights;
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

const AT_ONCE: usize = 8;

/// The most resources that one line names.
const MAX_NAMED_RESOURCES: usize = 8;

const READ: [&str; 3] = ["get", "list", "watch"];

const RBAC: &str = "apply examples/cluster/rbac.yaml, or the rbac of the chart";

/// `resources` are those that can be cached. `named` are the subjects whom roles
/// allow to impersonate.
pub(super) async fn examine(
    client: &Client,
    config: &Config,
    resources: &[GroupVersionResource],
    named: &Named,
) -> Vec<Finding> {
    let mut findings = vec![own_name(client).await];
    findings.push(reads(client, &config.cache, resources).await);
    if config.flow.enable_priority_and_fairness {
        findings.push(flow_schemas(client).await);
    }
    let Access::Delegated(delegated) = &config.access else {
        return findings;
    };
    let mut needed = vec![("authorization.k8s.io", "subjectaccessreviews", "create")];
    if delegated.authentication.token_review.is_some() {
        needed.push(("authentication.k8s.io", "tokenreviews", "create"));
    }
    for (group, resource, verb) in needed {
        findings.push(one(client, group, resource, verb, RBAC).await);
    }
    if delegated.identity == Identity::Impersonate {
        findings.extend(impersonation::examine(client, named).await);
    }
    findings
}

async fn own_name(client: &Client) -> Finding {
    let subject = "apifront's own user";
    match client.who(&[]).await {
        Ok(answer) => match answer.user() {
            Some(name) => Finding::good(SECTION, subject, format!("{name:?}")),
            None => Finding::neutral(SECTION, subject, format!("is not told: {}", answer.error())),
        },
        Err(error) => Finding::neutral(SECTION, subject, format!("is not told: {error}")),
    }
}

/// Asks for one right. `Err` is the reason why there was no decision.
pub(super) async fn may(
    client: &Client,
    group: &str,
    resource: &str,
    verb: &str,
) -> Result<bool, String> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "group": group, "resource": resource, "subresource": subresource, "verb": verb,
        }},
    });
    let answer = client.post(REVIEWS, &[], &review).await?;
    let told = answer.json();
    let allowed = told
        .as_ref()
        .and_then(|told| told.get("status")?.get("allowed")?.as_bool());
    allowed.ok_or_else(|| answer.error())
}

/// Examines one right that is needed.
pub(super) async fn one(
    client: &Client,
    group: &str,
    resource: &str,
    verb: &str,
    remedy: &str,
) -> Finding {
    let subject = match group {
        "" => format!("{verb} {resource}"),
        group => format!("{verb} {resource}.{group}"),
    };
    match may(client, group, resource, verb).await {
        Ok(true) => Finding::good(SECTION, subject, "allowed"),
        Ok(false) => Finding::fault(SECTION, subject, "not allowed").mended_by(remedy),
        Err(error) => Finding::fault(SECTION, subject, format!("not decided: {error}"))
            .mended_by("see whether the API server authorizes at all"),
    }
}

/// Examines the right to read the objects by which requests are classified.
async fn flow_schemas(client: &Client) -> Finding {
    let subject = "get, list and watch flow schemas and priority levels";
    for gvr in [flow::flow_schemas(), flow::priority_levels()] {
        for verb in READ {
            if may(client, &gvr.group, &gvr.resource, verb).await != Ok(true) {
                let found = format!(
                    "may not {verb} {}: those of a new cluster apply",
                    gvr.resource
                );
                return Finding::neutral(SECTION, subject, found).mended_by(RBAC);
            }
        }
    }
    Finding::good(SECTION, subject, "allowed")
}

/// Examines the right to read everything that may be cached.
async fn reads(client: &Client, cache: &Settings, resources: &[GroupVersionResource]) -> Finding {
    let subject = "get, list and watch what is cached";
    let mut everything = true;
    for verb in READ {
        everything = everything && may(client, "*", "*", verb).await == Ok(true);
    }
    if everything {
        return Finding::good(SECTION, subject, "allowed for all resources");
    }
    let asked = resources.iter().map(|gvr| async move {
        for verb in READ {
            if may(client, &gvr.group, &gvr.resource, verb).await != Ok(true) {
                return Some(gvr);
            }
        }
        None
    });
    let asked: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let refused: Vec<_> = asked.into_iter().flatten().collect();
    let allowed = resources.len().saturating_sub(refused.len());
    if refused.is_empty() {
        return Finding::good(SECTION, subject, format!("allowed for {allowed} resources"));
    }
    let names = names(refused.iter().map(|gvr| gvr.group_resource().to_string()));
    let wanted = |gvr: &&&GroupVersionResource| cache.preload.iter().any(|p| p.matches(gvr));
    let preloaded = refused.iter().find(wanted);
    if allowed == 0 {
        let found = "not allowed for any resource: everything is forwarded";
        return Finding::fault(SECTION, subject, found).mended_by(RBAC);
    }
    if let Some(gvr) = preloaded {
        let found = format!("not allowed for {gvr}, which cache.preload names");
        return Finding::fault(SECTION, subject, found).mended_by(RBAC);
    }
    let found = format!("allowed for {allowed} resources. Forwarded are {names}");
    let remedy =
        "that may be meant so; otherwise allow apifront's user get, list and watch of them";
    Finding::neutral(SECTION, subject, found).mended_by(remedy)
}

/// Joins names. Those that are too many for a line are only counted.
pub(super) fn names(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED_RESOURCES);
    let joined = names
        .take(MAX_NAMED_RESOURCES)
        .collect::<Vec<_>>()
        .join(", ");
    match more {
        0 => joined,
        more => format!("{joined} and {more} more"),
    }
}
