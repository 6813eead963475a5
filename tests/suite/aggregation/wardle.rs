//! Tests with the flunders and fischers of `k8s.io/sample-apiserver`. Every
//! operation has the same answers through apifront as through kube-apiserver.

use http::Method;
use serde_json::{Value, json};

use crate::harness::client::{Answer, Client};
use crate::harness::differential::{Differential, compare};
use crate::harness::expect::Expect;
use crate::harness::media_types::{PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE_OR_JSON};
use crate::harness::twins::WardleTwins;
use crate::harness::watch::Watch;

const ALPHA: &str = "/apis/wardle.example.com/v1alpha1";
const BETA: &str = "/apis/wardle.example.com/v1beta1";

fn flunder(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "wardle.example.com/v1alpha1",
        "kind": "Flunder",
        "metadata": { "name": name, "labels": labels },
        "spec": { "reference": "other" },
    })
}

fn fischer(name: &str) -> Value {
    json!({
        "apiVersion": "wardle.example.com/v1alpha1",
        "kind": "Fischer",
        "metadata": { "name": name },
        "disallowedFlunders": ["forbidden-by-fischer"],
    })
}

fn flunders(namespace: &str) -> String {
    format!("{ALPHA}/namespaces/{namespace}/flunders")
}

#[tokio::test]
async fn discovery_of_the_version_is_the_backends() {
    let twins = &WardleTwins::shared().twins;
    let mut both = twins.differential();
    for (expected, path) in [
        (Expect::NotAsked, ALPHA),
        (Expect::NotAsked, BETA),
        (Expect::Document, "/apis/wardle.example.com"),
    ] {
        for accept in ["application/json", "application/yaml", PROTOBUF] {
            both.expect(expected).get_as(path, accept).await;
        }
        both.expect(expected).get(path).await;
    }
    both.finish();
}

/// Executes an operation twice, once through each server. Answers may differ only in
/// values that identify the moment or the object.
struct Doors {
    direct: Client,
    front: Client,
}

impl Doors {
    async fn both(&self, ask: impl AsyncFn(&Client) -> Answer, what: &str) -> Answer {
        let mut direct = ask(&self.direct).await;
        let front = ask(&self.front).await;
        let mut shown = front.clone();
        direct.body = masked(&direct).into();
        shown.body = masked(&shown).into();
        let difference = compare(&direct, &shown);
        assert!(difference.is_empty(), "{what}:\n{difference}");
        front
    }
}

fn masked(answer: &Answer) -> String {
    let Ok(mut value) = serde_json::from_slice::<Value>(&answer.body) else {
        return answer.text();
    };
    mask(&mut value);
    value.to_string()
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "uid" | "resourceVersion" | "creationTimestamp" | "time" => {
                        *value = json!("masked");
                    }
                    _ => mask(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(mask),
        _ => {}
    }
}

#[tokio::test]
async fn writes_have_the_same_answers() {
    let wardle = WardleTwins::shared();
    let doors = Doors {
        direct: wardle.twins.direct_client(),
        front: wardle.twins.front_client(),
    };
    let list = flunders(&wardle.namespace("writes").await);
    let path = format!("{list}/a");
    let steps: Vec<(&str, Method, String, &str, Value)> = vec![
        (
            "create",
            Method::POST,
            list.clone(),
            "application/json",
            flunder("a", &json!({})),
        ),
        (
            "create twice",
            Method::POST,
            list.clone(),
            "application/json",
            json!("below"),
        ),
        (
            "nothing to create",
            Method::POST,
            list.clone(),
            "application/json",
            json!({}),
        ),
        (
            "merge patch",
            Method::PATCH,
            path.clone(),
            "application/merge-patch+json",
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
        (
            "json patch",
            Method::PATCH,
            path.clone(),
            "application/json-patch+json",
            json!([{"op": "add", "path": "/metadata/labels/c", "value": "d"}]),
        ),
        (
            "strategic patch",
            Method::PATCH,
            path.clone(),
            "application/strategic-merge-patch+json",
            json!({"spec": {"reference": "x"}}),
        ),
        (
            "server-side apply",
            Method::PATCH,
            format!("{path}?fieldManager=me&force=true"),
            "application/apply-patch+yaml",
            flunder("a", &json!({"applied": "yes"})),
        ),
        (
            "conflicting apply",
            Method::PATCH,
            format!("{path}?fieldManager=you"),
            "application/apply-patch+yaml",
            flunder("a", &json!({"applied": "no"})),
        ),
        (
            "bad patch",
            Method::PATCH,
            path.clone(),
            "application/merge-patch+json",
            json!([]),
        ),
        (
            "unknown patch type",
            Method::PATCH,
            path.clone(),
            "application/x-patch",
            json!({}),
        ),
        (
            "another kind",
            Method::POST,
            list.clone(),
            "application/json",
            json!({
                "apiVersion": "wardle.example.com/v1alpha1", "kind": "Fluder",
                "metadata": {"name": "a"},
            }),
        ),
        (
            "dry run",
            Method::POST,
            format!("{list}?dryRun=All"),
            "application/json",
            flunder("dry", &json!({})),
        ),
        (
            "delete with a precondition",
            Method::DELETE,
            path.clone(),
            "application/json",
            json!({"preconditions": {"uid": "another"}}),
        ),
    ];
    let created = doors.front.post(&list, &flunder("a", &json!({}))).await;
    created.expect(201);
    for (what, method, path, kind, body) in steps.into_iter().skip(1) {
        let body = if body == json!("below") {
            flunder("a", &json!({}))
        } else {
            body
        };
        let headers = [("content-type", kind), ("accept", "application/json")];
        let ask = async |client: &Client| {
            client
                .send(method.clone(), &path, &headers, body.to_string())
                .await
        };
        let answer = doors.both(ask, what).await;
        assert_ne!(answer.status, 503, "{what}: {}", answer.text());
    }
    // Each server deletes its own object, since an object can be deleted only once.
    for client in [&doors.direct, &doors.front] {
        client
            .post(&list, &flunder("b", &json!({})))
            .await
            .expect(201);
        let deleted = client.delete(&format!("{list}/b")).await.expect(200);
        assert_eq!(deleted["kind"], "Status");
        client.get(&format!("{list}/b")).await.expect_status(
            404,
            "NotFound",
            "flunders.wardle.example.com \"b\" not found",
        );
        for name in ["c", "d"] {
            let labels = json!({"collected": "yes"});
            client
                .post(&list, &flunder(name, &labels))
                .await
                .expect(201);
        }
        let collected = client
            .delete(&format!("{list}?labelSelector=collected"))
            .await;
        assert_eq!(
            collected.expect(200)["items"].as_array().map(Vec::len),
            Some(2)
        );
    }
}

#[tokio::test]
async fn what_one_door_writes_the_other_reads() {
    let wardle = WardleTwins::shared();
    let (direct, front) = (wardle.twins.direct_client(), wardle.twins.front_client());
    let list = flunders(&wardle.namespace("doors").await);
    let path = format!("{list}/a");
    // The resource is in the cache before it has objects.
    wardle
        .twins
        .front
        .warm(&front, &format!("{list}?resourceVersion=0"))
        .await;
    let mut value = front
        .post(&list, &flunder("a", &json!({})))
        .await
        .expect(201);
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 {
            (&direct, &front)
        } else {
            (&front, &direct)
        };
        value["spec"]["reference"] = json!(format!("round-{round}"));
        value = writer.put(&path, &value).await.expect(200);
        let read = reader.get(&path).await.expect(200);
        assert_eq!(read, value);
        let listed = reader.get(&list).await.expect(200);
        assert_eq!(listed["items"][0]["spec"], value["spec"]);
    }
    front.delete(&path).await.expect(200);
    assert_eq!(direct.get(&path).await.status, 404);
    assert_eq!(front.get(&path).await.status, 404);
}

/// Creates objects that no test changes, and returns their namespace.
async fn still_life(wardle: &WardleTwins) -> String {
    let ns = wardle.namespace("still").await;
    let admin = wardle.twins.direct_client();
    for n in 0..7 {
        let body = flunder(
            &format!("flunder-{n}"),
            &json!({ "odd": (n % 2).to_string() }),
        );
        admin.post(&flunders(&ns), &body).await.expect(201);
    }
    let name = format!("fischer-of-{ns}");
    admin
        .post(&format!("{ALPHA}/fischers"), &fischer(&name))
        .await
        .expect(201);
    ns
}

#[tokio::test]
async fn reads_are_the_same_in_every_representation() {
    use Expect::{Bypass, Hit};
    let wardle = WardleTwins::shared();
    let ns = still_life(&wardle).await;
    let front = &wardle.twins.front;
    front
        .warm(
            &front.admin_client(),
            &format!("{ALPHA}/flunders?resourceVersion=0"),
        )
        .await;
    let mut both = wardle.twins.differential();
    for prefix in [ALPHA, BETA] {
        let list = format!("{prefix}/namespaces/{ns}/flunders");
        for (expected, query) in [
            (Hit, ""),
            (Hit, "?resourceVersion=0"),
            (Hit, "?labelSelector=odd%3D1"),
            (Hit, "?labelSelector=odd%20in%20(0)&resourceVersion=0"),
            (Hit, "?fieldSelector=metadata.name%3Dflunder-3"),
            (
                Bypass("field_selector"),
                "?fieldSelector=spec.reference%3Dother",
            ),
            (Hit, "?limit=3"),
            (Hit, "?limit=3&resourceVersion=0"),
            (Hit, "?pretty=true"),
            (Bypass("future_version"), "?resourceVersion=999999999"),
            (Bypass("invalid_options"), "?resourceVersion=nonsense"),
            (Bypass("invalid_options"), "?limit=nonsense"),
            (Hit, "?includeObject=None"),
        ] {
            for accept in [
                "application/json",
                "application/yaml",
                TABLE_OR_JSON,
                PARTIAL_LIST,
            ] {
                let path = format!("{list}{query}");
                both.expect(expected).get_as(&path, accept).await;
            }
        }
        for one in ["flunder-0", "flunder-9"] {
            for (expected, accept) in [
                (Hit, "application/json"),
                (Hit, "application/yaml"),
                (Hit, TABLE_OR_JSON),
                (Hit, PARTIAL),
                (Bypass("representation"), "text/html"),
            ] {
                for query in ["", "?resourceVersion=0"] {
                    let path = format!("{list}/{one}{query}");
                    both.expect(expected).get_as(&path, accept).await;
                }
            }
        }
    }
    both.get(&format!("{ALPHA}/fischers/fischer-of-{ns}")).await;
    for path in [
        &format!("{BETA}/fischers"),
        &format!("{ALPHA}/nothings"),
        "/apis/wardle.example.com/v9/flunders",
    ] {
        both.expect(Bypass("not_watchable")).get(path).await;
    }
    let mut both = both.expecting(Expect::NotAsked);
    both.get(&format!(
        "{ALPHA}/namespaces/{ns}/flunders/flunder-0/status"
    ))
    .await;
    both.ask(Method::OPTIONS, &flunders(&ns), &[], "").await;
    both.ask(Method::HEAD, &flunders(&ns), &[], "").await;
    both.finish();
}

#[tokio::test]
async fn pages_follow_each_other() {
    let wardle = WardleTwins::shared();
    let ns = still_life(&wardle).await;
    for (first, rest) in [
        (wardle.twins.front_client(), wardle.twins.front_client()),
        (wardle.twins.direct_client(), wardle.twins.front_client()),
        (wardle.twins.front_client(), wardle.twins.direct_client()),
    ] {
        let list = flunders(&ns);
        let mut names = Vec::new();
        let mut page = first.get(&format!("{list}?limit=2")).await.expect(200);
        loop {
            for item in page["items"].as_array().expect("items") {
                names.push(
                    item["metadata"]["name"]
                        .as_str()
                        .expect("a name")
                        .to_owned(),
                );
            }
            let Some(token) = page["metadata"]["continue"].as_str() else {
                break;
            };
            let next = format!("{list}?limit=2&continue={token}");
            page = rest.get(&next).await.expect(200);
        }
        let expected: Vec<String> = (0..7).map(|n| format!("flunder-{n}")).collect();
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn watches_tell_the_same() {
    let wardle = WardleTwins::shared();
    let (direct, front) = (wardle.twins.direct_client(), wardle.twins.front_client());
    let list = flunders(&wardle.namespace("watches").await);
    let listed = direct.get(&list).await.expect(200);
    let version = listed["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    let path = format!("{list}?watch=1&resourceVersion={version}");
    wardle
        .twins
        .front
        .warm(&front, &format!("{list}?resourceVersion=0"))
        .await;
    let mut watches = [
        Watch::open(&direct, &path).await,
        Watch::open(&front, &path).await,
    ];
    for n in 0..3 {
        let name = format!("w-{n}");
        let client = if n % 2 == 0 { &direct } else { &front };
        client
            .post(&list, &flunder(&name, &json!({})))
            .await
            .expect(201);
        let labels = json!({"metadata": {"labels": {"n": n.to_string()}}});
        client
            .patch(&format!("{list}/{name}"), "merge-patch+json", &labels)
            .await
            .expect(200);
        client.delete(&format!("{list}/{name}")).await.expect(200);
    }
    let mut told = Vec::new();
    for watch in &mut watches {
        let events = watch.take(9).await;
        told.push(events.into_iter().map(|e| e.line).collect::<Vec<_>>());
    }
    assert_eq!(told[0], told[1]);
    let initial = format!(
        "{list}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=2"
    );
    direct
        .post(&list, &flunder("last", &json!({})))
        .await
        .expect(201);
    let mut both = Vec::new();
    for client in [&direct, &front] {
        let mut watch = Watch::open(client, &initial).await;
        let added = watch.next().await.expect("an object");
        let bookmark = watch.next().await.expect("a bookmark");
        assert_eq!(bookmark.kind, "BOOKMARK");
        both.push(added.line);
    }
    assert_eq!(both[0], both[1]);
}

/// sample-apiserver has no protobuf for its own kinds, but it has protobuf for their
/// Tables and metadata.
#[tokio::test]
async fn protobuf_is_what_the_backend_can_do() {
    let wardle = WardleTwins::shared();
    let ns = still_life(&wardle).await;
    let mut both: Differential = wardle.twins.differential();
    for accept in [
        PROTOBUF.to_owned(),
        format!("{PROTOBUF},application/json"),
        format!("{PROTOBUF};as=Table;v=v1;g=meta.k8s.io"),
    ] {
        let refused = both.expect(Expect::Bypass("representation"));
        refused.get_as(&flunders(&ns), &accept).await;
    }
    let partial =
        format!("{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json");
    both.get_as(&flunders(&ns), &partial).await;
    let one = format!("{}/flunder-0", flunders(&ns));
    both.get_as(
        &one,
        &format!("{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    )
    .await;
    both.finish();
}

/// Both servers refuse a caller without rights.
#[tokio::test]
async fn the_backend_hears_who_asks() {
    let wardle = WardleTwins::shared();
    let ns = still_life(&wardle).await;
    let (direct, front) = wardle.twins.clients_of("nobody-special", &["nobodies"]);
    let mut both = Differential::new(direct, front).expecting(Expect::NotAsked);
    both.get(&flunders(&ns)).await;
    both.get(&format!("{}/flunder-0", flunders(&ns))).await;
    both.ask(
        Method::DELETE,
        &format!("{}/flunder-0", flunders(&ns)),
        &[],
        "",
    )
    .await;
    both.get(ALPHA).await;
    both.finish();
}
