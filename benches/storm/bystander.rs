//! Somebody who reads one object all the time, on a connection that lasts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use harness::client::Client;

const EVERY: Duration = Duration::from_millis(20);

pub struct Bystander {
    times: Arc<Mutex<Vec<(Instant, f64)>>>,
    reads: JoinHandle<()>,
}

impl Bystander {
    /// Reads `path` on a thread of its own, so that the clients' work does not count.
    pub fn start(server: &Client, path: &'static str) -> Self {
        let times = Arc::<Mutex<Vec<_>>>::default();
        let (server, noted) = (server.separate(), times.clone());
        let reads = harness::elsewhere::spawn(async move {
            let mut tick = tokio::time::interval(EVERY);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let began = Instant::now();
                let answer = server.try_send(Method::GET, path, &[], "").await;
                if answer.is_ok_and(|answer| answer.status == 200) {
                    let took = began.elapsed().as_secs_f64() * 1e3;
                    noted.lock().push((began, took));
                }
            }
        });
        Self { times, reads }
    }

    /// Returns the milliseconds of the reads that began after `since`.
    pub fn since(&self, since: Instant) -> Vec<f64> {
        let times = self.times.lock();
        let after = times.iter().filter(|(began, _)| *began >= since);
        after.map(|(_, took)| *took).collect()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.reads.abort();
    }
}
