//! A stop: streams end one after the other, and apifront waits for the end of the last
//! open request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The time between checks for the end of the last request. The process waits only
/// once, but each request is counted twice, so only the counting must be cheap.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The streams that end in a second of a stop. Each client connects elsewhere, shakes
/// hands, and asks again for what it watched.
const ENDED_PER_SECOND: f64 = 500.0;

/// Counts open requests, and signals when streams must end.
pub(crate) struct Drain {
    open: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
    /// The time over which streams end, set at the stop.
    over: Arc<OnceLock<Duration>>,
}

/// Tells one stream when to end.
#[derive(Clone)]
pub(in crate::server) struct Stopping {
    stop: watch::Receiver<bool>,
    over: Arc<OnceLock<Duration>>,
}

/// An open request. It counts as open until this is dropped.
pub(crate) struct OpenRequest(Arc<AtomicUsize>);

impl Default for Drain {
    fn default() -> Self {
        Self {
            open: Arc::default(),
            stop: watch::channel(false).0,
            over: Arc::default(),
        }
    }
}

impl Drain {
    pub(in crate::server) fn open(&self) -> OpenRequest {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self.open.clone())
    }

    /// Returns what tells a stream without end when it must end.
    pub(in crate::server) fn stopping(&self) -> Stopping {
        Stopping {
            stop: self.stop.subscribe(),
            over: self.over.clone(),
        }
    }

    /// Has streams end one after the other, so that their clients do not all come back
    /// at once. Returns the time until all have ended, which is at most `longest`.
    pub(in crate::server) fn stop(&self, longest: Duration) -> Duration {
        let streams = self.stop.receiver_count() as f64;
        let over = Duration::from_secs_f64(streams / ENDED_PER_SECOND);
        let over = *self.over.get_or_init(|| over.min(longest));
        self.stop.send_replace(true);
        over
    }

    /// Waits until no request is open, but at most `grace`. Returns the number
    /// of open requests.
    pub(in crate::server) async fn wait(&self, grace: Duration) -> usize {
        let since = Instant::now();
        loop {
            let open = self.open.load(Ordering::Relaxed);
            if open == 0 || since.elapsed() >= grace {
                return open;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Stopping {
    /// Returns a value that turns true when the stop begins.
    pub(in crate::server) fn begun(&self) -> &watch::Receiver<bool> {
        &self.stop
    }

    pub(in crate::server) fn has_begun(&self) -> bool {
        self.over.get().is_some()
    }

    /// Resolves when the stream must end.
    pub(in crate::server) async fn over(mut self) {
        // Without a sender, nobody waits for the stream's end any more.
        drop(self.stop.wait_for(|stop| *stop).await);
        let over = self.over.get().copied().unwrap_or_default();
        tokio::time::sleep(over.mul_f64(rand::random())).await;
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_last_request_but_not_for_ever() {
        let drain = Drain::default();
        let request = drain.open();
        assert_eq!(drain.wait(Duration::from_secs(5)).await, 1);
        let ends = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(request);
        };
        let started = Instant::now();
        let (open, ()) = tokio::join!(drain.wait(Duration::from_secs(5)), ends);
        assert_eq!(open, 0);
        assert!(started.elapsed() < Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn streams_end_one_after_the_other() {
        for (streams, longest, least, most) in [
            (1, 30, 0.0, 0.002),
            (2_000, 30, 3.0, 4.0),
            (2_000, 2, 1.5, 2.0),
        ] {
            let drain = Drain::default();
            let began = Instant::now();
            let stream = || {
                let stopping = drain.stopping();
                assert!(!stopping.has_begun());
                tokio::spawn(async move {
                    stopping.over().await;
                    began.elapsed().as_secs_f64()
                })
            };
            let streams: Vec<_> = (0..streams).map(|_| stream()).collect();
            tokio::task::yield_now().await;
            let over = drain.stop(Duration::from_secs(longest)).as_secs_f64();
            assert!((least..=most).contains(&over), "{over}");
            assert!(drain.stopping().has_begun());
            let mut ends = Vec::new();
            for stream in streams {
                ends.push(stream.await.unwrap());
            }
            ends.sort_by(f64::total_cmp);
            // Timers count milliseconds.
            let last = ends[ends.len() - 1];
            assert!((least..=most + 0.002).contains(&last), "{last}");
            let median = ends[ends.len() / 2] / over;
            assert!(ends.len() == 1 || (0.4..0.6).contains(&median), "{median}");
        }
    }
}
