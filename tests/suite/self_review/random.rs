//! Asks kube-apiserver, and apifront with and without views, random questions of
//! many users with random rights.
//!
//! `APIFRONT_TEST_SEED` replays a run, and `APIFRONT_TEST_QUESTIONS` is the number
//! of questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use kubernetes_wire::api::Attributes;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::asking::{ask, in_protobuf, is_remembered, last_field, of_spec, timeless};
use crate::degraded::rbac::{USER_GROUPS, USERS, attributes, create, settled};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, grant};
use crate::harness::differential::compare;
use crate::harness::media_types::{JSON, PROTOBUF, YAML};
use crate::harness::objects::{role, role_binding};
use crate::harness::{pace, volume};

const QUESTIONS: usize = 3_000;
const AT_A_TIME: usize = 16;

/// The beginning of the reason for a right by a view.
const OF_VIEW: &str = "apifront: a view of ";

/// The reason for a right is any binding that grants it: kube-apiserver looks at
/// them in no order. So kube-apiserver is asked again until it gives the compared
/// reason. A binding that comes right after another in its memory is the first one
/// in one of some hundred tries.
const TRIES: usize = 1500;

/// The tries until a question and its list agree. A resource may have to be read
/// into memory first.
const TRIES_TO_AGREE: usize = 60;

/// Existing resources.
const WITH_LISTS: [(&str, &str); 5] = [
    ("", "pods"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("apps", "deployments"),
    ("rbac.authorization.k8s.io", "clusterroles"),
];

/// The namespaced ones.
const NAMESPACED: [&str; 4] = ["pods", "secrets", "serviceaccounts", "deployments"];

const VIEWED: &str = "nobody";

/// One user's clients of the servers.
struct Asker {
    direct: Client,
    plain: Client,
    viewer: Client,
}

struct Question {
    asker: Arc<Asker>,
    content_type: &'static str,
    accept: &'static str,
    body: Vec<u8>,
    /// The path of the list or watch in question, if the question is about a whole
    /// resource.
    whole: Option<String>,
    again: bool,
}

#[derive(Default)]
struct Tally {
    remembered: AtomicUsize,
    viewed: AtomicUsize,
    reasons: AtomicUsize,
}

fn spec(random: &mut StdRng, attributes: &Attributes) -> Value {
    let mut spec = match attributes {
        Attributes::NonResource { verb, path } => {
            json!({"nonResourceAttributes": {"verb": verb, "path": path}})
        }
        Attributes::Resource {
            verb,
            gvr,
            namespace,
            name,
            subresource,
            ..
        } => {
            let version = *["", "v1", "*", "v9"].choose(random).expect("versions");
            json!({"resourceAttributes": {
                "verb": verb, "group": gvr.group, "version": version, "resource": gvr.resource,
                "namespace": namespace, "name": name, "subresource": subresource,
            }})
        }
    };
    let selector = json!({"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]});
    match random.random_range(0..40) {
        0 => spec["new"] = json!(1),
        1 => spec["nonResourceAttributes"] = json!({"verb": "get", "path": "/"}),
        2 if spec["resourceAttributes"].is_object() => {
            spec["resourceAttributes"]["labelSelector"] = selector;
        }
        3 if spec["resourceAttributes"].is_object() => {
            spec["resourceAttributes"]["fieldSelector"] = selector;
        }
        4 => spec = json!({}),
        _ => {}
    }
    spec
}

/// Returns the path of a spec's list or watch, if it is about a whole resource.
fn whole(spec: &Value) -> Option<String> {
    let asked = &spec["resourceAttributes"];
    let text = |name: &str| asked[name].as_str().unwrap_or_default();
    let is_whole = matches!(text("verb"), "list" | "watch")
        && ["namespace", "name", "subresource"]
            .map(text)
            .concat()
            .is_empty()
        && asked["labelSelector"].is_null()
        && asked["fieldSelector"].is_null()
        && spec["new"].is_null()
        && spec["nonResourceAttributes"].is_null();
    let version = Some(text("version")).filter(|version| version.starts_with('v'));
    let version = version.unwrap_or("v1");
    let group = match text("group") {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let suffix = if text("verb") == "watch" {
        "?watch=1&timeoutSeconds=1"
    } else {
        ""
    };
    is_whole.then(|| format!("{group}/{}{suffix}", text("resource")))
}

fn question(random: &mut StdRng, askers: &[Arc<Asker>]) -> Question {
    let mut attributes = attributes(random);
    // Views concern these.
    if random.random_bool(0.2)
        && let Attributes::Resource {
            verb,
            gvr,
            namespace,
            name,
            subresource,
            ..
        } = &mut attributes
    {
        (gvr.group, gvr.resource) = {
            let (group, resource) = WITH_LISTS.choose(random).expect("resources");
            ((*group).to_owned(), (*resource).to_owned())
        };
        *verb = (*["list", "watch"].choose(random).expect("verbs")).to_owned();
        for text in [namespace, name, subresource] {
            text.clear();
        }
    }
    let spec = spec(random, &attributes);
    let whole = whole(&spec);
    let text = of_spec(spec).to_string();
    let message = in_protobuf(&text).filter(|_| random.random_bool(0.3));
    let (content_type, body) = match message {
        Some(message) => (PROTOBUF, message),
        None => (JSON, text.into_bytes()),
    };
    Question {
        asker: askers.choose(random).expect("askers").clone(),
        content_type,
        accept: [JSON, JSON, PROTOBUF, YAML]
            .choose(random)
            .expect("encodings"),
        body,
        whole,
        again: random.random_bool(0.3),
    }
}

/// Returns the difference between the answers. Ignores the reason of a right, and
/// the order in which kube-apiserver names missing roles.
async fn difference(question: &Question, ours: &Answer, tally: &Tally) -> String {
    let mut found = String::new();
    for n in 0..TRIES {
        let theirs = asked(&question.asker.direct, question).await;
        found = compare(&timeless(&theirs), &timeless(ours));
        let is_same =
            found.is_empty() || tells(&theirs).is_some_and(|told| tells(ours) == Some(told));
        if is_same {
            return String::new();
        }
        tally
            .reasons
            .fetch_add(usize::from(n == 0), Ordering::Relaxed);
    }
    found
}

/// Returns the bytes of an answer that names missing roles, sorted. YAML breaks the
/// text into lines.
fn tells(answer: &Answer) -> Option<Vec<u8>> {
    let mut bytes = timeless(answer).body.to_vec();
    if !answer.text().contains("rbac: RBAC: [") {
        return None;
    }
    if answer.header("content-type") == YAML {
        bytes.retain(|byte| !byte.is_ascii_whitespace());
    }
    bytes.sort_unstable();
    Some(bytes)
}

async fn asked(client: &Client, question: &Question) -> Answer {
    let headers = [
        ("content-type", question.content_type),
        ("accept", question.accept),
    ];
    ask(client, question.body.clone(), &headers).await
}

fn says_yes(answer: &Answer) -> bool {
    let text = answer.text();
    match answer.header("content-type") {
        PROTOBUF => {
            let message = crate::harness::encodings::unwrap(&answer.body);
            let status = last_field(&message);
            status.starts_with(&[8, 1])
        }
        YAML => text.contains("\n  allowed: true\n"),
        _ => text.contains("\"allowed\":true"),
    }
}

/// Asks whether the list or watch contradicts the answer to the question. A resource
/// that is being read into memory may have no view yet.
async fn disagrees(question: &Question, path: &str) -> Option<String> {
    let viewer = &question.asker.viewer;
    let mut found = None;
    for _ in 0..TRIES_TO_AGREE {
        let ours = asked(viewer, question).await;
        let list = viewer.get(path).await;
        let (is_listed, has_view) = (
            list.status == 200,
            !list.header("x-apifront-view").is_empty(),
        );
        let is_of_view = ours.text().contains(OF_VIEW);
        // There may be a right to something that does not exist.
        if is_of_view == has_view && (says_yes(&ours) || !is_listed) {
            return None;
        }
        found = Some(format!("{} and {path} is {}", ours.text(), list.status));
        pace::of_tries(Duration::from_millis(200)).await;
    }
    found
}

/// Asks all servers, and returns the errors.
async fn judge(question: &Question, tally: &Tally) -> Vec<String> {
    let mut wrong = Vec::new();
    let shown = String::from_utf8_lossy(&question.body).into_owned();
    let (plain, viewer) = (&question.asker.plain, &question.asker.viewer);
    for _ in 0..=usize::from(question.again) {
        let ours = asked(plain, question).await;
        tally
            .remembered
            .fetch_add(usize::from(is_remembered(&ours)), Ordering::Relaxed);
        let found = difference(question, &ours, tally).await;
        if !found.is_empty() {
            wrong.push(format!("without views {shown}\n{found}"));
        }
        let ours = asked(viewer, question).await;
        let is_of_view = ours.text().contains(OF_VIEW);
        if !is_of_view {
            let found = difference(question, &ours, tally).await;
            if !found.is_empty() {
                wrong.push(format!("with views {shown}\n{found}"));
            }
        }
        let Some(path) = &question.whole else {
            if is_of_view {
                wrong.push(format!("a view of no whole resource: {shown}"));
            }
            continue;
        };
        tally
            .viewed
            .fetch_add(usize::from(is_of_view), Ordering::Relaxed);
        // In YAML the answer is the upstream's. A watch takes a second.
        let is_slow = path.contains('?') && !question.again;
        if question.accept != YAML && ours.status == 201 && !is_slow {
            wrong.extend(
                disagrees(question, path)
                    .await
                    .map(|why| format!("{why}: {shown}")),
            );
        }
    }
    wrong
}

#[tokio::test]
async fn random_questions_have_kube_apiservers_answers() {
    skip_under_oracle!("kube-apiserver has no views");
    let seed = volume::seed("self_review");
    let count = volume::work("APIFRONT_TEST_QUESTIONS", QUESTIONS);
    let mut random = StdRng::seed_from_u64(seed);
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    create(&mut random, &admin).await;
    // By chance there may be no user with a view. This user has only a view.
    let reads = role("viewed", &["", "apps"], &NAMESPACED, &["list", "watch"]);
    let bound = role_binding("viewed", "viewed", "User", VIEWED);
    grant(&admin, "rights-a", &[reads, bound]).await;
    settled(&admin).await;
    let remembering = |config: &mut Value| {
        config["authorization"]["subjectAccessReview"] =
            json!({"allowTTL": "10m", "denyTTL": "10m"});
    };
    let plain = Apifront::start(&cluster, remembering).await;
    let viewer = Apifront::start(&cluster, |config| {
        remembering(config);
        config["views"] = json!({"users": ["*"]});
    })
    .await;
    let accounts = ["system:serviceaccount:rights-a:agent", VIEWED];
    let [a, b, c, d] = USER_GROUPS;
    let (first, second) = ([a, b], [c, d]);
    let askers: Vec<Arc<Asker>> = USERS
        .iter()
        .chain(&accounts)
        .flat_map(|user| {
            let groups: [&[&str]; 3] = [&[], &first, &second];
            groups.map(|groups| (user, groups.to_vec()))
        })
        .map(|(user, groups)| {
            let certificate = cluster.certificates.client(user, &groups);
            let certificate = Some(&certificate);
            Arc::new(Asker {
                direct: cluster.client(certificate),
                plain: plain.client(certificate),
                viewer: viewer.client(certificate),
            })
        })
        .collect();
    let tally = Tally::default();
    let mut questions = BTreeMap::<&str, usize>::new();
    let asked = (0..count).map(|_| question(&mut random, &askers));
    let asked = asked.inspect(|question| {
        *questions.entry(question.accept).or_default() += 1;
    });
    let wrong: Vec<String> = futures::stream::iter(asked)
        .map(|question| {
            let tally = &tally;
            async move { judge(&question, tally).await }
        })
        .buffer_unordered(AT_A_TIME)
        .flat_map(futures::stream::iter)
        .collect()
        .await;
    let of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    println!(
        "{count} questions {questions:?}: {} answers from memory, {} of views, {} with several reasons",
        of(&tally.remembered),
        of(&tally.viewed),
        of(&tally.reasons)
    );
    let shown: Vec<&String> = wrong.iter().take(10).collect();
    assert!(wrong.is_empty(), "{} are wrong: {shown:#?}", wrong.len());
    assert!(of(&tally.remembered) > count / 10 && of(&tally.viewed) > count / 1000);
}
