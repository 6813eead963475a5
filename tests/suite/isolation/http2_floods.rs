//! Frames that cost a server more than their sender. Each flood runs on several
//! connections at once, and its sender reconnects as soon as one has ended.
//! Meanwhile another user's requests are timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, split};

use super::frames::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, End, HEADERS, PING, PRIORITY,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, end_within, frame,
};
use super::measure::{Bound, ELSEWHERE, Times, assert_unharmed, is_controlled, print_control};
use super::neighbour::administrators;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::{elsewhere, eventually};

const BOUND: Bound = Bound {
    times_quiet: 20,
    floor: Duration::from_millis(1500),
};

const MIB: u64 = 1 << 20;
const ATTACKERS: usize = 4;
const LASTS: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(30);
/// The memory that the handshakes and buffers of one moment may leave in the
/// allocator.
const GROWTH: u64 = 96 * MIB;
/// The allocator returns pages some time after they are free.
const RETURNS_WITHIN: Duration = Duration::from_secs(10);
/// The approximate number of bytes between two writes of a flood.
const PIECE: usize = 32 << 10;
/// The number of bytes after which a flood must have been stopped.
const STOPPED_WITHIN: usize = 64 << 20;

const ENHANCE_YOUR_CALM: u32 = 11;

struct Flood {
    what: &'static str,
    /// The bytes after the preface, sent once.
    first: Vec<u8>,
    /// Returns the `n`th piece. Pieces are sent endlessly.
    next: fn(u32) -> Vec<u8>,
    /// Whether the sender reads nothing.
    deaf: bool,
    /// Whether each piece is a request with an answer. The connection then need not
    /// end.
    is_answered: bool,
}

fn floods() -> Vec<Flood> {
    let flood = |what, next| Flood {
        what,
        first: Vec::new(),
        next,
        deaf: false,
        is_answered: false,
    };
    vec![
        flood("PING", |_| frame(PING, 0, 0, &[7; 8])),
        Flood {
            deaf: true,
            ..flood("PING, unread", |_| frame(PING, 0, 0, &[7; 8]))
        },
        flood("answers to PING", |_| frame(PING, ACK, 0, &[7; 8])),
        flood("SETTINGS", |_| frame(SETTINGS, 0, 0, &[])),
        Flood {
            deaf: true,
            ..flood("SETTINGS, unread", |_| frame(SETTINGS, 0, 0, &[]))
        },
        // Each of these changes the window of all streams.
        Flood {
            first: (0..400)
                .flat_map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, &frames::post("/version")))
                .collect(),
            ..flood("SETTINGS of windows", |n| {
                let [a, b, c, d] = (65_535 - n % 2).to_be_bytes();
                frame(SETTINGS, 0, 0, &[0, 4, a, b, c, d])
            })
        },
        flood("WINDOW_UPDATE", |_| {
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])
        }),
        flood("PRIORITY", |n| {
            frame(PRIORITY, 0, 2 * (n % 1000) + 1, &[0, 0, 0, 0, 1])
        }),
        flood("unknown frames", |_| frame(0xfa, 0, 0, &[])),
        Flood {
            first: frame(HEADERS, END_HEADERS, 1, &frames::post("/version")),
            ..flood("empty DATA", |_| frame(DATA, 0, 1, &[]))
        },
        flood("streams that are reset", |n| {
            let stream = 2 * n + 1;
            let block = frames::get("/api/v1/pods");
            let mut both = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
            both.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
            both
        }),
        flood("streams that make the server reset them", |n| {
            let stream = 2 * n + 1;
            let block = frames::get("/api/v1/pods");
            let mut both = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
            // This exceeds the maximal window.
            both.extend(frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]));
            both
        }),
        Flood {
            first: frame(HEADERS, END_STREAM, 1, &frames::get("/version")),
            ..flood("CONTINUATION", |_| {
                frame(CONTINUATION, 0, 1, &[0x00, 1, b'a', 1, b'b'])
            })
        },
        Flood {
            first: frame(HEADERS, END_STREAM, 1, &frames::get("/version")),
            ..flood("empty CONTINUATION", |_| frame(CONTINUATION, 0, 1, &[]))
        },
        Flood {
            is_answered: true,
            ..flood("more headers than allowed", |n| {
                let mut block = frames::get("/version");
                for _ in 0..200 {
                    // A field that is put into the table once, and referenced many
                    // times.
                    block.extend([0x40, 1, b'a', 100]);
                    block.extend([b'b'; 100]);
                    block.extend([0xbe; 100]);
                }
                let pieces: Vec<_> = block.chunks(16 << 10).collect();
                let (first, rest) = pieces.split_first().expect("a block");
                let mut all = frame(HEADERS, END_STREAM, 2 * n + 1, first);
                for (at, piece) in rest.iter().enumerate() {
                    let flags = if at + 1 == rest.len() { END_HEADERS } else { 0 };
                    all.extend(frame(CONTINUATION, flags, 2 * n + 1, piece));
                }
                all
            })
        },
    ]
}

/// Sends a flood on one connection, and returns how that ended.
async fn run(client: &Client, flood: &Flood) -> anyhow::Result<End> {
    let stream = client.tls_stream_from(ELSEWHERE, b"h2").await?;
    let (reader, mut writer) = split(stream);
    writer.write_all(&frames::beginning()).await?;
    writer.write_all(&flood.first).await?;
    let send = async {
        let (mut n, mut sent) = (flood.first.len() as u32, 0);
        while sent < STOPPED_WITHIN {
            let mut piece = Vec::with_capacity(PIECE + 1024);
            while piece.len() < PIECE {
                piece.extend((flood.next)(n));
                n += 1;
            }
            if writer.write_all(&piece).await.is_err() || writer.flush().await.is_err() {
                return true;
            }
            sent += piece.len();
        }
        false
    };
    let mut reader = tokio::io::join(reader, tokio::io::sink());
    if flood.deaf {
        let stopped = tokio::time::timeout(10 * LASTS, send).await;
        return Ok(match stopped {
            Ok(true) => End::Closed,
            Ok(false) | Err(_) => End::Open,
        });
    }
    let read = end_within(&mut reader, 10 * LASTS);
    let (_, end) = tokio::join!(send, read);
    Ok(end)
}

async fn flooder(front: &Apifront) -> Client {
    let group = administrators("flooders").await;
    let pair = Cluster::shared().certificates.client("flooder", &[&group]);
    let client = front.client(Some(&pair));
    eventually("the flooder's right is known", SOON, || async {
        client.get("/api/v1/pods").await.status == 200
    })
    .await;
    client
}

/// Times the victim's reads while the attacker's server is attacked.
async fn attacked(attacker: &Client, flood: &Arc<Flood>, victim: &Client, path: &str) -> Times {
    let connections = Arc::new(AtomicUsize::new(0));
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|_| {
            let (client, flood) = (attacker.clone(), flood.clone());
            let connections = connections.clone();
            elsewhere::spawn(async move {
                loop {
                    let _ = run(&client, &flood).await;
                    connections.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let times = Times::reads_for(victim, path, LASTS).await;
    for attacker in attackers {
        attacker.abort();
    }
    let connections = connections.load(Ordering::Relaxed);
    println!("{}: {connections} connections", flood.what);
    times
}

#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn floods_of_frames_went_on_for_ever() {
    skip_under_oracle!("the limits of HTTP/2 are apifront's");
    let front = Apifront::start(Cluster::shared(), |_| {}).await;
    let victim = front.admin_client();
    let path = "/api/v1/namespaces?resourceVersion=0";
    front.warm(&victim, path).await;
    let quiet = Times::reads_for(&victim, path, LASTS).await;
    let another = match is_controlled() {
        true => Some(Apifront::start(Cluster::shared(), |_| {}).await),
        false => None,
    };
    let attacker = flooder(&front).await;
    let apart = match &another {
        Some(another) => Some(flooder(another).await),
        None => None,
    };
    let base = front.process.resident_bytes();
    for flood in floods() {
        let flood = Arc::new(flood);
        let what = flood.what;
        let end = run(&attacker, &flood).await.expect("TLS");
        println!("{what}: {end:?}");
        // A sender that keeps writing may lose the GOAWAY when the connection is
        // closed.
        let stopped = matches!(end, End::GoAway(ENHANCE_YOUR_CALM) | End::Closed);
        assert!(stopped || flood.is_answered, "{what}: {end:?}");
        let attacked = attacked(&attacker, &flood, &victim, path).await;
        assert_unharmed(what, &quiet, &attacked, BOUND);
        if let Some(apart) = &apart {
            let apart = self::attacked(apart, &flood, &victim, path).await;
            print_control(what, &apart, &attacked);
        }
        let now = front.process.resident_bytes();
        println!("{what}: {} MiB, {} MiB before", now / MIB, base / MIB);
        // The memory of its connections is given back after their end: by each thread
        // when it next works.
        eventually(what, RETURNS_WITHIN, async || {
            for _ in 0..4 {
                victim.separate().get(path).await.expect(200);
            }
            front.process.resident_bytes() <= base + GROWTH
        })
        .await;
    }
    // Floods must not fill the log either.
    let log = front.process.log();
    assert!(log.len() < 1 << 20, "{} bytes of log", log.len());
    if let Some(another) = another {
        another.stop().await;
    }
    front.stop().await;
}

#[tokio::test]
async fn headers_are_bounded_in_both_protocols() {
    skip_under_oracle!("the limits of HTTP/2 are apifront's");
    let front = Apifront::shared();
    let most = 1 << 20;
    let http1 = front
        .admin_client()
        .over(crate::harness::client::Protocol::Http1);
    for (client, name) in [(front.admin_client(), "HTTP/2"), (http1, "HTTP/1")] {
        let large = "x".repeat(most - (8 << 10));
        let headers = [("x-large", large.as_str())];
        let answer = client
            .send(http::Method::GET, "/version", &headers, "")
            .await;
        assert_eq!(answer.status, 200, "{name}");
        let large = "x".repeat(most + (8 << 10));
        let headers = [("x-large", large.as_str())];
        let answer = client
            .send(http::Method::GET, "/version", &headers, "")
            .await;
        assert_eq!(answer.status, 431, "{name}");
        // The same limit applies to the number: the fixed cost of each header counts
        // too.
        let names: Vec<String> = (0..20_000).map(|n| format!("x-{n}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "1")).collect();
        let answer = client
            .try_send(http::Method::GET, "/version", &many, "")
            .await;
        let refused = answer.as_ref().map_or(true, |a| a.status.is_client_error());
        assert!(refused, "{name}: {answer:?}");
    }
}
