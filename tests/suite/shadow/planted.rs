//! Shadow mode finds a defect in any representation. A link before kube-apiserver
//! changes answers, so that they differ from the cache: for comparisons it does not
//! matter whose answer is wrong.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING, WARNING};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::task::JoinSet;

use super::{ACCEPTED, SOON, matches, report, start, warm};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;
use crate::harness::{eventually, ports};

/// The request header that asks for a changed answer, and names the change.
const TAMPER: &str = "x-test-tamper";
const WRITTEN: &[u8] = b"planted-1";
const CHANGED: &[u8] = b"planted-2";
/// A comparison may wait for a bookmark. The upstream sends one each minute.
const HEARS_WITHIN: Duration = Duration::from_secs(90);

/// Forwards requests to kube-apiserver, and changes the answer if the request asks
/// for it.
struct Link {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Link {
    async fn before(cluster: &Cluster) -> Self {
        let listener = ports::listen_async();
        let address = listener.local_addr().expect("an address");
        let client = cluster.admin_client();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let client = client.clone();
                let service = service_fn(move |request| pass_on(client.clone(), request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    let _ = connection.await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            _serving: serving,
        }
    }
}

async fn pass_on(
    client: Client,
    request: Request<Incoming>,
) -> anyhow::Result<Response<UnsyncBoxBody<Bytes, hyper::Error>>> {
    let tamper = request.headers().get(TAMPER).cloned();
    let tamper = tamper
        .as_ref()
        .map_or("", |value| value.to_str().unwrap_or(""));
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut headers = Vec::new();
    for (name, value) in &head.headers {
        let of_the_link = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING];
        // The link calls kube-apiserver as its administrator.
        if !of_the_link.contains(name) && !name.as_str().starts_with("x-remote-") {
            headers.push((name.as_str(), value.to_str()?));
        }
    }
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let response = client.try_open(head.method, path, &headers, body).await?;
    let (mut head, body) = response.into_parts();
    match tamper {
        "status" => head.status = StatusCode::CREATED,
        "header" => {
            head.headers
                .insert(WARNING, HeaderValue::from_static("299 - \"planted\""));
        }
        _ => {}
    }
    let (changes, drops) = (tamper == "body", tamper == "event");
    let frames = BodyStream::new(body).filter_map(move |frame| {
        let frame = frame.map(|frame| match frame.into_data() {
            Ok(data) if drops && holds(&data) => None,
            Ok(data) if changes => Some(Frame::data(changed(&data))),
            Ok(data) => Some(Frame::data(data)),
            Err(frame) => Some(frame),
        });
        std::future::ready(frame.transpose())
    });
    Ok(Response::from_parts(
        head,
        StreamBody::new(frames).boxed_unsync(),
    ))
}

fn holds(data: &[u8]) -> bool {
    data.windows(WRITTEN.len()).any(|bytes| bytes == WRITTEN)
}

fn changed(data: &[u8]) -> Bytes {
    let mut data = data.to_vec();
    let places = data.windows(WRITTEN.len()).enumerate();
    let places: Vec<_> = places
        .filter(|(_, b)| *b == WRITTEN)
        .map(|(at, _)| at)
        .collect();
    for at in places {
        data[at..at + CHANGED.len()].copy_from_slice(CHANGED);
    }
    data.into()
}

#[tokio::test]
async fn a_defect_in_any_representation_is_found() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let cluster = &Cluster::leased(&[]).await;
    let link = Link::before(cluster).await;
    let front = start(cluster, |config| {
        let server = format!("http://{}", link.address);
        config["upstream"] = json!({ "servers": [server], "caFile": cluster.ca() });
    })
    .await;
    let client = front.admin_client();
    let ns = cluster.namespace("tampered").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let labels = json!({ "planted": "planted-1" });
    let object = config_map("a", labels.clone(), json!({ "n": "1" }));
    client.post(&list, &object).await.expect(201);
    warm(&front, &list, "configmaps").await;
    let mut expected = 0;
    let mut found = async |what: &str, path: &str| {
        expected += 1;
        eventually(&format!("{what} is found"), HEARS_WITHIN, || async {
            let report = report(&front).await;
            report["comparisons"]["differences"].as_u64() >= Some(expected)
        })
        .await;
        let report = report(&front).await;
        let last = report["differences"].as_array().and_then(|all| all.last());
        let last = last.unwrap_or_else(|| panic!("{report:#}"));
        let named = last["path"].as_str().expect("a path");
        assert!(named.contains(path), "{what}: {last:#}");
        assert_ne!(last["upstream"], last["apifront"], "{what}: {last:#}");
        assert!(!last.to_string().contains("planted-"), "contents: {last:#}");
    };
    for (accept, representation) in &ACCEPTED[..6] {
        let single = accept.replace("MetadataList", "Metadata");
        let paths = [
            (list.clone(), *accept, "list"),
            (format!("{list}/a"), single.as_str(), "get"),
        ];
        for (path, accept, verb) in paths {
            let headers = [("accept", accept), (TAMPER, "body")];
            let answer = client.send(Method::GET, &path, &headers, "").await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let path = match *representation {
                "yaml" | "partial_object_metadata_protobuf" => "body",
                _ => "labels",
            };
            found(&format!("{verb} {representation}"), path).await;
        }
    }
    for (tamper, path) in [("status", "status"), ("header", "header warning")] {
        client
            .send(Method::GET, &list, &[(TAMPER, tamper)], "")
            .await;
        found(tamper, path).await;
    }
    for (n, tamper) in ["body", "event"].into_iter().enumerate() {
        let streams = [
            &ACCEPTED[0],
            &ACCEPTED[2],
            &ACCEPTED[3],
            &ACCEPTED[4],
            &ACCEPTED[5],
        ];
        for (m, (accept, representation)) in streams.into_iter().enumerate() {
            let accept = accept.replace("MetadataList", "Metadata").replace(
                "application/vnd.kubernetes.protobuf",
                "application/vnd.kubernetes.protobuf;stream=watch",
            );
            let accept = match *representation {
                "partial_object_metadata_protobuf" => ACCEPTED[5].0.replace("List", ""),
                "protobuf" => ACCEPTED[2].0.to_owned(),
                _ => accept,
            };
            let watch = format!("{list}?watch=1&timeoutSeconds=20");
            let listed = client.get(&list).await.expect(200);
            let version = listed["metadata"]["resourceVersion"]
                .as_str()
                .expect("version");
            let headers = [("accept", accept.as_str()), (TAMPER, tamper)];
            let path = format!("{watch}&resourceVersion={version}");
            let opened = client.open(&path, &headers).await;
            assert_eq!(opened.status(), 200);
            let name = format!("w{n}-{m}");
            let object = config_map(&name, labels.clone(), json!({ "n": "1" }));
            client.post(&list, &object).await.expect(201);
            // The next event shows that the one before it is missing. It comes
            // later, in its own piece.
            crate::harness::pace::of_load(Duration::from_millis(500)).await;
            let next = config_map(&format!("{name}-next"), json!({}), json!({}));
            client.post(&list, &next).await.expect(201);
            let path = match *representation {
                "partial_object_metadata_protobuf" | "protobuf" if tamper == "body" => "",
                _ => "event",
            };
            found(&format!("watch {representation} {tamper}"), path).await;
            drop(opened);
        }
    }
    // Unchanged answers are equal.
    let before = matches(&report(&front).await, "configmaps", "list", "json");
    client.get(&list).await.expect(200);
    eventually("a match", SOON, || async {
        matches(&report(&front).await, "configmaps", "list", "json") > before
    })
    .await;
    let watch = Watch::open(&client, &format!("{list}?watch=1&timeoutSeconds=1")).await;
    drop(watch);
    front.stop().await;
}

/// Reports about differences must not reveal contents. A plain hash with a length
/// would let everybody who reaches the open port find short or known values by
/// trying.
#[tokio::test]
async fn contents_could_be_guessed_from_what_was_told_of_them() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let cluster = &Cluster::leased(&[]).await;
    let link = Link::before(cluster).await;
    let ns = cluster.namespace("guessed").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut of_processes = Vec::new();
    for _ in 0..2 {
        let front = start(cluster, |config| {
            let server = format!("http://{}", link.address);
            config["upstream"] = json!({ "servers": [server], "caFile": cluster.ca() });
        })
        .await;
        let client = front.admin_client();
        if of_processes.is_empty() {
            let object = config_map("a", json!({ "planted": "planted-1" }), json!({}));
            client.post(&list, &object).await.expect(201);
        }
        warm(&front, &list, "configmaps").await;
        for path in [&list, &format!("{list}/a")] {
            let answer = client.send(Method::GET, path, &[(TAMPER, "body")], "");
            answer.await.expect(200);
        }
        eventually("both are found", HEARS_WITHIN, || async {
            report(&front).await["comparisons"]["differences"] == 2
        })
        .await;
        let report = report(&front).await;
        let found = report["differences"].as_array().expect("differences");
        // Equal values have equal marks in the list and in the object.
        assert!(found[0]["path"] != found[1]["path"], "{report:#}");
        for side in ["upstream", "apifront"] {
            assert_eq!(found[0][side], found[1][side], "{report:#}");
            let told = found[0][side].as_str().expect("a fingerprint");
            let digits = told.strip_prefix("hmac:").expect("a fingerprint");
            let is_hexadecimal = |c: char| c.is_ascii_hexdigit();
            assert!(
                digits.len() == 32 && digits.chars().all(is_hexadecimal),
                "{told}"
            );
        }
        of_processes.push([found[0]["upstream"].clone(), found[0]["apifront"].clone()]);
        // The open port shows only counts.
        let plain = Client::plain(front.observability);
        let open = plain.get("/debug/shadow").await.expect(200);
        assert_eq!(open["comparisons"]["differences"], 2, "{open:#}");
        let resources = open["resources"].as_array().expect("resources");
        let maps = resources.iter().find(|one| one["resource"] == "configmaps");
        let maps = maps.unwrap_or_else(|| panic!("{open:#}"));
        assert!(maps["wouldAnswer"].as_u64() >= Some(2), "{open:#}");
        for path in ["/debug/shadow", "/debug/cache", "/status.json", "/metrics"] {
            let text = plain.get(path).await.text();
            for told in ["hmac:", "sha256", "metadata", "planted"] {
                assert!(!text.contains(told), "{path} has {told}: {text}");
            }
        }
        front.stop().await;
    }
    // Each process has its own key.
    let [one, other] = [&of_processes[0], &of_processes[1]];
    assert!(
        one[0] != other[0] && one[1] != other[1],
        "{one:?} {other:?}"
    );
}
