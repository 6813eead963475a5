//! Are the claims of `cache.aggregated` about extension API servers true, as far as
//! one can ask? Only some callers can be tried, so shadow mode compares the answers
//! to real callers.

mod answers;

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use serde_json::Value;

use self::answers::{Answers, Shown};
use super::api_server::Reached;
use super::client::Client;
use super::{Finding, Section};
use crate::aggregation;
use crate::config::{Access, Config, Identity};

const SECTION: Section = Section::Backends;

/// The resources that are examined at the same time, and in total.
const AT_ONCE: usize = 4;
const AT_MOST: usize = 200;

/// The attempts to read a resource that changes meanwhile.
const MAX_TRIES: usize = 3;

/// The namespaces (besides those of every cluster) and the objects that are read one
/// by one.
const MAX_SAMPLED_NAMESPACES: usize = 4;
const MAX_SAMPLED_OBJECTS: usize = 5;

/// Namespaces of every cluster. Their lists may hold objects that the list of
/// everything lacks.
const COMMON: [&str; 2] = ["default", "kube-system"];

const NAME: &str = "apifront-doctor";

/// The groups of the other caller. The first may list everything; the second
/// perhaps, depending on the cluster.
const GROUPS: [&str; 2] = ["system:masters", "system:authenticated"];

type Headers = Vec<(String, String)>;

struct Ways {
    own: Client,
    /// `None` if apifront may not ask as another caller.
    caller: Option<(Client, [Headers; 2])>,
}

impl Ways {
    fn new(server: &apifront_upstream::Server, prefix: Option<&str>) -> Result<Self, String> {
        let headers = |prefix: &str, group: &str| {
            let named = [("User", NAME), ("Group", group)];
            let named = named.map(|(field, value)| (format!("{prefix}-{field}"), value.to_owned()));
            named.to_vec()
        };
        let caller = match prefix {
            Some(prefix) => {
                let client = Client::new(&server.forward)?;
                Some((client, GROUPS.map(|group| headers(prefix, group))))
            }
            None => None,
        };
        let own = Client::new(&server.own)?;
        Ok(Self { own, caller })
    }
}

/// Examines the resources behind the cluster's own aggregator. `remote` are the
/// group versions that the API server does not serve itself.
pub(super) async fn of_the_cluster(
    first: &Reached,
    config: &Config,
    known: &[GroupVersionResource],
    remote: &BTreeSet<GroupVersion>,
) -> Vec<Finding> {
    let prefix = match &config.access {
        Access::Owner => None,
        Access::Delegated(delegated) => match &delegated.identity {
            Identity::PassThrough => None,
            Identity::RequestHeader(_) => Some("X-Remote"),
            Identity::Impersonate => Some("Impersonate"),
        },
    };
    let claimed = known
        .iter()
        .filter(|gvr| remote.contains(&gvr.group_version()));
    examine(config, &first.server, prefix, claimed).await
}

pub(super) async fn configured(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for service in &config.aggregation.api_services {
        // The finding about the backend has told the reason.
        let Ok(Some(server)) = aggregation::first_server(&config.aggregation, service) else {
            continue;
        };
        let Ok(client) = Client::new(&server.own) else {
            continue;
        };
        let known = discover(&client, &service.group_version).await;
        findings.extend(examine(config, &server, Some("X-Remote"), known.iter()).await);
    }
    findings
}

/// Returns the resources of a group version that can be listed and watched.
async fn discover(client: &Client, of: &GroupVersion) -> Vec<GroupVersionResource> {
    let answer = client.get(&of.path()).await.ok();
    let document = answer.and_then(|answer| answer.json()).unwrap_or_default();
    let resources = document.get("resources").and_then(Value::as_array);
    let watched = resources.into_iter().flatten().filter_map(|resource| {
        let verbs = resource.get("verbs")?.as_array()?;
        let has = |verb: &str| verbs.iter().any(|v| v == verb);
        let name = resource.get("name")?.as_str()?;
        (has("list") && has("watch"))
            .then(|| GroupVersionResource::new(&of.group, &of.version, name))
    });
    watched.collect()
}

async fn examine<'g>(
    config: &Config,
    server: &apifront_upstream::Server,
    prefix: Option<&str>,
    resources: impl Iterator<Item = &'g GroupVersionResource>,
) -> Vec<Finding> {
    let claimed = resources
        .filter(|gvr| config.cache.trusts(gvr))
        .take(AT_MOST);
    let claimed: Vec<_> = claimed.collect();
    if claimed.is_empty() {
        return Vec::new();
    }
    let ways = match Ways::new(server, prefix) {
        Ok(ways) => ways,
        Err(error) => return vec![Finding::fault(SECTION, "cache.aggregated", error)],
    };
    let examined = claimed
        .into_iter()
        .map(|gvr| async { finding(gvr, ask(&ways, gvr).await) });
    stream::iter(examined).buffered(AT_ONCE).collect().await
}

fn finding(gvr: &GroupVersionResource, answers: Result<Answers, String>) -> Finding {
    let subject = gvr.group_resource().to_string();
    let answers = match answers {
        Ok(answers) => answers,
        Err(why) => {
            let found = format!("named in cache.aggregated, and not examined: {why}");
            return Finding::neutral(SECTION, subject, found);
        }
    };
    if let Some(why) = answers.refutation() {
        let found = format!("cache.aggregated is wrong to name it: {why}");
        let remedy = "take it out of cache.aggregated, so that reads of it are forwarded; \
                      callers would be shown what its server does not show them";
        return Finding::fault(SECTION, subject, found).mended_by(remedy);
    }
    match answers.others.is_empty() {
        false => {
            let found = "what cache.aggregated says is so, as far as one can ask";
            Finding::good(SECTION, subject, found)
        }
        true => {
            let found = "named in cache.aggregated; not asked for as another caller, who may be \
                         shown something else";
            let remedy = "run it in shadow mode, which compares what callers are shown";
            Finding::neutral(SECTION, subject, found).mended_by(remedy)
        }
    }
}

/// Asks again until nothing changed meanwhile.
async fn ask(ways: &Ways, gvr: &GroupVersionResource) -> Result<Answers, String> {
    for _ in 0..MAX_TRIES {
        let answers = ask_once(ways, gvr).await?;
        if list(&ways.own, &gvr.path(), &[]).await? == answers.all {
            return Ok(answers);
        }
    }
    Err("it changes all the time".to_owned())
}

async fn ask_once(ways: &Ways, gvr: &GroupVersionResource) -> Result<Answers, String> {
    let path = gvr.path();
    let all = list(&ways.own, &path, &[]).await?;
    let mut answers = Answers {
        all,
        ..Answers::default()
    };
    if let Some((client, callers)) = &ways.caller {
        for (group, headers) in GROUPS.iter().zip(callers) {
            if let Ok(shown) = list(client, &path, headers).await {
                answers.others.push((group, shown));
            }
        }
    }
    for namespace in answers.namespaces() {
        let root = gvr.group_version().path();
        let path = format!("{root}/namespaces/{namespace}/{}", gvr.resource);
        if let Ok(shown) = list(&ways.own, &path, &[]).await {
            answers.by_namespace.push((namespace, shown));
        }
    }
    for key in answers.keys().into_iter().take(MAX_SAMPLED_OBJECTS) {
        let root = gvr.group_version().path();
        let path = match key.split_once('/') {
            Some((namespace, name)) => {
                format!("{root}/namespaces/{namespace}/{}/{name}", gvr.resource)
            }
            None => format!("{path}/{key}"),
        };
        let answer = ways.own.get(&path).await?;
        let object = answer.status.is_success().then(|| answer.json()).flatten();
        answers.objects.push((key, object));
    }
    Ok(answers)
}

async fn list(client: &Client, path: &str, headers: &[(String, String)]) -> Result<Shown, String> {
    let answer = client.get_with(path, headers).await?;
    let document = answer.json().filter(|_| answer.status.is_success());
    let mut document = document.ok_or_else(|| answer.error())?;
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(Shown(items)),
        // Go writes a nil slice as null.
        Some(Value::Null) => Ok(Shown(Vec::new())),
        _ => Err("the answer is not a list".to_owned()),
    }
}
