//! Compressed answers: apifront compresses when kube-apiserver does, and all clients
//! can read the result.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tokio::process::Command;

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::{Cluster, create_namespace};
use crate::harness::differential::{Differential, compare};
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::media_types::{JSON, PROTOBUF, TABLE, YAML};
use crate::harness::release::Release;
use crate::harness::sample::NAMESPACE;
use crate::harness::{eventually, objects, process};
use crate::kubectl::both;

const THRESHOLD: usize = 128 << 10;
const SEEN_WITHIN: Duration = Duration::from_secs(30);
const GZIP: (&str, &str) = ("accept-encoding", "gzip");

async fn create(admin: &Client, list: &str, name: &str, length: usize) {
    let data = json!({ "text": "x".repeat(length) });
    let body = objects::config_map(name, json!({}), data);
    admin.post(list, &body).await.expect(201);
}

/// Waits until all clients see an object. A cache shows a new object only after a
/// moment.
async fn seen(clients: &[&Client], path: &str, least: usize) {
    for client in clients {
        eventually("the object is seen", SEEN_WITHIN, || async {
            client.get(path).await.body.len() > least
        })
        .await;
    }
}

/// Tests an object and its list, with bodies of the threshold's length and of one
/// byte less and more.
#[tokio::test]
async fn only_longer_bodies_are_compressed() {
    let admin = Cluster::shared().admin_client();
    let front = Apifront::shared().admin_client();
    let namespace = create_namespace(&admin, "gzip").await;
    let list = format!("/api/v1/namespaces/{namespace}/configmaps");
    let target = |name: &str, single| match single {
        true => format!("{list}/{name}?resourceVersion=0"),
        false => format!("{list}?resourceVersion=0&fieldSelector=metadata.name%3D{name}"),
    };
    let mut both = Differential::new(admin.clone(), front.clone());
    for (n, accept) in [JSON, PROTOBUF, YAML].into_iter().enumerate() {
        for single in [true, false] {
            let name = format!("probe-{n}-{single}-0");
            let probe = 100_000;
            create(&admin, &list, &name, probe).await;
            let path = target(&name, single);
            Apifront::shared().warm(&front, &path).await;
            seen(&[&admin, &front], &path, probe).await;
            let length = admin.get_as(&path, accept).await.body.len();
            // One byte of data adds one byte to the body.
            for (m, over) in [-1, 0, 1].into_iter().enumerate() {
                let name = format!("probe-{n}-{single}-{}", m + 1);
                let data = (probe + THRESHOLD - length).checked_add_signed(over);
                create(&admin, &list, &name, data.expect("a length")).await;
                let path = target(&name, single);
                seen(&[&admin, &front], &path, probe).await;
                let headers = [("accept", accept), GZIP];
                both.ask(Method::GET, &path, &headers, "").await;
                let answer = admin.send(Method::GET, &path, &headers, "").await;
                let compressed = answer.header("content-encoding") == "gzip";
                // At the threshold itself this depends on the version, which
                // may have one more digit.
                assert!(over == 0 || compressed == (over > 0), "{path} {accept}");
            }
        }
    }
    both.finish();
}

#[tokio::test]
async fn both_protocols_and_all_shapes() {
    let cluster = Cluster::quiet();
    let list = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let direct = cluster.admin_client().over(protocol);
        let front = Apifront::quiet().admin_client().over(protocol);
        let mut both = Differential::new(direct, front);
        for accept in [JSON, PROTOBUF, YAML, TABLE] {
            for query in ["", "&limit=20", "&pretty=1", "&labelSelector=app"] {
                for encoding in ["gzip", "br, gzip", "gzip;q=1", "*"] {
                    let path = format!("{list}?resourceVersion=0{query}");
                    let headers = [("accept", accept), ("accept-encoding", encoding)];
                    both.ask(Method::GET, &path, &headers, "").await;
                }
            }
        }
        let path = format!("{list}?resourceVersion=0");
        let head = both.expect(Expect::NotAsked);
        head.ask(Method::HEAD, &path, &[GZIP], "").await;
        both.finish();
    }
}

/// The time of a watch, which a busy server may use up before it has told all.
const LASTS: [u32; 3] = [1, 4, 16];

/// The number of objects that a watch tells of first, in any representation.
fn added(body: &[u8]) -> usize {
    body.windows(5).filter(|bytes| bytes == b"ADDED").count()
}

/// The names in a watch's events, unless they are in protobuf.
fn names(body: &[u8]) -> Vec<String> {
    const BEFORE: &str = r#""metadata":{"name":""#;
    let text = String::from_utf8_lossy(body);
    let after = text.split(BEFORE).skip(1);
    let names = after.map(|rest| rest.split('"').next().unwrap_or_default().to_owned());
    names.collect()
}

/// A watch with an initial list is compressed in whole gzip members; no other watch
/// is. Releases before 1.37 compress none.
#[tokio::test]
async fn watches_that_list_are_compressed() {
    let cluster = Cluster::quiet();
    let front = Apifront::quiet().admin_client();
    let configmaps = "/api/v1/configmaps?resourceVersion=0";
    Apifront::quiet().warm(&front, configmaps).await;
    let listed = cluster.admin_client().get(configmaps).await.expect(200);
    let all = listed["items"].as_array().expect("items").len();
    let list = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                &allowWatchBookmarks=true";
    for (query, compressed) in [
        (list, true),
        ("&allowWatchBookmarks=true", true),
        ("", false),
        ("&resourceVersion=0", false),
    ] {
        let compressed = compressed && Release::at_least(37);
        for accept in [JSON, PROTOBUF, TABLE] {
            let mut bodies = Vec::new();
            for (client, is_front) in [(cluster.admin_client(), false), (front.clone(), true)] {
                let mut told = Bytes::new();
                for seconds in LASTS {
                    let path =
                        format!("/api/v1/configmaps?watch=1&timeoutSeconds={seconds}{query}");
                    told = watched(&client, &path, accept, is_front, compressed).await;
                    if added(&told) >= all {
                        break;
                    }
                }
                assert_eq!(
                    added(&told),
                    all,
                    "{query} {accept}, of apifront: {is_front}, {:?}",
                    names(&told)
                );
                bodies.push(told);
            }
            // Tables are shorter, and their ages tick.
            assert!(accept == TABLE || bodies[0].len() > THRESHOLD);
            assert!(accept != JSON || events(&bodies[0]) == events(&bodies[1]));
        }
    }
}

/// Returns what a watch told, decoded.
async fn watched(
    client: &Client,
    path: &str,
    accept: &str,
    is_front: bool,
    compressed: bool,
) -> Bytes {
    let headers = [("accept", accept), GZIP, DEBUG];
    let answer = client.send(Method::GET, path, &headers, "").await;
    assert_eq!(answer.status, 200);
    assert!(!is_front || oracle() || answer.is_hit(), "{path}");
    let headers = [answer.header("content-encoding"), answer.header("vary")];
    if !compressed {
        assert_eq!(headers, ["", ""], "{path}");
        return answer.body;
    }
    assert_eq!(headers, ["gzip", "Accept-Encoding"], "{path}");
    let folder = process::temporary_folder("gzip-watch");
    std::fs::write(folder.join("watch.gz"), &answer.body).expect("watch.gz");
    let body = decoded(&folder, "gzip", &["-dc", "watch.gz"]).await;
    assert!(answer.body.len() < body.len() / 2);
    body
}

/// Events after the list are separate gzip members, which all watchers of a shape
/// share.
#[tokio::test]
async fn later_events_are_compressed_too() {
    let admin = Cluster::shared().admin_client();
    let namespace = create_namespace(&admin, "gzip-events").await;
    let list = format!("/api/v1/namespaces/{namespace}/configmaps");
    Apifront::shared()
        .warm(&Apifront::shared().admin_client(), &list)
        .await;
    create(&admin, &list, "first", 10).await;
    let path = format!(
        "{list}?watch=1&timeoutSeconds=10&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let ask = |client: Client| {
        let path = path.clone();
        tokio::spawn(async move { client.send(Method::GET, &path, &[GZIP], "").await })
    };
    let front = Apifront::shared().admin_client();
    let answers = [ask(admin.clone()), ask(front.clone()), ask(front)];
    crate::harness::pace::lasting(Duration::from_secs(1)).await;
    for name in ["second", "third"] {
        create(&admin, &list, name, 100).await;
    }
    admin.delete(&format!("{list}/first")).await;
    let folder = process::temporary_folder("gzip-events");
    let mut bodies = Vec::new();
    for answer in answers {
        let answer = answer.await.expect("an answer");
        if answer.header("content-encoding") != "gzip" {
            bodies.push(answer.body);
            continue;
        }
        std::fs::write(folder.join("watch.gz"), &answer.body).expect("watch.gz");
        bodies.push(decoded(&folder, "gzip", &["-dc", "watch.gz"]).await);
    }
    let text = String::from_utf8_lossy(&bodies[0]);
    assert_eq!(text.matches(r#""type":"ADDED""#).count(), 3, "{text}");
    assert_eq!(text.matches(r#""type":"DELETED""#).count(), 1, "{text}");
    for body in &bodies {
        assert_eq!(events(body), events(&bodies[0]));
    }
}

/// Returns the lines of a watch without its bookmarks, whose versions depend on the
/// moment.
fn events(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let lines = text.lines();
    let events = lines.filter(|line| !line.contains(r#""type":"BOOKMARK""#));
    events.map(|line| format!("{line}\n")).collect()
}

async fn decoded(folder: &Path, program: &str, arguments: &[&str]) -> Bytes {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .await
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    output.stdout.into()
}

/// Decodes with gzip, with Python's zlib, and with Go in kubectl.
#[tokio::test]
async fn everybody_can_read_it() {
    let cluster = Cluster::quiet();
    let front = Apifront::quiet().admin_client();
    let path = "/api/v1/configmaps?resourceVersion=0";
    Apifront::quiet().warm(&front, path).await;
    let folder = process::temporary_folder("gzip");
    for accept in [JSON, PROTOBUF] {
        let plain = front.get_as(path, accept).await;
        let accept = [("accept", accept), GZIP];
        let packed = front.send(Method::GET, path, &accept, "").await;
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert_eq!(compare(&plain, &packed).lines().count(), 4, "two headers");
        // Go's writer begins with these bytes at level 1.
        assert!(packed.body.starts_with(b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"));
        std::fs::write(folder.join("list.gz"), &packed.body).expect("list.gz");
        let gzip = decoded(&folder, "gzip", &["-dc", "list.gz"]).await;
        assert!(gzip == plain.body);
        decoded(&folder, "gzip", &["-t", "list.gz"]).await;
        let script = "import sys, gzip, zlib\n\
                      data = open('list.gz', 'rb').read()\n\
                      inflate = zlib.decompressobj(31)\n\
                      plain = inflate.decompress(data)\n\
                      assert inflate.eof and not inflate.unused_data\n\
                      assert plain == gzip.decompress(data)\n\
                      sys.stdout.buffer.write(plain)";
        let python = decoded(&folder, "python3", &["-c", script]).await;
        assert!(python == plain.body);
    }
    let get = ["get", "configmaps", "-A", "-o", "json"];
    both(cluster, Apifront::quiet()).must_be_same(&get).await;
}
