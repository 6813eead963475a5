//! The shared state of callers on the way upstream: connections, and the verdict
//! whether an API server is healthy.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use http_body_util::{Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::frames::{self, HEADERS, RST_STREAM, frame};
use super::measure::{Bound, Times, assert_unharmed};
use super::neighbour::{BINDINGS, administrators};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::scripted::Scripted;
use crate::harness::{elsewhere, eventually};

/// Without isolation these requests take more than 20 s.
pub(super) const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_secs(2),
};
/// This is long enough to see that a request hangs.
const HANGS: Duration = Duration::from_secs(20);

/// A user who writes an object through an apifront while others misbehave.
struct Writer {
    front: Apifront,
    ns: String,
    other: Client,
    small: String,
}

impl Writer {
    async fn start(purpose: &str) -> Self {
        let cluster = Cluster::shared();
        let ns = cluster.namespace(purpose).await;
        let maps = format!("/api/v1/namespaces/{ns}/configmaps");
        let object = config_map("small", json!({}), json!({}));
        let created = cluster.admin_client().post(&maps, &object).await;
        created.expect(201);
        let front = Apifront::start(cluster, |_| {}).await;
        let (other, small) = (master(&front, "other"), format!("{maps}/small"));
        patches(&other, &small, 5).await;
        Self {
            front,
            ns,
            other,
            small,
        }
    }
}

/// Returns a client of a member of `system:masters`, whose requests hold no seats.
fn master(front: &Apifront, name: &str) -> Client {
    let certificates = &Cluster::shared().certificates;
    front.client(Some(&certificates.client(name, &["system:masters"])))
}

/// Times merge patches of one object, one after the other.
pub(super) async fn patches(client: &Client, path: &str, count: usize) -> Times {
    Times::of_requests(count, async |n| {
        let body = json!({ "data": { "n": n.to_string() } });
        let patch = client.try_send(
            http::Method::PATCH,
            path,
            &[("content-type", "application/merge-patch+json")],
            body.to_string(),
        );
        let answer = tokio::time::timeout(HANGS, patch).await;
        matches!(answer, Ok(Ok(answer)) if answer.status == 200)
    })
    .await
}

/// An HTTP/2 client that accepts `window` bytes of each answer and reads none.
struct Unread {
    sender: http2::SendRequest<Empty<Bytes>>,
    authority: String,
    /// The answers, kept so that their streams stay open.
    answers: Vec<http::Response<Incoming>>,
}

impl Unread {
    async fn connect(client: &Client, window: u32) -> Self {
        let stream = client.tls_stream(b"h2").await.expect("a connection");
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(stream))
            .await
            .expect("HTTP/2");
        elsewhere::spawn(connection);
        Self {
            sender,
            authority: client.address().to_string(),
            answers: Vec::new(),
        }
    }

    /// Returns the status of an answer that begins in time.
    async fn get(&mut self, path: &str) -> Option<u16> {
        let uri = format!("https://{}{path}", self.authority);
        let request = Request::get(uri).body(Empty::new()).expect("a request");
        let answer = self.sender.send_request(request);
        let answer = tokio::time::timeout(Duration::from_secs(10), answer).await;
        let answer = answer.ok()?.ok()?;
        let code = answer.status().as_u16();
        self.answers.push(answer);
        Some(code)
    }
}

/// The window of a shared upstream connection must be larger than the windows of its
/// streams. Otherwise a few answers that one caller does not read fill it, and the
/// answers of all other callers on the connection wait.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn unread_answers_of_one_caller_stop_nobody_else() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    let Writer {
        front,
        ns,
        other,
        small,
    } = Writer::start("unread").await;
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let big = config_map("big", json!({}), json!({ "text": "x".repeat(950_000) }));
    let admin = Cluster::shared().admin_client();
    admin.post(&maps, &big).await.expect(201);
    let quiet = patches(&other, &small, 100).await;
    let mut greedy = Unread::connect(&master(&front, "greedy"), 1024).await;
    // Each upstream connection has room for 100.
    for _ in 0..40 {
        greedy.get(&format!("{maps}/big/")).await;
    }
    let attacked = patches(&other, &small, 100).await;
    assert_unharmed("40 unread answers of 950 KB", &quiet, &attacked, BOUND);
    drop(greedy);
    front.stop().await;
}

/// Repeatedly sends a hundred requests and abandons them.
async fn give_up(client: Client) -> anyhow::Result<()> {
    let stream = client.tls_stream(b"h2").await?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let read = async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await };
    let write = async move {
        writer.write_all(&frames::beginning()).await?;
        let block = frames::get("/api/v1/events?limit=1");
        let both = frames::END_HEADERS | frames::END_STREAM;
        for round in 0..50 {
            let streams = (0..100).map(|n| 2 * (100 * round + n) + 1);
            let requests = streams
                .clone()
                .flat_map(|id| frame(HEADERS, both, id, &block));
            writer.write_all(&requests.collect::<Vec<_>>()).await?;
            writer.flush().await?;
            crate::harness::pace::of_load(Duration::from_millis(3)).await;
            let resets = streams.flat_map(|id| frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
            writer.write_all(&resets.collect::<Vec<_>>()).await?;
            writer.flush().await?;
        }
        std::io::Result::Ok(())
    };
    tokio::select! {
        read = read => { read?; }
        write = write => write?,
    }
    Ok(())
}

/// An HTTP/2 client ends a connection that gets too many frames for abandoned
/// streams. The requests of others on it would end too.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn requests_that_were_given_up_broke_those_of_others() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    let Writer {
        front,
        other,
        small,
        ..
    } = Writer::start("given-up").await;
    let quiet = patches(&other, &small, 50).await;
    let fickle = administrators("fickle").await;
    let attackers: Vec<_> = (0..2)
        .map(|n| {
            let pair = Cluster::shared()
                .certificates
                .client(&format!("{fickle}-{n}"), &[&fickle]);
            let client = front.client(Some(&pair));
            elsewhere::spawn(async move {
                loop {
                    let _ = give_up(client.clone()).await;
                }
            })
        })
        .collect();
    let attacked = patches(&other, &small, 300).await;
    for attacker in attackers {
        attacker.abort();
    }
    assert_unharmed("requests given up", &quiet, &attacked, BOUND);
    let log = front.process.log();
    assert!(!log.contains("too_many_internal_resets"));
    front.stop().await;
}

/// In the other direction, one caller begins to send bodies and stops. These hold
/// streams of the shared connections, but nothing else of them.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn half_sent_bodies_of_one_caller_stop_nobody_else() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    let Writer {
        front,
        ns,
        other,
        small,
    } = Writer::start("half-sent").await;
    let quiet = patches(&other, &small, 100).await;
    let slow = master(&front, "slow-writer");
    let stream = slow.tls_stream(b"h2").await.expect("a connection");
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .expect("HTTP/2");
    elsewhere::spawn(connection);
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut waiting = Vec::new();
    for _ in 0..120 {
        let half = Bytes::from(vec![b' '; 100_000]);
        let half = futures::stream::iter([Ok::<_, std::io::Error>(Frame::data(half))]);
        let body = StreamBody::new(half.chain(futures::stream::pending()));
        let request = Request::post(format!("https://{}{maps}", front.address))
            .header("content-type", "application/json")
            .body(body)
            .expect("a request");
        waiting.push(tokio::spawn(sender.send_request(request)));
    }
    let attacked = patches(&other, &small, 100).await;
    assert_unharmed("120 half-sent bodies", &quiet, &attacked, BOUND);
    for request in waiting {
        request.abort();
    }
    front.stop().await;
}

/// Returns the number of a process' open sockets.
fn sockets(pid: u32) -> usize {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return 0;
    };
    files
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

/// If each forwarded watch had its own connection to the API server without a limit,
/// ports and file descriptors would run out.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn forwarded_watches_share_few_connections() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    const WATCHES: usize = 600;
    let Writer {
        front,
        ns,
        other,
        small,
    } = Writer::start("watchers").await;
    let quiet = patches(&other, &small, 100).await;
    let before = sockets(front.process.pid());
    let mut greedy = Unread::connect(&master(&front, "greedy"), 65_535).await;
    // Events are not cached.
    let path = format!("/api/v1/namespaces/{ns}/events?watch=1&timeoutSeconds=600");
    for n in 0..WATCHES {
        assert_eq!(greedy.get(&path).await, Some(200), "watch {n}");
    }
    let more = sockets(front.process.pid()).saturating_sub(before);
    println!("{WATCHES} forwarded watches: {more} more sockets");
    let attacked = patches(&other, &small, 100).await;
    assert!(more <= WATCHES / 100 + 10, "{more}");
    assert_unharmed("600 forwarded watches", &quiet, &attacked, BOUND);
    drop(greedy);
    front.stop().await;
}

#[tokio::test]
async fn forwarded_streams_of_one_user_leave_some_for_others() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    const OPEN: &str = "apifront_forwarded_long_running_requests";
    const REJECTED: &str = "apifront_forwarded_long_running_rejected_total";
    let cluster = Cluster::shared();
    let name = administrators("streamers").await;
    let front = Apifront::start(cluster, |config| {
        config["flow"] = json!({ "longRunningLimit": 30, "userLongRunningLimit": 20 });
    })
    .await;
    let user = |user: &str, group: &str| {
        let pair = cluster.certificates.client(user, &[group]);
        front.client(Some(&pair))
    };
    let (greedy, meek) = (user("greedy-streamer", &name), user("meek-streamer", &name));
    let path = "/api/v1/events?watch=1&timeoutSeconds=600";
    let watches = async |client: &Client, times: usize| {
        let mut streams = Unread::connect(client, 65_535).await;
        for n in 0..times {
            // The binding may take effect a moment later.
            let deadline = Instant::now() + Duration::from_secs(10);
            while streams.get(path).await != Some(200) {
                assert!(Instant::now() < deadline, "watch {n}");
            }
        }
        streams
    };
    let greedy_streams = watches(&greedy, 20).await;
    let refused = async |client: &Client| {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 429, "{}", answer.text());
        assert_eq!(answer.header("retry-after"), "1");
        let words = "Too many requests, please try again later.\n";
        assert_eq!(answer.text(), words);
    };
    refused(&greedy).await;
    // Only open streams count.
    greedy.get("/api/v1/events?limit=1").await.expect(200);
    let meek_streams = watches(&meek, 5).await;
    let admins = watches(&front.admin_client(), 5).await;
    // All 30 places are taken, for administrators too.
    refused(&front.admin_client()).await;
    refused(&meek).await;
    assert_eq!(front.metric(OPEN, &[]).await, 30.0);
    for (limit, count) in [("user", 1.0), ("total", 2.0)] {
        let rejected = front.metric(REJECTED, &[("limit", limit)]).await;
        assert_eq!(rejected, count, "{limit}");
    }
    drop((greedy_streams, admins));
    let closed = || async { front.metric(OPEN, &[]).await == 5.0 };
    eventually("the others are closed", Duration::from_secs(30), closed).await;
    let more = watches(&meek, 5).await;
    drop((meek_streams, more));
    cluster
        .admin_client()
        .delete(&format!("{BINDINGS}/{name}"))
        .await
        .expect(200);
    front.stop().await;
}

/// A caller can cause an answer with more headers than the HTTP client accepts. This
/// must not make API servers count as unhealthy.
#[tokio::test]
async fn an_odd_answer_to_one_caller_says_nothing_of_a_servers_health() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    let scripted = Scripted::start(|mut connection| async move {
        while let Some(request) = connection.next().await {
            let count = request.line.rsplit('/').next().and_then(|n| n.parse().ok());
            let mut head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n".to_owned();
            for n in 0..count.unwrap_or(0) {
                head += &format!("x-{n}: y\r\n");
            }
            connection.write(head + "\r\nok").await;
        }
    })
    .await;
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |config| {
        config["upstream"] = json!({
            "servers": [scripted.url()], "caFile": cluster.ca(), "healthCheckInterval": "1h",
        });
    })
    .await;
    let client = front.admin_client();
    for (headers, expected) in [(150, "200"), (2000, "503"), (1, "200")] {
        let mut raw = client.over(Protocol::Http1).raw().await.expect("connects");
        let request = format!("GET /headers/{headers} HTTP/1.0\r\nhost: x\r\n\r\n");
        raw.write(request.as_bytes()).await.expect("written");
        let answer = raw.read_reply(Duration::from_secs(1)).await;
        let text = String::from_utf8_lossy(&answer);
        let code = text.split(' ').nth(1).unwrap_or_default();
        assert_eq!(code, expected, "{headers} headers: {text}");
        let ready = client.get("/readyz").await;
        assert_eq!(ready.status, 200, "{headers} headers: {}", ready.text());
        let healthy = front.metric("apifront_upstream_healthy", &[]).await;
        assert_eq!(healthy, 1.0, "{headers} headers");
    }
    front.stop().await;
}
