//! Tests clients that disconnect early.

use std::time::Duration;

use tokio::sync::mpsc;

use super::{SOON, get, h2_request, h2c, personal_before, raw};
use crate::harness::scripted::Scripted;

#[tokio::test]
async fn a_client_that_leaves_is_noticed_upstream() {
    let (noticed, mut notices) = mpsc::channel(16);
    let (arrived, mut arrivals) = mpsc::channel(16);
    let scripted = Scripted::start(move |mut connection| {
        let (noticed, arrived) = (noticed.clone(), arrived.clone());
        async move {
            let Some(request) = connection.next().await else {
                return;
            };
            if request.line.contains("begun") {
                connection
                    .write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
                    .await;
            }
            arrived.send(()).await.expect("the test lives");
            let closed = connection.closed_within(Duration::from_secs(1)).await;
            let _ = noticed.send(closed).await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let pods = "/api/v1/namespaces/default/pods";
    for path in [
        "/slow".to_owned(),
        "/begun".to_owned(),
        format!("{pods}/p"),
        format!("{pods}/p/log?follow=true"),
        format!("{pods}/p/log?follow=true&begun"),
        format!("{pods}?watch=1"),
        format!("{pods}?watch=1&begun"),
    ] {
        let mut http1 = raw(&front).await;
        http1.write(get(&path).as_bytes()).await.expect("write");
        tokio::time::timeout(SOON, arrivals.recv())
            .await
            .expect("it arrives");
        drop(http1);
        let closed = tokio::time::timeout(SOON, notices.recv()).await;
        assert_eq!(closed.expect("a notice"), Some(true), "HTTP/1.1 {path}");

        let mut http2 = h2c(&front).await;
        let request = h2_request(&front, "GET", &path);
        let (answer, _) = http2.send_request(request, true).expect("sent");
        tokio::time::timeout(SOON, arrivals.recv())
            .await
            .expect("it arrives");
        // This sends RST_STREAM, and the connection stays.
        drop(answer);
        let closed = tokio::time::timeout(SOON, notices.recv()).await;
        assert_eq!(closed.expect("a notice"), Some(true), "HTTP/2 {path}");
    }
    // Clients who leave do not fill the log, and are no failures of upstream.
    let log = front.process.log();
    assert!(!log.contains("could not be forwarded"), "{log}");
    front.stop().await;
}
