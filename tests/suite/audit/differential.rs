//! Compares the audit events of kube-apiserver and apifront for the same policy
//! and the same requests.

use http::Method;
use kubernetes_wire::api::protobuf::MAGIC;
use kubernetes_wire::api::protobuf_wire::put_bytes;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::world::{Sent, Side, Who, World, comparable, lines, parsed};
use crate::harness::media_types::{PARTIAL_LIST, PROTOBUF, TABLE};

/// The number of random reads for both servers, in addition to those of the table.
const RANDOM_READS: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn events_are_those_of_kube_apiserver() {
    skip_under_oracle!("kube-apiserver is what the events are compared with");
    let world = World::start().await;
    let mut wrong = Vec::new();
    for (n, (who, sent)) in reads(&world.namespace).into_iter().enumerate() {
        wrong.extend(asked_of_both(&world, &format!("read-{n}"), who, &sent).await);
    }
    let seed = std::env::var("APIFRONT_TEST_SEED").ok();
    let seed = seed
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| rand::rng().random());
    println!("APIFRONT_TEST_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for n in 0..RANDOM_READS {
        let (who, sent) = random_read(&mut rng, &world.namespace);
        wrong.extend(asked_of_both(&world, &format!("random-{n}"), who, &sent).await);
    }
    for (n, (who, sent)) in writes(&world.namespace).into_iter().enumerate() {
        wrong.extend(forwarded(&world, &format!("write-{n}"), who, &sent).await);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
    // The policy has level None for probes.
    let probes = lines(&world.front_log).into_iter();
    assert_eq!(probes.filter(|line| line.contains("/readyz")).count(), 0);
    world.front.stop().await;
}

/// The most times that a Table is asked for. Its ages may change between the two
/// servers' answers.
const TABLE_TRIES: usize = 5;

/// Sends the request to each server directly. Events have annotations only where the
/// server authorized the request itself; apifront does so if it answers from the
/// cache.
async fn asked_of_both(world: &World, name: &str, who: Who, sent: &Sent) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_table = sent.headers.iter().any(|(_, value)| value == TABLE);
    let tries = if is_table { TABLE_TRIES } else { 1 };
    for n in 0..tries {
        wrong = asked_once(world, &format!("{name}-{n}"), who, sent).await;
        if wrong.is_empty() {
            break;
        }
    }
    wrong
}

async fn asked_once(world: &World, name: &str, who: Who, sent: &Sent) -> Vec<String> {
    let (mut theirs, ours) = (format!("{name}-upstream"), format!("{name}-front"));
    let client = world.user(Side::Upstream, who);
    let mut upstream = sent.try_by(&client, &theirs).await;
    if upstream.is_err() && client.may_reset(&sent.path) {
        theirs += "-again";
        upstream = sent.try_by(&client, &theirs).await;
    }
    let upstream = upstream.unwrap_or_else(|error| panic!("{sent:?}: {error:#}"));
    let front = sent.by(&world.user(Side::Front, who), &ours).await;
    let mut wrong = Vec::new();
    if upstream.status != front.status {
        wrong.push(format!(
            "{who:?} {sent:?}: {} {}",
            upstream.status, front.status
        ));
    }
    let theirs = (world.events(Side::Upstream, &theirs).await, theirs);
    let ours = (world.events(Side::Front, &ours).await, ours);
    wrong.extend(compare(who, sent, theirs, ours, false));
    wrong
}

/// Sends the request only to apifront, which forwards it. Both servers have events
/// of it, under its Audit-ID.
async fn forwarded(world: &World, name: &str, who: Who, sent: &Sent) -> Vec<String> {
    sent.by(&world.user(Side::Front, who), name).await;
    let theirs = (world.events(Side::Upstream, name).await, name.to_owned());
    let ours = (world.events(Side::Front, name).await, name.to_owned());
    compare(who, sent, theirs, ours, true)
}

fn compare(
    who: Who,
    sent: &Sent,
    (theirs, their_id): (Vec<String>, String),
    (ours, our_id): (Vec<String>, String),
    forwarded: bool,
) -> Vec<String> {
    let what = format!("{who:?} {} {}", sent.method, sent.path);
    if theirs.len() != ours.len() {
        return vec![format!("{what}:\n theirs {theirs:#?}\n ours {ours:#?}")];
    }
    let mut wrong = Vec::new();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let (their_text, our_text) = (comparable(theirs, &their_id), comparable(ours, &our_id));
        if their_text == our_text {
            continue;
        }
        let (mut a, mut b) = (parsed(theirs), parsed(ours));
        for event in [&mut a, &mut b] {
            for field in ["auditID", "requestReceivedTimestamp", "stageTimestamp"] {
                event.remove(field);
            }
        }
        explain(sent, &mut a, &mut b, forwarded);
        if a != b {
            let mut fields = String::new();
            for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
                if a.get(key) != b.get(key) {
                    let show = |v: Option<&Value>| v.map_or("-".to_owned(), Value::to_string);
                    fields.push_str(&format!(
                        "\n  {key}\n    theirs {}\n    ours   {}",
                        show(a.get(key)),
                        show(b.get(key))
                    ));
                }
            }
            wrong.push(format!("{what}{fields}"));
        }
    }
    wrong
}

type Event = std::collections::BTreeMap<String, Value>;

/// Removes the differences that have a reason.
fn explain(sent: &Sent, theirs: &mut Event, ours: &mut Event, forwarded: bool) {
    // Another client may have written between the two requests.
    for event in [&mut *theirs, &mut *ours] {
        for field in ["responseObject", "responseStatus"] {
            let message = event.get_mut(field).and_then(|o| o.get_mut("message"));
            if let Some(Value::String(message)) = message
                && message.starts_with("Timeout: Too large resource version: ")
                && let Some(at) = message.find(", current: ")
            {
                message.truncate(at);
            }
        }
    }
    // apifront stands between caller and upstream, and does not know the upstream's
    // decisions and actions.
    if forwarded {
        theirs.remove("sourceIPs");
        ours.remove("sourceIPs");
    }
    let has_annotations = ours.contains_key("annotations");
    if forwarded || !has_annotations {
        theirs.remove("annotations");
        ours.remove("annotations");
    }
    if let Some(annotations) = theirs.get_mut("annotations").and_then(Value::as_object_mut) {
        // kube-apiserver adds these to requests that took longer than half a second.
        annotations.retain(|key, _| !key.starts_with("apiserver.latency.k8s.io/"));
    }
    // Health requests are not authenticated.
    if sent.path.starts_with("/livez") || sent.path.starts_with("/healthz") {
        theirs.remove("user");
        ours.remove("user");
        theirs.remove("annotations");
        ours.remove("annotations");
    }
    // An error's body is not sent in answer to HEAD.
    if sent.method == Method::HEAD {
        for event in [&mut *theirs, &mut *ours] {
            event.remove("responseObject");
            if let Some(code) = event.get("responseStatus").map(|s| s["code"].clone()) {
                event.insert("responseStatus".to_owned(), code);
            }
        }
    }
    // The version of a list depends on the moment.
    for event in [&mut *theirs, &mut *ours] {
        let list = event.get_mut("responseObject");
        let metadata = list.and_then(|l| l.get_mut("metadata"));
        if let Some(metadata) = metadata.and_then(Value::as_object_mut)
            && !metadata.contains_key("name")
        {
            metadata.remove("resourceVersion");
            // A review's managedFields contain the time.
            metadata.remove("managedFields");
        }
    }
    // kube-apiserver records the object as it understood it: with defaults, and with
    // a Secret's stringData as data. apifront records what was sent.
    if let (Some(a), Some(b)) = (theirs.get_mut("requestObject"), ours.get("requestObject"))
        && (contains(a, b) || b.get("stringData").is_some())
    {
        *a = b.clone();
    }
}

fn contains(larger: &Value, smaller: &Value) -> bool {
    match (larger, smaller) {
        (Value::Object(a), Value::Object(b)) => b
            .iter()
            .all(|(key, value)| a.get(key).is_some_and(|other| contains(other, value))),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| contains(a, b))
        }
        (a, b) => a == b,
    }
}

/// Returns requests that change nothing.
fn reads(ns: &str) -> Vec<(Who, Sent)> {
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let pods = format!("/api/v1/namespaces/{ns}/pods");
    let of = |who, path: &str| {
        (
            who,
            Sent::get(path.replace("MAPS", &maps).replace("PODS", &pods)),
        )
    };
    let mut all = vec![
        of(Who::Admin, "MAPS?resourceVersion=0"),
        of(Who::Admin, "MAPS"),
        of(Who::Tess, "MAPS?resourceVersion=0"),
        of(Who::Tess, "MAPS/a"),
        of(Who::Tess, "MAPS/none"),
        of(Who::Theo, "MAPS/a"),
        of(Who::Theo, "MAPS?resourceVersion=0"),
        of(Who::AdminAsTess, "MAPS?resourceVersion=0"),
        of(Who::AdminAsTess, "PODS"),
        of(Who::TheoAsTess, "MAPS?resourceVersion=0"),
        of(Who::WrongToken, "MAPS"),
        of(Who::Nobody, "MAPS"),
        of(Who::Nobody, "/api"),
        of(Who::Nobody, "MAPS?watch=1"),
        of(
            Who::Admin,
            "MAPS?watch=1&timeoutSeconds=1&resourceVersion=0",
        ),
        of(Who::Tess, "MAPS?watch=1&timeoutSeconds=1"),
        of(Who::Theo, "MAPS?watch=1"),
        of(Who::Admin, "/api/v1/watch/namespaces?timeoutSeconds=1"),
        of(Who::Admin, "MAPS?watch=1&resourceVersion=x"),
        of(
            Who::Admin,
            "MAPS?labelSelector=app%3Da%2Cx%20in%20(%3C%3E%26)&resourceVersion=0",
        ),
        of(Who::Admin, "MAPS?labelSelector=%21%21"),
        of(
            Who::Admin,
            "MAPS?fieldSelector=metadata.name%3Da&resourceVersion=0",
        ),
        of(Who::Admin, "MAPS?fieldSelector=spec.x%3Da"),
        of(Who::Admin, "MAPS?limit=1&resourceVersion=0"),
        of(Who::Admin, "MAPS?resourceVersion=1000000000"),
        of(Who::Admin, "MAPS?continue=nonsense"),
        of(Who::Admin, "/api/v1/namespaces?resourceVersion=0"),
        of(Who::Admin, "/api/v1/namespaces/kube-system"),
        of(Who::Admin, "/api/v1/nodes/none/status"),
        of(Who::Admin, "/api/v1/nothings"),
        of(Who::Admin, "/apis/nothing.example/v1/things/a"),
        of(Who::Admin, "/apis/apps/v1/deployments?resourceVersion=0"),
        of(Who::Admin, "/api/v1/secrets?resourceVersion=0"),
        of(Who::Admin, "/api"),
        of(Who::Admin, "/apis"),
        of(Who::Admin, "/api/v1"),
        of(Who::Theo, "/api/v1"),
        of(Who::Admin, "/version"),
        of(Who::Admin, "/api/v1/componentstatuses"),
        of(
            Who::Admin,
            "/api/v1/namespaces/default/endpoints?resourceVersion=0",
        ),
        of(Who::Tess, "/api/v1/namespaces/default/endpoints/kubernetes"),
        of(Who::Admin, "/nothing"),
        of(Who::Theo, "/logs/"),
        of(Who::Theo, "/metrics"),
        of(Who::Admin, "/livez"),
        of(Who::Admin, "/healthz/ping"),
        of(Who::Admin, "PODS/none/log"),
        of(Who::Admin, "PODS/none/exec?command=ls"),
        of(Who::Theo, "PODS/none/log"),
        of(Who::Theo, "PODS/none/exec?command=ls"),
        of(Who::Admin, "PODS/none/proxy/x"),
        of(Who::Admin, "MAPS/a%62"),
    ];
    let accepts = [
        TABLE,
        PARTIAL_LIST,
        PROTOBUF,
        "application/yaml",
        "text/nothing",
    ];
    for accept in accepts {
        for path in [
            "MAPS?resourceVersion=0",
            "MAPS/none",
            "PODS?resourceVersion=0",
        ] {
            let (who, sent) = of(Who::Admin, path);
            all.push((who, sent.header("accept", accept)));
        }
    }
    let (who, sent) = of(Who::Admin, "MAPS/a");
    all.push((
        who,
        sent.clone()
            .header("x-forwarded-for", "10.0.0.1, 010.0.0.2,nonsense")
            .header("x-real-ip", "2001:db8::1")
            .header("user-agent", "x<y>".repeat(300)),
    ));
    // The second answer comes from memory.
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } },
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = Sent::with_body(
        Method::POST,
        path.to_owned(),
        "application/json",
        &review.to_string(),
    );
    for who in [Who::Tess, Who::AdminAsTess] {
        all.extend([(who, review.clone()), (who, review.clone())]);
    }
    let exec = Sent::with_body(Method::POST, format!("{pods}/none/exec"), "text/plain", "");
    all.push((Who::Admin, exec.clone()));
    all.push((Who::Theo, exec));
    let mut head = sent;
    head.method = Method::HEAD;
    all.push((Who::Admin, head));
    all
}

fn random_read(rng: &mut StdRng, ns: &str) -> (Who, Sent) {
    let who = [
        Who::Admin,
        Who::Admin,
        Who::Tess,
        Who::Theo,
        Who::AdminAsTess,
        Who::WrongToken,
    ];
    let resource = ["configmaps", "configmaps", "pods", "secrets", "nothings"];
    let place = [
        format!("/api/v1/namespaces/{ns}/"),
        "/api/v1/".to_owned(),
        "/api/v1/namespaces/none/".to_owned(),
    ];
    let rest = ["", "", "/a", "/none", "/a/status"];
    let query = [
        "",
        "?resourceVersion=0",
        "?labelSelector=app%3Da",
        "?limit=1",
        "?watch=1&timeoutSeconds=1&resourceVersion=0",
        "?pretty=true",
        "?resourceVersion=1&resourceVersionMatch=Exact",
    ];
    let accept = [
        "application/json",
        PROTOBUF,
        TABLE,
        PARTIAL_LIST,
        "application/yaml",
        "*/*",
    ];
    let mut pick = |list: &[&str]| (*list.choose(rng).expect("some")).to_owned();
    let path = format!("{}{}{}", pick(&resource), pick(&rest), pick(&query));
    let accept = pick(&accept);
    let place = place.choose(rng).expect("some");
    let sent = Sent::get(format!("{place}{path}")).header("accept", accept);
    (*who.choose(rng).expect("some"), sent)
}

/// Returns a ConfigMap with only `metadata.name`, in its envelope.
fn protobuf_config_map(name: &str) -> Vec<u8> {
    let field = |number: u8, value: &[u8]| {
        let mut out = Vec::new();
        put_bytes(number, value, &mut out);
        out
    };
    let metadata = field(1, name.as_bytes());
    let meta = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    let raw = field(1, &metadata);
    [MAGIC.to_vec(), field(1, &meta), field(2, &raw)].concat()
}

/// Returns requests that are forwarded, in an order in which each has its intended
/// result.
fn writes(ns: &str) -> Vec<(Who, Sent)> {
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let json = "application/json";
    let map = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "text": "a<b" },
        })
        .to_string()
    };
    let send = |method: Method, path: &str, kind: &str, body: &str| {
        let path = path.replace("MAPS", &maps).replace("NS", ns);
        (Who::Admin, Sent::with_body(method, path, kind, body))
    };
    let post = |path: &str, body: &Value| send(Method::POST, path, json, &body.to_string());
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
        "spec": {
            "selector": { "matchLabels": { "app": "d" } },
            "template": {
                "metadata": { "labels": { "app": "d" } },
                "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
            },
        },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
    });
    let mut all = vec![
        send(Method::POST, "MAPS", json, &map("c")),
        send(Method::POST, "MAPS", json, &map("c")),
        send(
            Method::POST,
            "MAPS?dryRun=All&fieldManager=me",
            json,
            &map("d"),
        ),
        send(Method::POST, "MAPS", json, &map("Not A Name")),
        send(Method::POST, "MAPS", json, "{ \"kind\": "),
        send(
            Method::POST,
            "MAPS",
            json,
            "{\"apiVersion\":\"v1\",\"kind\":\"Secret\"}",
        ),
        send(Method::POST, "MAPS", "text/plain", "x"),
        send(
            Method::POST,
            "MAPS",
            "application/yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: y}}",
        ),
        send(
            Method::POST,
            "MAPS",
            json,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"generateName\":\"g-\"}}",
        ),
        send(Method::PUT, "MAPS/c", json, &map("c")),
        send(Method::PUT, "MAPS/c", json, &map("other")),
        send(
            Method::PUT,
            "MAPS/c",
            json,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\",\"resourceVersion\":\"1\",\"uid\":\"u\"}}",
        ),
        send(
            Method::PATCH,
            "MAPS/c",
            "application/merge-patch+json",
            "{ \"data\": {\"x\": \"<\"} }",
        ),
        send(
            Method::PATCH,
            "MAPS/none",
            "application/merge-patch+json",
            "{}",
        ),
        send(
            Method::PATCH,
            "MAPS/c",
            "application/json-patch+json",
            "[{\"op\":\"test\",\"path\":\"/data/x\",\"value\":\"<\"}]",
        ),
        send(
            Method::PATCH,
            "MAPS/c",
            "application/json-patch+json",
            "[{\"op\":\"test\",\"path\":\"/data/x\",\"value\":\"y\"}]",
        ),
        send(
            Method::PATCH,
            "MAPS/applied?fieldManager=me&force=true",
            "application/apply-patch+yaml",
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"applied\"},\"data\":{\"a\":\"b\"}}",
        ),
        send(
            Method::DELETE,
            "MAPS/c",
            json,
            "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Background\"}",
        ),
        send(Method::DELETE, "MAPS/none", json, ""),
        send(Method::DELETE, "MAPS?labelSelector=none%3Dnone", json, ""),
        post("/apis/apps/v1/namespaces/NS/deployments", &deployment),
        send(
            Method::PATCH,
            "/apis/apps/v1/namespaces/NS/deployments/d/scale",
            "application/merge-patch+json",
            "{\"spec\":{\"replicas\":0}}",
        ),
        post("/api/v1/namespaces/NS/pods", &pod),
        post(
            "/api/v1/namespaces/NS/pods/p/binding",
            &json!({ "apiVersion": "v1", "kind": "Binding", "target": { "kind": "Node", "name": "none" } }),
        ),
        post(
            "/api/v1/namespaces/NS/pods/p/eviction",
            &json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } }),
        ),
        post(
            "/api/v1/namespaces",
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "audited-new" } }),
        ),
        send(Method::DELETE, "/api/v1/namespaces/audited-new", json, ""),
        post(
            "/api/v1/namespaces/NS/secrets",
            &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "a": "b" } }),
        ),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } },
            }),
        ),
        post(
            "/api/v1/namespaces/NS/serviceaccounts/none/token",
            &json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": [] } }),
        ),
        post("/api/v1/nothings", &json!({})),
        post("/version", &json!({})),
        send(Method::PUT, "/nothing", json, "x"),
    ];
    let mut in_protobuf = Sent::with_body(Method::POST, maps.clone(), PROTOBUF, "");
    in_protobuf.body = protobuf_config_map("proto");
    all.push((Who::Admin, in_protobuf.header("accept", PROTOBUF)));
    for who in [Who::Theo, Who::Tess] {
        let (_, sent) = send(Method::POST, "MAPS", json, &map("z"));
        all.push((who, sent));
    }
    all
}
