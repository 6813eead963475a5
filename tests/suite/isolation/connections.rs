//! Idle connections, and clients that open too many.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::frames::{self, CONTINUATION, END_HEADERS, END_STREAM, End, HEADERS, end_within, frame};
use super::measure::{Bound, ELSEWHERE, Times, assert_unharmed};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, connect_from};
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::ports;
use crate::harness::shared::Shared;
use crate::harness::{elsewhere, eventually};

const BOUND: Bound = Bound {
    times_quiet: 20,
    floor: Duration::from_millis(1500),
};

const NO_ERROR: u32 = 0;
/// The deadline in the configuration below.
const DEADLINE: Duration = Duration::from_secs(2);
/// apifront checks deadlines in steps, and the machine also does other things.
const ENDED_WITHIN: Duration = Duration::from_secs(12);

/// An apifront with short deadlines, and its port for plain HTTP.
fn impatient() -> Arc<(Apifront, u16)> {
    static IMPATIENT: Shared<(Apifront, u16)> = Shared::new();
    IMPATIENT.get(|| async {
        let plain = ports::free();
        let front = Apifront::start(Cluster::shared(), |config| {
            config["serving"]["idleTimeout"] = json!("2s");
            config["serving"]["requestHeaderTimeout"] = json!("2s");
            config["serving"]["insecurePort"] = json!(plain);
        })
        .await;
        (front, plain)
    })
}

async fn http2(front: &Apifront) -> tokio_rustls::client::TlsStream<TcpStream> {
    let client = front.admin_client();
    let mut stream = client.tls_stream(b"h2").await.expect("TLS");
    stream.write_all(&frames::beginning()).await.expect("sent");
    stream.flush().await.expect("sent");
    stream
}

#[tokio::test]
async fn idle_http2_connections_lived_for_ever() {
    skip_under_oracle!("the limits of connections are apifront's");
    let impatient = impatient();
    let (front, _) = &*impatient;
    let mut used = http2(front).await;
    let get = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &frames::get("/version"),
    );
    used.write_all(&get).await.expect("sent");
    used.flush().await.expect("sent");
    assert_eq!(
        end_within(&mut used, ENDED_WITHIN).await,
        End::GoAway(NO_ERROR)
    );
    let idle = || front.metric("apifront_connections_closed_total", &[("reason", "idle")]);
    eventually("its end is counted", ENDED_WITHIN, || async {
        idle().await >= 1.0
    })
    .await;
}

/// pingora does not know of a request on the watch's connection.
#[tokio::test]
async fn a_watch_keeps_its_connection() {
    skip_under_oracle!("the limits of connections are apifront's");
    let impatient = impatient();
    let (front, _) = &*impatient;
    let cluster = Cluster::shared();
    let ns = cluster.namespace("idle").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let client = front.admin_client();
    front
        .warm(&client, &format!("{list}?resourceVersion=0"))
        .await;
    let debug = [("x-apifront-debug", "cache")];
    let path = format!("{list}?watch=1&resourceVersion=0&labelSelector=a%3Db");
    let watch = client.open(&path, &debug).await;
    let hit = watch.headers()["x-apifront-cache"].to_str().expect("text");
    assert!(hit.starts_with("hit"), "{hit}");
    let mut body = watch.into_body();
    let silent = tokio::time::timeout(4 * DEADLINE, body.frame()).await;
    assert!(silent.is_err(), "the watch ended: {silent:?}");
    let object = config_map("late", json!({ "a": "b" }), json!({}));
    cluster
        .admin_client()
        .post(&list, &object)
        .await
        .expect(201);
    let event = tokio::time::timeout(ENDED_WITHIN, body.frame()).await;
    let event = event
        .expect("in time")
        .expect("an event")
        .expect("no error");
    let event = event.into_data().expect("data");
    assert!(String::from_utf8_lossy(&event).contains("ADDED"));
}

#[tokio::test]
async fn connections_without_a_request_lived_for_ever() {
    skip_under_oracle!("the limits of connections are apifront's");
    let impatient = impatient();
    let (front, plain) = &*impatient;
    let plain = ports::loopback(*plain);
    // These are nothing, half a TLS record, parts of a preface, and parts of
    // requests.
    for (address, said) in [
        (front.address, &b""[..]),
        (front.address, b"\x16\x03\x01\x02\x00\x01"),
        (plain, b""),
        (plain, b"PRI * HTTP/2.0\r\n\r\nS"),
        (plain, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (plain, b"GET /version HTT"),
        (front.observability, b"GET"),
    ] {
        let mut stream = TcpStream::connect(address).await.expect("connect");
        stream.write_all(said).await.expect("sent");
        let end = async { while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {} };
        let ended = tokio::time::timeout(ENDED_WITHIN, end).await;
        assert!(
            ended.is_ok(),
            "{address} {:?}",
            String::from_utf8_lossy(said)
        );
    }
    // One has TLS without a preface, the other a preface without a request.
    let mut silent = front.admin_client().tls_stream(b"h2").await.expect("TLS");
    assert_ne!(end_within(&mut silent, ENDED_WITHIN).await, End::Open);
    let mut greeted = http2(front).await;
    assert_ne!(end_within(&mut greeted, ENDED_WITHIN).await, End::Open);
    for reason in ["handshake-timeout", "header-timeout"] {
        let labels = [("reason", reason)];
        let closed = front
            .metric("apifront_connections_closed_total", &labels)
            .await;
        assert!(closed >= 2.0, "{reason}: {closed}");
    }
}

/// An open stream before the endless headers must not keep the connection alive.
#[tokio::test]
async fn headers_that_never_end_held_a_connection() {
    skip_under_oracle!("the limits of connections are apifront's");
    let impatient = impatient();
    let (front, _) = &*impatient;
    let client = front.admin_client();
    front
        .warm(&client, "/api/v1/namespaces?resourceVersion=0")
        .await;
    let mut stream = http2(front).await;
    let watch = frames::get("/api/v1/namespaces?watch=1&resourceVersion=0");
    let block = frames::get("/version");
    let mut bytes = frame(HEADERS, END_HEADERS | END_STREAM, 1, &watch);
    bytes.extend(frame(HEADERS, END_STREAM, 3, &block));
    stream.write_all(&bytes).await.expect("sent");
    let (mut reader, mut writer) = tokio::io::split(stream);
    let dribble = async {
        loop {
            // One byte of the block, in its own frame.
            crate::harness::pace::of_load(DEADLINE / 2).await;
            let more = frame(CONTINUATION, 0, 3, &[0x00]);
            if writer.write_all(&more).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    };
    let end = async {
        let mut buffer = vec![0; 16 << 10];
        while reader.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
    };
    tokio::select! {
        () = end => {}
        () = dribble => {}
        () = crate::harness::pace::lasting(ENDED_WITHIN) => panic!("still open"),
    }
}

/// Like kube-apiserver, apifront ends an HTTP/2 connection after a 401.
#[tokio::test]
async fn unknown_callers_kept_http2_connections() {
    skip_under_oracle!("the limits of connections are apifront's");
    let front = Apifront::shared();
    let get = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &frames::get("/version"),
    );
    let clients = [
        (front.client(None), true),
        (Cluster::shared().client(None), true),
        (front.admin_client(), false),
    ];
    for (client, ends) in clients {
        let mut stream = client.tls_stream(b"h2").await.expect("TLS");
        stream.write_all(&frames::beginning()).await.expect("sent");
        stream.write_all(&get).await.expect("sent");
        stream.flush().await.expect("sent");
        let end = end_within(&mut stream, Duration::from_secs(4)).await;
        let expected = if ends {
            End::GoAway(NO_ERROR)
        } else {
            End::Open
        };
        assert_eq!(end, expected, "{}", client.address());
    }
}

#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn one_address_took_all_connections() {
    const LIMIT: usize = 200;
    skip_under_oracle!("the limits of connections are apifront's");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxConnections"] = json!(2 * LIMIT);
        config["serving"]["maxConnectionsPerClient"] = json!(LIMIT);
    })
    .await;
    let victim = front.admin_client();
    let path = "/api/v1/namespaces?resourceVersion=0";
    front.warm(&victim, path).await;
    let quiet = Times::reads_for(&victim.separate(), path, Duration::from_secs(2)).await;

    // Half handshakes, and prefaces without requests.
    let mut held = Vec::new();
    for _ in 0..3 * LIMIT {
        let stream = connect_from(ELSEWHERE, front.address)
            .await
            .expect("connect");
        held.push(stream);
    }
    let open = || front.metric("apifront_connections", &[("listener", "secure")]);
    eventually("only so many are open", Duration::from_secs(10), || async {
        open().await <= (LIMIT + 2) as f64
    })
    .await;
    let mut refused = 0;
    for stream in &mut held {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte));
        refused += usize::from(read.await.is_ok());
    }
    assert_eq!(refused, 2 * LIMIT, "more than the limit stayed");
    let labels = [("listener", "secure"), ("limit", "client")];
    let counted = front
        .metric("apifront_connections_refused_total", &labels)
        .await;
    assert_eq!(counted, (2 * LIMIT) as f64);
    let log = front.process.log();
    let logged = log
        .lines()
        .filter(|line| line.contains("too many are open"));
    let logged: Vec<&str> = logged.collect();
    assert!(
        logged.len() == 1 && logged[0].contains("client") && logged[0].contains("127.0.0."),
        "{logged:?}"
    );

    // New connections of another client, while the first one keeps reconnecting.
    let address = front.address;
    let storm = elsewhere::spawn(async move {
        loop {
            let _ = connect_from(ELSEWHERE, address).await;
            tokio::task::yield_now().await;
        }
    });
    let fresh: Client = victim.separate();
    let attacked = Times::reads_for(&fresh, path, Duration::from_secs(3)).await;
    let again = victim.separate().get(path).await;
    storm.abort();
    assert_eq!(again.status, 200);
    assert_unharmed("connections of one address", &quiet, &attacked, BOUND);

    // Closed connections make room.
    drop(held);
    eventually("they are gone", Duration::from_secs(10), || async {
        open().await <= 3.0
    })
    .await;
    let stream = victim.tls_stream_from(ELSEWHERE, b"h2").await;
    assert!(stream.is_ok(), "{stream:?}");
    front.stop().await;
}
