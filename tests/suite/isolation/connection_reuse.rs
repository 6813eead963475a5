//! Tests an HTTP/1.1 connection after a watch. The connection must not be announced
//! as kept alive and then closed: the next request of kube-rs or Python would fail.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;

const SOON: Duration = Duration::from_secs(20);

/// Requests all paths in turn on one connection, and returns the statuses.
async fn in_turn(client: &Client, paths: &[&str]) -> Vec<u16> {
    let stream = client.tls_stream(b"http/1.1").await.expect("a connection");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .expect("HTTP/1");
    tokio::spawn(connection);
    let mut codes = Vec::new();
    for path in paths {
        let request = Request::get(*path)
            .header("host", client.address().to_string())
            .body(Empty::<Bytes>::new())
            .expect("a request");
        let ask = async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let code = response.status().as_u16();
            response.into_body().collect().await?;
            Ok::<_, hyper::Error>(code)
        };
        let asked = tokio::time::timeout(SOON, ask).await;
        match asked.unwrap_or_else(|_| panic!("{path}: no answer")) {
            Ok(code) => codes.push(code),
            Err(error) => panic!("{path} after {codes:?}: {error:?}"),
        }
    }
    codes
}

#[tokio::test]
async fn an_http1_connection_lives_on_after_its_watch() {
    let front = Apifront::quiet();
    let watched = "/api/v1/namespaces/default/configmaps";
    let admin = front.admin_client();
    front
        .warm(&admin, &format!("{watched}?resourceVersion=0"))
        .await;
    let ends = format!("{watched}?watch=1&resourceVersion=0&timeoutSeconds=1");
    // Events are excluded from the cache, so this watch is forwarded.
    let forwarded = "/api/v1/events?watch=1&timeoutSeconds=1";
    // An error event ends this watch.
    let expired = format!("{watched}?watch=1&resourceVersion=1&timeoutSeconds=1");
    let paths = [
        &ends,
        "/version",
        forwarded,
        forwarded,
        &expired,
        &ends,
        "/api/v1/namespaces/default",
        &ends,
        &ends,
        "/version",
    ];
    for client in [Cluster::quiet().admin_client(), admin] {
        let codes = in_turn(&client, &paths).await;
        assert_eq!(codes, [200; 10], "on {}", client.address());
    }
}
