//! Somebody who reads one object all the time, from an address of its own. It loses its
//! connection when all do: how long it waits for another, and how long it waits once it
//! has one, are two figures.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use parking_lot::Mutex;

use crate::support::report::percentile;
use harness::client::Client;
use harness::elsewhere;
use harness::own_thread::OwnThread;

const EVERY: Duration = Duration::from_millis(20);
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

pub struct Bystander {
    reads: Arc<Mutex<Vec<Read>>>,
    _reader: OwnThread,
}

#[derive(Clone, Copy)]
struct Read {
    began: Instant,
    ended: Instant,
    /// Whether it had to connect first.
    connects: bool,
}

/// The waits of a bystander during a storm.
pub struct Seen {
    /// Seconds until the first answer.
    pub back: f64,
    /// The reads on connections that were there, the slowest first: the second in which
    /// each began, and its milliseconds.
    pub connected: Vec<(f64, f64)>,
}

impl Seen {
    pub fn p99(&self) -> f64 {
        let waits: Vec<f64> = self.connected.iter().map(|(_, took)| *took).collect();
        percentile(&waits, 99.0)
    }
}

impl Bystander {
    /// Reads `path` on a thread of its own, which runs as soon as it can: it shares a core
    /// with all the clients, and does not wait for them.
    pub fn start(server: &Client, path: &'static str) -> Self {
        let reads = Arc::<Mutex<Vec<_>>>::default();
        let (server, noted) = (server.clone().connecting_from(ADDRESS), reads.clone());
        let reader = OwnThread::run(move || {
            elsewhere::leave();
            async move { read(&server, path, &noted).await }
        });
        Self {
            reads,
            _reader: reader,
        }
    }

    /// Returns what it saw since the server was gone. Reads that had begun before are not
    /// counted.
    pub fn since(&self, gone: Instant) -> Seen {
        let reads = self.reads.lock();
        let after: Vec<Read> = reads
            .iter()
            .copied()
            .filter(|read| read.began >= gone)
            .collect();
        let back = after.first().map(|read| (read.ended - gone).as_secs_f64());
        let mut connected: Vec<(f64, f64)> = after
            .iter()
            .filter(|read| !read.connects)
            .map(|read| {
                let took = read.ended - read.began;
                ((read.began - gone).as_secs_f64(), took.as_secs_f64() * 1e3)
            })
            .collect();
        connected.sort_by(|a, b| b.1.total_cmp(&a.1));
        Seen {
            back: back.unwrap_or(f64::NAN),
            connected,
        }
    }
}

async fn read(server: &Client, path: &str, noted: &Mutex<Vec<Read>>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let connects = !server.is_connected().await;
        let began = Instant::now();
        let answer = server.try_send(Method::GET, path, &[], "").await;
        if answer.is_ok_and(|answer| answer.status == 200) {
            let ended = Instant::now();
            noted.lock().push(Read {
                began,
                ended,
                connects,
            });
        }
    }
}
