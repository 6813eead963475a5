//! What each caller reads.

use std::io::Read;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{DROPPED, SHAPE, SOON, Who, World, ask_both};
use crate::harness::client::{Answer, Client};
use crate::harness::eventually;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::media_types::{JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, YAML};
use crate::harness::objects::{role, role_binding};
use crate::harness::watch::Watch;
use crate::managed_fields::cut;
use crate::websocket_watch;

/// Compares an answer with the API server's.
fn compare(theirs: &Answer, ours: &Answer, accept: &str, is_shaped: bool, what: &str) {
    assert_eq!(ours.status, theirs.status, "{what}");
    assert_eq!(
        ours.header("content-type"),
        theirs.header("content-type"),
        "{what}"
    );
    let unmet = Expect::Hit.unmet(ours);
    assert!(unmet.is_empty(), "{what}: {unmet}");
    if !is_shaped {
        assert_eq!(ours.header(SHAPE), "", "{what}");
        assert!(ours.body == theirs.body, "{what}\n{}", ours.text());
        return;
    }
    assert_eq!(ours.header(SHAPE), DROPPED, "{what}");
    let expected = match accept {
        YAML => cut::yaml(&theirs.body),
        _ => cut::json(&theirs.body),
    };
    assert!(expected.len() < theirs.body.len(), "{what}");
    assert!(ours.text() == expected, "{what}\n{}", ours.text());
}

#[tokio::test]
async fn those_whom_a_rule_names_are_not_sent_managed_fields() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let always = |config: &mut Value| config["cache"]["dropManagedFields"] = json!("Always");
    let world = World::start(always).await;
    let direct = world.cluster.admin_client();
    let (maps, deployments) = (world.path("configmaps"), world.path("deployments"));
    let namespaces = "/api/v1/namespaces".to_owned();
    let shaped_before = world.count("answers_total", &[]).await;
    assert_eq!(shaped_before, 0.0);
    let mut shaped = 0;
    for who in [Who::Ann, Who::AnnByAgent, Who::Robot, Who::Keeper] {
        let front = world.client(who);
        for (path, of_robots) in [
            (maps.clone(), true),
            (format!("{maps}?limit=7"), true),
            (format!("{maps}?labelSelector=odd%3Dyes"), true),
            ("/api/v1/configmaps".to_owned(), true),
            (format!("{maps}/m-03"), true),
            (deployments.clone(), true),
            (format!("{deployments}/web"), true),
            (namespaces.clone(), false),
            (format!("{namespaces}/{}", world.namespace), false),
        ] {
            let of_one = path
                .rsplit('/')
                .next()
                .is_some_and(|last| last == "m-03" || last == "web" || last == world.namespace);
            let partial = if of_one { PARTIAL } else { PARTIAL_LIST };
            for accept in [JSON, YAML, PROTOBUF, TABLE, partial] {
                let (theirs, ours) = ask_both(&direct, &front, &path, accept).await;
                let is_shaped = match who {
                    Who::Ann | Who::Keeper => false,
                    Who::AnnByAgent => true,
                    Who::Robot => of_robots,
                };
                shaped += usize::from(is_shaped);
                let what = format!("{who:?} {path} {accept}");
                if is_shaped && accept == PROTOBUF {
                    let ann = world.client(Who::Ann);
                    assert_same_protobuf(&front, &ann, &path).await;
                    assert!(ours.body.len() < theirs.body.len(), "{what}");
                    continue;
                }
                compare(&theirs, &ours, accept, is_shaped, &what);
            }
        }
    }
    // Nine paths by the agent, seven by the robot, in five forms.
    assert_eq!(shaped, 80);
    // Rows without objects have no managedFields, and an unknown object neither.
    let robot = world.client(Who::Robot);
    let path = format!("{maps}?includeObject=None");
    let (theirs, ours) = ask_both(&direct, &robot, &path, TABLE).await;
    compare(&theirs, &ours, TABLE, false, "rows alone");
    let (_, ours) = ask_both(&direct, &robot, &format!("{maps}/none"), JSON).await;
    assert_eq!((ours.status.as_u16(), ours.header(SHAPE)), (404, ""));
    counted(&world, shaped).await;
    compressed(&robot, &maps).await;
    world.front.stop().await;
}

/// Compares a shaped answer with that of a client that asks for the shape, whose bytes
/// are compared with Go's in `managed_fields`.
async fn assert_same_protobuf(shaped: &Client, other: &Client, path: &str) {
    let asking = format!("{PROTOBUF};{DROPPED}");
    loop {
        let before = shaped.get_as(path, PROTOBUF).await;
        let headers = [("accept", &asking[..]), DEBUG];
        let asked = other.send(Method::GET, path, &headers, "").await;
        let after = shaped.get_as(path, PROTOBUF).await;
        let are_shaped = [&before, &after].iter().all(|a| a.header(SHAPE) == DROPPED);
        if !are_shaped || !asked.is_hit() || before.body != after.body {
            // The cache was late, or the state has changed.
            continue;
        }
        assert_eq!((asked.status, asked.header(SHAPE)), (before.status, ""));
        assert!(asked.body == before.body, "{path}");
        return;
    }
}

/// Each shaped answer is counted for its rule, with what it lacks.
async fn counted(world: &World, shaped: usize) {
    let labels = |rule| [("rule", rule), ("shape", "without_managed_fields")];
    let of_robots = world.count("answers_total", &labels("robots")).await;
    let of_agents = world.count("answers_total", &labels("agents")).await;
    // Some were asked again, because the cache was late or the state had changed.
    assert!(
        of_robots + of_agents >= shaped as f64,
        "{of_robots} {of_agents} {shaped}"
    );
    let left_out = async |rule| world.count("left_out_bytes_total", &[("rule", rule)]).await;
    let before = left_out("robots").await;
    let path = world.path("configmaps");
    let robot = world.client(Who::Robot);
    let direct = world.cluster.admin_client();
    let mut lacks = 0;
    for (path, accept) in [
        (&path, JSON),
        (&path, PROTOBUF),
        (&path, TABLE),
        (&format!("{path}/m-00"), JSON),
    ] {
        // The state does not change here.
        let headers = [("accept", accept)];
        let ours = robot.send(Method::GET, path, &headers, "").await;
        assert_eq!(ours.header(SHAPE), DROPPED, "{path} {accept}");
        let theirs = direct.get_as(path, accept).await;
        let more = theirs.body.len() - ours.body.len();
        lacks += more;
    }
    let counted = left_out("robots").await - before;
    let lacks = lacks as f64;
    assert!((counted - lacks).abs() < lacks / 50.0, "{counted} {lacks}");
    reported(world, of_robots).await;
    // Clients asked for it in protobuf.
    assert!(left_out("").await > 0.0);
}

/// The status page says the same of each rule that drops something.
async fn reported(world: &World, least: f64) {
    let admin = world.front.admin_client();
    let status = admin.get("/status.json").await.expect(200);
    let shapes = status["shapes"].as_array().expect("shapes");
    let [robots, agents] = &shapes[..] else {
        panic!("{shapes:?}");
    };
    let texts = |rule: &Value| {
        let of = |field: &str| rule[field].clone();
        json!([
            of("name"),
            of("users"),
            of("groups"),
            of("userAgents"),
            of("resources")
        ])
    };
    let expected = json!(["robots", [], ["robots"], [], ["configmaps", "*.apps"]]);
    assert_eq!(texts(robots), expected);
    let expected = json!(["agents", [], [], ["lean/", "leaner/"], ["*"]]);
    assert_eq!(texts(agents), expected);
    assert!(robots["shaped"].as_f64().expect("a number") >= least);
    let left_out = world
        .count("left_out_bytes_total", &[("rule", "robots")])
        .await;
    assert_eq!(robots["leftOutBytes"].as_f64(), Some(left_out));
    let open = Client::plain(world.front.observability);
    let open = open.get("/status.json").await.expect(200);
    assert!(open["shapes"].is_null(), "{open}");
}

/// Compressed lists are the plain ones of the same version, which every write to the
/// cluster may change.
async fn compressed(robot: &Client, maps: &str) {
    let mut compared = 0;
    while compared < 2 {
        let before = robot.get_as(maps, JSON).await;
        let headers = [("accept", JSON), ("accept-encoding", "gzip")];
        let packed = robot.send(Method::GET, maps, &headers, "").await;
        assert_eq!(
            (packed.header("content-encoding"), packed.header(SHAPE)),
            ("gzip", DROPPED)
        );
        let mut text = String::new();
        let mut reader = flate2::read::MultiGzDecoder::new(&packed.body[..]);
        reader.read_to_string(&mut text).expect("gzip");
        let after = robot.get_as(maps, JSON).await;
        if before.body == after.body {
            assert!(text == after.text());
            compared += 1;
        }
    }
}

/// What the cache does not answer is forwarded whole, and counted.
#[tokio::test]
async fn other_requests_are_forwarded_as_they_are() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let world = World::start(|_| {}).await;
    let robot = world.client(Who::Robot);
    let deployments = world.path("deployments");
    let whole = [("rule", "robots"), ("shape", "whole")];
    for path in [
        format!("{deployments}/web/status"),
        format!("{deployments}/web/scale"),
    ] {
        let answer = robot.get(&path).await;
        assert_eq!((answer.status.as_u16(), answer.header(SHAPE)), (200, ""));
    }
    // A subresource is no read that a rule names.
    assert_eq!(world.count("answers_total", &whole).await, 0.0);
    let unknown = format!("{deployments}?resourceVersion=0&anUnknownParameter=1");
    let answer = robot.get(&unknown).await;
    assert_eq!((answer.status.as_u16(), answer.header(SHAPE)), (200, ""));
    let is_whole = answer.text().contains("managedFields");
    let counted = world.count("answers_total", &whole).await;
    assert_eq!((is_whole, counted), (true, 1.0), "{}", answer.text());
    world.front.stop().await;
}

/// The user whom an impersonated request acts as decides, not the caller.
#[tokio::test]
async fn rules_name_the_user_that_a_request_acts_as() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let world = World::start(|_| {}).await;
    let direct = world.cluster.admin_client();
    let maps = world.path("configmaps");
    let acting = |who: Who, user: &str, groups: &[&str]| {
        let client = world.client(who).with_header("impersonate-user", user);
        let groups = groups.iter();
        groups.fold(client, |client, group| {
            client.with_header("impersonate-group", group)
        })
    };
    for (front, is_shaped) in [
        (acting(Who::Ann, "robot", &["people", "robots"]), true),
        (acting(Who::Robot, "ann", &["people"]), false),
        (acting(Who::Robot, "keeper", &["people", "robots"]), false),
    ] {
        let (theirs, ours) = ask_both(&direct, &front, &maps, JSON).await;
        compare(&theirs, &ours, JSON, is_shaped, "impersonated");
    }
    world.front.stop().await;
}

#[tokio::test]
async fn watches_have_the_shape() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let world = World::start(|_| {}).await;
    let admin = world.cluster.admin_client();
    let maps = world.path("configmaps");
    let list = admin.get(&maps).await.expect(200);
    let version = list["metadata"]["resourceVersion"].as_str().expect("one");
    let from = format!("{maps}?watch=1&resourceVersion={version}");
    let initial = format!(
        "{maps}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let robot = world.client(Who::Robot);
    for path in [&from, &initial] {
        let head = robot.open(path, &[]).await;
        assert_eq!(head.headers()[SHAPE], DROPPED, "{path}");
        let head = world.client(Who::Ann).open(path, &[]).await;
        assert!(!head.headers().contains_key(SHAPE), "{path}");
    }
    // A WebSocket's head says so, too.
    for (who, expected) in [(Who::Ann, false), (Who::Robot, true)] {
        let request = websocket_watch::handshake(&from, &[]);
        let mut connection = websocket_watch::open(&world.client(who), &request).await;
        let said = connection.read_reply(Duration::from_secs(1)).await;
        let said = String::from_utf8_lossy(&said).to_ascii_lowercase();
        assert!(said.starts_with("http/1.1 101 "), "{said}");
        let line = format!("{SHAPE}: {}", DROPPED.to_ascii_lowercase());
        assert_eq!(said.contains(&line), expected, "{said}");
    }
    let mut watches = Vec::new();
    for client in [&admin, &world.client(Who::Ann), &robot] {
        watches.push(Watch::open(client, &from).await);
    }
    let mut metadata = Vec::new();
    for client in [&admin, &robot] {
        let client = client.clone().with_header("accept", PARTIAL);
        metadata.push(Watch::open(&client, &from).await);
    }
    for n in 0..10 {
        let path = format!("{maps}/m-{n:02}?fieldManager=changer-{n}");
        let change = json!({ "data": { "changed": n.to_string() } });
        let patched = admin.patch(&path, "merge-patch+json", &change).await;
        patched.expect(200);
    }
    for _ in 0..10 {
        let mut lines = Vec::new();
        for watch in watches.iter_mut().chain(&mut metadata) {
            lines.push(watch.next().await.expect("an event").line);
        }
        let [whole, of_ann, of_robot, partial, partial_of_robot] = &lines[..] else {
            panic!("five lines");
        };
        assert!(whole.contains("managedFields"));
        assert_eq!(of_ann, whole);
        assert_eq!(*of_robot, cut::json(whole.as_bytes()));
        assert_eq!(*partial_of_robot, cut::json(partial.as_bytes()));
    }
    let left_out = || world.count("left_out_bytes_total", &[("rule", "robots")]);
    eventually("counted events", SOON, async || left_out().await > 2_000.0).await;
    world.front.stop().await;
}

/// A view's answers have the shape, too.
#[tokio::test]
async fn views_have_the_shape() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(|config| {
        config["views"] = json!({ "groups": ["robots"] });
    })
    .await;
    let admin = world.cluster.admin_client();
    let tenants = role("tenants", &[""], &["configmaps"], &["list", "watch"]);
    let binding = role_binding("tenants", "tenants", "User", "tenant");
    crate::harness::cluster::grant(&admin, &world.namespace, &[tenants, binding]).await;
    let certificate = world.cluster.certificates.client("tenant", &["robots"]);
    let tenant = world.front.client(Some(&certificate));
    eventually("a view", SOON, async || {
        let answer = tenant.get("/api/v1/configmaps").await;
        answer.status == 200
    })
    .await;
    let answer = tenant.get("/api/v1/configmaps").await;
    assert_eq!(answer.header(SHAPE), DROPPED);
    let expected = admin.get(&world.path("configmaps")).await;
    let mut items = expected.json()["items"].clone();
    for item in items.as_array_mut().expect("items") {
        let metadata = item["metadata"].as_object_mut().expect("metadata");
        metadata.remove("managedFields").expect("managedFields");
    }
    assert_eq!(answer.json()["items"], items);
    let path = "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let head = tenant.open(path, &[]).await;
    assert_eq!(head.headers()[SHAPE], DROPPED);
    let mut watch = Watch::open(&tenant, path).await;
    for _ in 0..40 {
        let line = watch.next().await.expect("an event").line;
        assert!(!line.contains("managedFields"), "{line}");
    }
    world.front.stop().await;
}
