//! One outage as different callers see it: before, during and after.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::world::{SOON, STALENESS, World, becomes, reads, tess, theo, unavailable, warning};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::expect::DEBUG;
use crate::harness::media_types::{PARTIAL_LIST, PROTOBUF};
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;
use crate::harness::{control, eventually};

fn questions(world: &World) -> Vec<(String, &'static str)> {
    let list = world.path("configmaps");
    vec![
        (list.clone(), "application/json"),
        (list.clone(), PROTOBUF),
        (list.clone(), PARTIAL_LIST),
        (format!("{list}?limit=500"), "application/json"),
        (
            format!("{list}?labelSelector=app%3Dkept"),
            "application/json",
        ),
        (
            format!("{list}?fieldSelector=metadata.name%3Dkept"),
            PROTOBUF,
        ),
        (format!("{list}/kept"), "application/json"),
        (format!("{list}/kept"), PROTOBUF),
        (format!("{list}/gone"), "application/json"),
        ("/api/v1/configmaps".to_owned(), "application/json"),
    ]
}

async fn ask(client: &Client, path: &str, accept: &str) -> Answer {
    let headers = [("accept", accept), DEBUG];
    client.send(Method::GET, path, &headers, "").await
}

/// Returns the body with another version in place of the list's own. The versions
/// must be equally long, so that protobuf stays well formed.
fn at_version(body: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = body.windows(from.len()).position(|w| w == from.as_bytes());
    let mut body = body.to_vec();
    if let Some(at) = at {
        body[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    body
}

/// Returns the version of the list that the API server answers.
fn version_of_list(json: &Value) -> String {
    let version = json["metadata"]["resourceVersion"].as_str();
    version.expect("a version").to_owned()
}

/// Returns kube-apiserver's answer to each question, and checks that the front knows
/// the caller's rights to ask them.
async fn recorded(world: &World, front: &Apifront) -> Vec<Answer> {
    let direct = world
        .cluster
        .client(None)
        .token(crate::harness::apiserver::TOKEN_USERS[0].token);
    let mut answers = Vec::new();
    for (path, accept) in questions(world) {
        ask(&tess(front), &path, accept).await;
        ask(&theo(front), &path, accept).await;
        answers.push(ask(&direct, &path, accept).await);
    }
    answers
}

/// Fails unless the front shows tess kube-apiserver's last answers, with a warning.
async fn shows_what_was(front: &Apifront, world: &World, before: &[Answer]) {
    for ((path, accept), before) in questions(world).iter().zip(before) {
        let answer = ask(&tess(front), path, accept).await;
        assert_eq!(answer.status, before.status, "{path}: {}", answer.text());
        assert!(answer.is_hit(), "{path}");
        let text = warning(&answer).unwrap_or_else(|| panic!("{path}: no warning"));
        let age = text.strip_prefix("configmaps are shown as they were ");
        let age = age
            .and_then(|rest| rest.strip_suffix("s ago"))
            .expect("an age");
        assert!(age.parse::<u64>().expect("seconds") < 120, "{path}: {age}");
        let version = answer.header("x-apifront-cache").rsplit('=').next();
        // Lists have the version of the state. It differs from the version that was
        // the newest of all resources.
        let is_list = !path.contains("configmaps/");
        let expected = match (is_list, *accept) {
            (true, _) => {
                let from = version_of_list(&before_as_json(before, accept));
                at_version(&before.body, &from, version.expect("a version"))
            }
            (false, _) => before.body.to_vec(),
        };
        let same = answer.body == expected;
        assert!(
            same,
            "{path} {accept}:\n{}\n{}",
            answer.text(),
            before.text()
        );
        assert_eq!(answer.header("content-type"), before.header("content-type"));
    }
}

/// Returns an object with the list's version. In protobuf, that is the first number
/// of several digits after the kind.
fn before_as_json(answer: &Answer, accept: &str) -> Value {
    if accept != PROTOBUF {
        return answer.json();
    }
    let digits = u8::is_ascii_digit;
    let body = &answer.body;
    let marker = b"ConfigMapList";
    let at = body.windows(marker.len()).position(|w| w == marker);
    let rest = &body[at.expect("a list") + marker.len()..];
    let start = rest.windows(3).position(|three| three.iter().all(digits));
    let start = start.expect("a version");
    let version: Vec<u8> = rest[start..]
        .iter()
        .take_while(|b| digits(b))
        .copied()
        .collect();
    json!({"metadata": {"resourceVersion": String::from_utf8(version).expect("digits")}})
}

#[tokio::test]
async fn chosen_reads_go_on_for_chosen_callers() {
    skip_under_oracle!("it stops the API server behind apifront");
    let mut world = World::start().await;
    let audit = crate::harness::process::temporary_folder("degraded-audit");
    let policy = audit.join("policy.yaml");
    let rules = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "rules": [{"level": "Metadata"}]});
    std::fs::write(&policy, rules.to_string()).expect("a policy");
    let cached = world
        .front(json!({"reads": reads(&[]), "after": "2s", "maxAge": "10m"}))
        .await;
    let mut config = cached.read_config();
    config["observability"]["auditPolicyFile"] = json!(policy);
    config["observability"]["auditLogPath"] = json!(audit.join("audit.log"));
    cached.write_config(&config);
    let by_rbac = world
        .front(
            json!({"reads": reads(&["secrets"]), "after": "2s", "maxAge": "10m",
            "authorization": "RBAC"}),
        )
        .await;
    let without = world.front(json!({})).await;
    let (list, secrets) = (world.path("configmaps"), world.path("secrets"));
    let deployments = "/apis/apps/v1/deployments";
    // The API server's answers are recorded last, when nothing changes any more.
    for front in [&cached, &by_rbac, &without] {
        for path in [&*secrets, deployments, &format!("{list}?resourceVersion=0")] {
            for client in [tess(front), theo(front), world.agent(front)] {
                front.warm(&client, path).await;
            }
        }
        impersonate(front, "theo", "developers", &list)
            .await
            .expect(200);
    }
    let unknown_token = world.new_token().await;
    let watch = Watch::open(&tess(&cached), &format!("{list}?resourceVersion=0&watch=1")).await;
    let object = config_map("last", json!({}), json!({}));
    world
        .cluster
        .admin_client()
        .post(&list, &object)
        .await
        .expect(201);
    let mut before = Vec::new();
    for front in [&cached, &by_rbac, &without] {
        before = recorded(&world, front).await;
    }
    for front in [&cached, &by_rbac] {
        assert_eq!(tess(front).get(&list).await.status, 200);
        assert_eq!(warning(&tess(front).get(&list).await), None);
        assert_eq!(front.metric("apifront_degraded", &[]).await, 0.0);
    }

    let began = Instant::now();
    world.lose(&[&cached, &by_rbac]).await;
    assert_eq!(without.metric("apifront_degraded", &[]).await, 0.0);
    // Earlier permissions have expired, and states are too old for other reads.
    tokio::time::sleep_until((began + STALENESS * 2).into()).await;

    shows_what_was(&cached, &world, &before).await;
    shows_what_was(&by_rbac, &world, &before).await;
    for (path, _) in questions(&world) {
        // Callers who are not named can read no more than without the mode.
        for (front, client) in [(&cached, theo(&cached)), (&by_rbac, theo(&by_rbac))] {
            unavailable(&path, &client.get(&path).await);
            assert_eq!(front.metric("apifront_degraded", &[]).await, 1.0);
        }
        unavailable(&path, &tess(&without).get(&path).await);
    }
    // Reads with other versions show states of the same age.
    let answer = tess(&cached)
        .get(&format!("{list}?resourceVersion=0"))
        .await;
    assert_eq!(
        (answer.status.as_u16(), warning(&answer).is_some()),
        (200, true)
    );

    // Reads that were never checked are refused, unless RBAC allows them.
    let others = [
        "/api/v1/namespaces/default/configmaps".to_owned(),
        format!("{list}/first"),
    ];
    for path in &others {
        unavailable(path, &tess(&cached).get(path).await);
        assert_ne!(tess(&by_rbac).get(path).await.status, 503, "{path}");
    }
    assert_eq!(tess(&cached).get(deployments).await.status, 200);
    // A star does not mean Secrets.
    unavailable("secrets", &tess(&cached).get(&secrets).await);
    assert_eq!(tess(&by_rbac).get(&secrets).await.status, 200);
    // tess is named for all resources, but the agent is not.
    let pods = world.path("pods");
    unavailable("pods", &world.agent(&cached).get(&pods).await);

    for front in [&cached, &by_rbac] {
        assert_eq!(world.agent(front).get(&list).await.status, 200);
        let stranger = front.client(None).token(&unknown_token);
        unavailable("an unknown token", &stranger.get(&list).await);
        let nobody = front.client(None).token("no-token-at-all");
        unavailable("no token", &nobody.get(&list).await);
        writes_fail(front, &list).await;
    }
    impersonations(&cached, &by_rbac, &list).await;
    tells_of_it(&cached, &audit.join("audit.log")).await;
    assert_eq!(without.admin_client().get("/readyz").await.status, 500);

    let watches = watches_go_on(&cached, &list, watch).await;
    world.recover(&[&cached, &by_rbac]).await;
    let object = config_map("later", json!({}), json!({}));
    let admin = world.cluster.admin_client();
    admin.post(&list, &object).await.expect(201);
    for mut watch in watches {
        assert_eq!(watch.take_short(1).await, ["ADDED later"]);
    }
    for front in [cached, by_rbac, without] {
        for client in [tess(&front), theo(&front)] {
            eventually("reads are current again", SOON, || async {
                let answer = client.get(&format!("{list}/later")).await;
                answer.status == 200 && warning(&answer).is_none()
            })
            .await;
        }
        assert_eq!(
            front.admin_client().get("/readyz/degraded").await.status,
            200
        );
        front.stop().await;
    }
}

/// Reads as tess with one more group, as another caller.
async fn impersonate(front: &Apifront, caller: &str, group: &str, path: &str) -> Answer {
    let client = match caller {
        "theo" => theo(front),
        _ => tess(front),
    };
    let headers = [("impersonate-user", "tess"), ("impersonate-group", group)];
    client.send(Method::GET, path, &headers, "").await
}

/// The rights of the impersonated user decide. The right to impersonate is a right
/// like others.
async fn impersonations(cached: &Apifront, by_rbac: &Apifront, list: &str) {
    for (front, group, expected) in [
        (cached, "developers", 200),
        (cached, "never-asked-about", 503),
        (by_rbac, "developers", 200),
        (by_rbac, "never-asked-about", 200),
    ] {
        let answer = impersonate(front, "theo", group, list).await;
        assert_eq!(answer.status, expected, "{group}: {}", answer.text());
    }
    // The configuration does not name theo, so acting as theo does not help.
    let as_theo = [("impersonate-user", "theo")];
    for front in [cached, by_rbac] {
        let answer = tess(front).send(Method::GET, list, &as_theo, "").await;
        unavailable("as theo", &answer);
    }
}

/// Writes, and all other work for the API server, can be repeated later.
async fn writes_fail(front: &Apifront, list: &str) {
    let object = config_map("never", json!({}), json!({}));
    for client in [tess(front), front.admin_client()] {
        unavailable("create", &client.post(list, &object).await);
        let one = format!("{list}/kept");
        unavailable("update", &client.put(&one, &object).await);
        unavailable(
            "patch",
            &client.patch(&one, "merge-patch+json", &json!({})).await,
        );
        unavailable("delete", &client.delete(&one).await);
        let events = "/api/v1/events?watch=1";
        unavailable("a forwarded watch", &client.get(events).await);
        unavailable("logs", &client.get("/api/v1/namespaces/x/pods/y/log").await);
    }
    // The configuration names nobody for this caller's reads.
    let nodes = front.admin_client().get("/api/v1/nodes").await;
    unavailable("another caller", &nodes);
}

/// Every report about the process shows that the mode is on.
async fn tells_of_it(front: &Apifront, audit: &std::path::Path) {
    let admin = front.admin_client();
    assert_eq!(admin.get("/readyz").await.status, 200);
    let text = admin.get("/readyz/degraded").await;
    assert_eq!(text.status, 500);
    assert!(
        text.text().contains("no API server could be reached for "),
        "{}",
        text.text()
    );
    let of = [("resource", "configmaps"), ("verb", "list")];
    assert!(front.metric("apifront_degraded_answers_total", &of).await >= 6.0);
    let age = front
        .metric(
            "apifront_cache_proof_age_seconds",
            &[("resource", "configmaps")],
        )
        .await;
    assert!((STALENESS.as_secs_f64()..120.0).contains(&age), "{age}");
    assert!(front.process.log().contains("degraded mode begins"));
    let marked = r#""apifront.dev/degraded":"age="#;
    eventually("audit events", SOON, || async {
        std::fs::read_to_string(audit).is_ok_and(|text| text.contains(marked))
    })
    .await;
}

/// Returns watches that began before and during the outage, each at its end.
async fn watches_go_on(front: &Apifront, list: &str, mut before: Watch) -> Vec<Watch> {
    let all = ["ADDED first", "ADDED kept", "ADDED last"];
    let mut seen = before.take_short(3).await;
    seen.sort();
    assert_eq!(seen, all);
    let tess = tess(front);
    let answer = tess.get(list).await;
    let version = version_of_list(&answer.json());
    let from = Watch::open(&tess, &format!("{list}?watch=1&resourceVersion={version}")).await;
    let initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                   &allowWatchBookmarks=true";
    let path = format!("{list}?{initial}");
    let response = tess.open(&path, &[]).await;
    assert!(response.headers().contains_key("warning"));
    let mut newest = Watch::open(&tess, &path).await;
    let events: Vec<_> = newest.take_short(3).await;
    assert_eq!(events, all);
    let bookmark = newest.next().await.expect("the end of the initial events");
    // The bookmark must not claim more than is known.
    assert_eq!(bookmark.kind, "BOOKMARK");
    assert_eq!(bookmark.version().to_string(), version);
    vec![before, from, newest]
}

#[tokio::test]
async fn reads_end_with_their_age_and_follow_the_configuration() {
    skip_under_oracle!("it stops the API server behind apifront");
    let mut world = World::start().await;
    let list = world.path("configmaps");
    let any = format!("{list}?resourceVersion=0");
    let max_age = Duration::from_secs(25);
    let short = world
        .front(json!({"reads": reads(&[]), "after": "2s", "maxAge": "25s"}))
        .await;
    let patient = world
        .front(json!({"reads": reads(&[]), "after": "10m", "maxAge": "10m"}))
        .await;
    for front in [&short, &patient] {
        front.warm(&tess(front), &list).await;
    }
    let object = config_map("proof", json!({}), json!({}));
    world
        .cluster
        .admin_client()
        .post(&list, &object)
        .await
        .expect(201);
    for front in [&short, &patient] {
        tess(front).get(&format!("{list}/proof")).await.expect(200);
    }
    let began = Instant::now();
    world.lose(&[&short]).await;
    assert_eq!(tess(&short).get(&list).await.status, 200);
    assert_eq!(short.admin_client().get("/readyz").await.status, 200);
    unavailable("before its time", &tess(&patient).get(&list).await);

    // A reload can begin and end the mode, and does not interrupt it.
    let mut config = patient.read_config();
    config["cache"]["degraded"]["after"] = json!("3s");
    patient.write_config(&config);
    becomes(&patient, 1.0).await;
    assert_eq!(tess(&patient).get(&list).await.status, 200);
    config["cache"]["idleTimeout"] = json!("20m");
    patient.write_config(&config);
    let success = [("result", "success")];
    eventually("the reload", SOON, || async {
        let reloads = patient
            .metric("apifront_config_reloads_total", &success)
            .await;
        let answer = tess(&patient).get(&list).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        reloads >= 2.0
    })
    .await;
    config["cache"]["degraded"] = json!({});
    patient.write_config(&config);
    becomes(&patient, 0.0).await;
    unavailable("without the mode", &tess(&patient).get(&list).await);
    assert_eq!(patient.admin_client().get("/readyz").await.status, 500);

    tokio::time::sleep_until((began + max_age + Duration::from_secs(1)).into()).await;
    let answer = tess(&short).get(&list).await;
    unavailable("too old", &answer);
    unavailable("too old", &tess(&short).get(&any).await);
    // The outage is younger than the answers: apifront noticed it later.
    eventually("not ready", SOON, || async {
        short.admin_client().get("/readyz").await.status == 500
    })
    .await;
    world.recover(&[&short]).await;
    for front in [short, patient] {
        eventually("reads again", SOON, || async {
            let answer = tess(&front).get(&list).await;
            answer.status == 200 && warning(&answer).is_none()
        })
        .await;
        front.stop().await;
    }
}

/// A hanging server accepts connections and never answers.
#[tokio::test]
async fn a_server_that_hangs_is_lost_too_and_one_that_comes_and_goes_is_not() {
    skip_under_oracle!("it stops the API server behind apifront");
    let mut world = World::start().await;
    let list = world.path("configmaps");
    let front = world
        .front(json!({"reads": reads(&[]), "after": "2m", "maxAge": "10m"}))
        .await;
    front.warm(&tess(&front), &list).await;
    for _ in 0..2 {
        world.cluster.apiserver.kill();
        crate::harness::pace::lasting(Duration::from_secs(2)).await;
        world.recover(&[]).await;
        eventually("reads again", SOON, || async {
            let answer = tess(&front).get(&list).await;
            assert_eq!(warning(&answer), None);
            answer.status == 200
        })
        .await;
    }
    assert!(!front.process.log().contains("degraded mode begins"));

    let mut config = front.read_config();
    config["cache"]["degraded"]["after"] = json!("2s");
    front.write_config(&config);
    world.cluster.apiserver.signal("STOP");
    becomes(&front, 1.0).await;
    let other = Cluster::shared().admin_client();
    for _ in 0..20 {
        let tess = tess(&front);
        let (answer, took) = control::longer_than(other.get("/livez"), tess.get(&list)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(warning(&answer).is_some());
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    world.cluster.apiserver.signal("CONT");
    becomes(&front, 0.0).await;
    eventually("reads again", SOON, || async {
        let answer = tess(&front).get(&list).await;
        answer.status == 200 && warning(&answer).is_none()
    })
    .await;
    front.stop().await;
}
