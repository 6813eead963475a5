//! Tests answers of many megabytes, and clients that read them slowly.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{MUCH, both, front_before, personal_before};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::scripted::Scripted;

/// Reads slowly at first, so that buffers fill and flow control must work.
async fn read_slowly(client: &Client, path: &str) -> Vec<u8> {
    let plain = [("accept-encoding", "identity")];
    let mut body = client.open(path, &plain).await.into_body();
    let mut all = Vec::new();
    let mut pauses = 3;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.expect("the whole answer").into_data() {
            all.extend_from_slice(&data);
        }
        if pauses > 0 && all.len() > (4 - pauses) << 20 {
            pauses -= 1;
            crate::harness::pace::of_load(Duration::from_millis(150)).await;
        }
    }
    all
}

#[tokio::test]
async fn large_answers_arrive_whole() {
    let content: Vec<u8> = (0..MUCH).map(|n| b'a' + (n % 23) as u8).collect();
    let sent = content.clone();
    let scripted = Scripted::start(move |mut connection| {
        let sent = sent.clone();
        async move {
            while let Some(request) = connection.next().await {
                if request.line.contains("chunked") {
                    connection
                        .write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                        .await;
                    for piece in sent.chunks(100_000) {
                        connection.write(format!("{:x}\r\n", piece.len())).await;
                        connection.write(piece).await;
                        connection.write("\r\n").await;
                    }
                    connection.write("0\r\n\r\n").await;
                } else {
                    connection
                        .write(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n"))
                        .await;
                    connection.write(&sent).await;
                }
            }
        }
    })
    .await;
    let personal = personal_before(&scripted).await;
    let front = front_before(&scripted).await;
    let clients = [
        ("HTTP/1.1", Client::plain(personal.address)),
        ("TLS, HTTP/1.1", front.admin_client().over(Protocol::Http1)),
        ("TLS, HTTP/2", front.admin_client()),
    ];
    for (name, client) in &clients {
        for path in ["/sized", "/chunked", "/api/v1/namespaces/x/pods/p/log"] {
            let got = read_slowly(client, path).await;
            assert!(
                got == content,
                "{name} {path}: {} of {MUCH} bytes",
                got.len()
            );
        }
    }
    personal.stop().await;
    front.stop().await;
}

#[tokio::test]
async fn large_cached_answers_arrive_whole() {
    let cluster = Cluster::shared();
    let ns = cluster.namespace("heavy").await;
    let (direct, front) = both();
    let path = format!("/apis/apps/v1/namespaces/{ns}/controllerrevisions");
    for n in 0..20 {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": { "name": format!("r{n:02}") },
            "revision": n, "data": { "text": "x".repeat(1 << 20) },
        });
        direct.post(&path, &object).await.expect(201);
    }
    let list = format!("{path}?resourceVersion=0");
    // With version 0, a state from before the writes would do.
    Apifront::shared().warm(&front, &path).await;
    let expected = direct.get(&list).await.json()["items"].take();
    let personal_config = &cluster.admin_kubeconfig;
    let personal = Apifront::personal(personal_config).await;
    let plain = Client::plain(personal.address);
    personal.warm(&plain, &list).await;
    for (name, client) in [
        ("HTTP/1.1", &plain),
        ("TLS, HTTP/1.1", &front.over(Protocol::Http1)),
        ("TLS, HTTP/2", &front),
    ] {
        let got = read_slowly(client, &list).await;
        let mut got: Value = serde_json::from_slice(&got).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(got["items"].take() == expected, "{name}");
    }
    personal.stop().await;
    direct.delete(&path).await.expect(200);
}
