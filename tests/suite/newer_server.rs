//! Tests apifront before an API server newer than our schema. Fields that we do not
//! know must reach the client in every representation.

use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

use crate::harness::ages_have_ticked;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::media_types::{JSON, PROTOBUF, TABLE_OR_JSON};
use crate::harness::newer::{JSON_FIELD, Newer, PROTOBUF_FIELD};
use crate::harness::objects::pod;
use crate::harness::process;

const WITHIN: Duration = Duration::from_secs(20);
/// The number of tries, since ages in Tables tick and a watch may end.
const TRIES: usize = 4;

struct Servers {
    cluster: &'static Cluster,
    newer: Newer,
    front: Apifront,
    pods: String,
}

impl Servers {
    async fn start(purpose: &str) -> Self {
        let cluster = Cluster::shared();
        let newer = Newer::before(cluster.admin_client()).await;
        let folder = process::temporary_folder("newer");
        let config = kubeconfig::write(&folder, "newer", &newer.url(), None, Credential::None);
        let front = Apifront::personal(&config).await;
        let pods = format!(
            "/api/v1/namespaces/{}/pods",
            cluster.namespace(purpose).await
        );
        let admin = cluster.admin_client();
        for name in ["a", "b", "c"] {
            let body = pod(name, json!({ "app": name }));
            admin.post(&pods, &body).await.expect(201);
        }
        Self {
            cluster,
            newer,
            front,
            pods,
        }
    }

    fn direct(&self) -> Client {
        Client::plain(self.newer.address)
    }

    fn front(&self) -> Client {
        Client::plain(self.front.address)
    }
}

fn partial(encoding: &str, kind: &str) -> String {
    format!("{encoding};as={kind};v=v1;g=meta.k8s.io")
}

fn contains(body: &[u8], what: &[u8]) -> bool {
    body.windows(what.len()).any(|window| window == what)
}

#[tokio::test]
async fn unknown_fields_in_every_representation() {
    let servers = Servers::start("newer").await;
    let pods = &servers.pods;
    let mut reads = Vec::new();
    for query in [
        "",
        "?resourceVersion=0",
        "?limit=2",
        "?labelSelector=app%3Da",
    ] {
        let path = format!("{pods}{query}");
        for encoding in [JSON, PROTOBUF] {
            reads.push((path.clone(), encoding.to_owned()));
            let list = partial(encoding, "PartialObjectMetadataList");
            reads.push((path.clone(), list));
        }
        reads.push((path.clone(), TABLE_OR_JSON.to_owned()));
        let and = if query.is_empty() { "?" } else { "&" };
        reads.push((
            format!("{path}{and}includeObject=Object"),
            TABLE_OR_JSON.to_owned(),
        ));
    }
    for path in [format!("{pods}/a"), format!("{pods}/a?resourceVersion=0")] {
        for accept in [JSON, PROTOBUF, TABLE_OR_JSON] {
            reads.push((path.clone(), accept.to_owned()));
        }
        for encoding in [JSON, PROTOBUF] {
            let accept = partial(encoding, "PartialObjectMetadata");
            reads.push((path.clone(), accept));
        }
    }
    let mut differential = Differential::new(servers.direct(), servers.front());
    for _ in 0..2 {
        for (path, accept) in &reads {
            // kube-apiserver makes the protobuf of objects with fields that the
            // schema does not have.
            let expected = match accept.contains("protobuf") {
                true => Expect::Bypass("representation"),
                false => Expect::Hit,
            };
            differential.expect(expected).get_as(path, accept).await;
            let answer = servers.front().get_as(path, accept).await;
            let field = match accept.contains("protobuf") {
                true => PROTOBUF_FIELD,
                false => JSON_FIELD.as_bytes(),
            };
            let shown = contains(&answer.body, field);
            assert!(shown, "{path} as {accept}: {}", answer.text());
        }
    }
    differential.finish();
}

#[tokio::test]
async fn unknown_fields_in_watches() {
    let servers = Servers::start("newer-watch").await;
    let pods = &servers.pods;
    let list = servers.direct().get(pods).await.expect(200);
    let version = list["metadata"]["resourceVersion"].as_str().expect("one");
    let accepted = [
        JSON.to_owned(),
        format!("{PROTOBUF};stream=watch"),
        TABLE_OR_JSON.to_owned(),
        partial(JSON, "PartialObjectMetadata"),
        partial(&format!("{PROTOBUF};stream=watch"), "PartialObjectMetadata"),
    ];
    let mut number = 0;
    for query in [
        format!("watch=1&resourceVersion={version}"),
        "watch=1&resourceVersion=0".to_owned(),
    ] {
        for accept in &accepted {
            let path = format!("{pods}?{query}");
            let mut both = Vec::new();
            for _ in 0..TRIES {
                number += 1;
                both = watched(&servers, &path, accept, number).await;
                if both[0] == both[1] {
                    break;
                }
                ages_have_ticked().await;
            }
            assert_eq!(both[1], both[0], "{path} as {accept}");
        }
    }
}

/// Watches directly and through apifront, then makes a change. Returns the bytes of
/// each watch up to the change.
async fn watched(servers: &Servers, path: &str, accept: &str, number: usize) -> Vec<String> {
    let mut streams = [
        Stream::open(&servers.direct(), path, accept).await,
        Stream::open(&servers.front(), path, accept).await,
    ];
    let value = format!("value-{number}");
    let patch = json!({ "metadata": { "labels": { "changed": value } } });
    let pod = format!("{}/c", servers.pods);
    let admin = servers.cluster.admin_client();
    admin
        .patch(&pod, "merge-patch+json", &patch)
        .await
        .expect(200);
    // Protobuf has the field after the labels, JSON before them.
    let expected = match accept.contains("protobuf") {
        true => [value.as_bytes(), PROTOBUF_FIELD],
        false => [JSON_FIELD.as_bytes(), value.as_bytes()],
    };
    let mut both = Vec::new();
    for stream in &mut streams {
        let bytes = stream.until(&expected).await;
        let bytes = bytes.map(|bytes| bytes.escape_ascii().to_string());
        both.push(bytes.unwrap_or_else(|| "ended".to_owned()));
    }
    both
}

struct Stream {
    body: Incoming,
    read: BytesMut,
}

impl Stream {
    async fn open(client: &Client, path: &str, accept: &str) -> Self {
        let response = client.open(path, &[("accept", accept)]).await;
        assert_eq!(response.status(), 200, "{path} as {accept}");
        Self {
            body: response.into_body(),
            read: BytesMut::new(),
        }
    }

    /// Returns all bytes up to the end of the last of `those`, which must come in
    /// this order. Returns `None` if the watch ends before that: a watch ends when
    /// it meets an object that it cannot write, and its successor is forwarded.
    async fn until(&mut self, those: &[&[u8]]) -> Option<&[u8]> {
        let end = loop {
            let found = those.iter().try_fold(0, |from, what| {
                let mut windows = self.read[from..].windows(what.len());
                let at = windows.position(|window| window == *what)?;
                Some(from + at + what.len())
            });
            if let Some(end) = found {
                break end;
            }
            let frame = tokio::time::timeout(WITHIN, self.body.frame()).await;
            match frame {
                Ok(Some(Ok(frame))) => self
                    .read
                    .extend_from_slice(&frame.into_data().unwrap_or_default()),
                Ok(None) => return None,
                other => panic!("{other:?} after {}", self.read.escape_ascii()),
            }
        };
        Some(&self.read[..end])
    }
}
