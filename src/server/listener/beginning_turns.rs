//! Lets connections begin in turns. Thousands of clients come at once when a server is
//! back, and each costs some tenths of a millisecond, for its TLS handshake and for its
//! first requests: whoever is connected already would wait for all of them. And a client
//! that connects again and again delays only its own connections.
//!
//! A connection has a turn while it computes, not while it waits for its client. Each
//! step has turns of its own. With one queue for all, the first steps of a herd would come
//! before any second one, and all would be served at the same moment, the last. All who
//! compute or wait for a turn are open connections, whose number is bounded.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use apifront_shares::{FairQueue, QueueFull, QueueLimits};
use futures::poll;

/// Turns of each thread in a queue: with few, clients would wait long while the process is
/// busy.
const TURNS_OF_A_THREAD: usize = 8;

/// A connection begins until it has computed so often after its handshake: it settles
/// HTTP/2's terms, reads the first requests, and writes their answers.
const BEGINS: usize = 8;

#[derive(Clone)]
pub(super) struct BeginningTurns {
    hellos: Arc<FairQueue<IpAddr>>,
    handshakes: Arc<FairQueue<IpAddr>>,
    connections: [Arc<FairQueue<IpAddr>>; BEGINS],
}

impl BeginningTurns {
    pub(super) fn new(threads: usize) -> Self {
        let limits = QueueLimits {
            at_a_time: threads.max(1).saturating_mul(TURNS_OF_A_THREAD),
            at_a_time_of_one: 0,
            waiting: 0,
            waiting_of_one: 0,
        };
        Self {
            hellos: FairQueue::new(limits),
            handshakes: FairQueue::new(limits),
            connections: [(); BEGINS].map(|()| FairQueue::new(limits)),
        }
    }

    /// Runs the handshake of this client. Its first step is ready to run.
    pub(super) async fn handshake<F: Future>(
        &self,
        client: IpAddr,
        mut handshake: Pin<&mut F>,
    ) -> Result<F::Output, QueueFull> {
        let mut queue = &self.hellos;
        loop {
            if let Poll::Ready(done) = step(queue, client, handshake.as_mut()).await? {
                return Ok(done);
            }
            woken().await;
            queue = &self.handshakes;
        }
    }

    /// Runs a connection of this client, with turns while it begins.
    pub(super) async fn connection<F: Future>(
        &self,
        client: IpAddr,
        mut connection: Pin<&mut F>,
    ) -> Result<F::Output, QueueFull> {
        for queue in &self.connections {
            if let Poll::Ready(done) = step(queue, client, connection.as_mut()).await? {
                return Ok(done);
            }
            woken().await;
        }
        Ok(connection.await)
    }
}

/// Lets this client compute once, when it has a turn.
async fn step<F: Future>(
    queue: &Arc<FairQueue<IpAddr>>,
    client: IpAddr,
    future: Pin<&mut F>,
) -> Result<Poll<F::Output>, QueueFull> {
    let _turn = queue.take(&client).await?;
    go_to_the_end().await;
    Ok(poll!(future))
}

/// Lets all run that are ready to. Otherwise tokio would run next whom a turn's end has
/// woken, and so all clients one after the other. Its own `yield_now` waits longer.
async fn go_to_the_end() {
    let mut is_first = true;
    poll_fn(|context| match std::mem::take(&mut is_first) {
        true => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        false => Poll::Ready(()),
    })
    .await;
}

/// Waits until the task is woken, by what it has just polled.
async fn woken() {
    let mut is_first = true;
    poll_fn(|_| match std::mem::take(&mut is_first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    const HERD: usize = 500;
    /// Steps of a handshake between which it waits for its client.
    const STEPS: usize = 3;
    /// Without turns, all of the herd compute in between.
    const MOST_BETWEEN: usize = 3 * TURNS_OF_A_THREAD;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    async fn handshake(computed: Arc<AtomicUsize>) {
        for _ in 0..STEPS {
            computed.fetch_add(1, Ordering::Relaxed);
            go_to_the_end().await;
        }
    }

    /// Starts a herd's handshakes, all at once.
    fn start(turns: &BeginningTurns, computed: &Arc<AtomicUsize>) -> JoinSet<()> {
        let mut herd = JoinSet::new();
        for _ in 0..HERD {
            let (turns, computed) = (turns.clone(), computed.clone());
            herd.spawn(async move {
                let handshake = pin!(handshake(computed));
                turns.handshake(address(1), handshake).await.unwrap();
            });
        }
        herd
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_work_between_two_handshakes() {
        let turns = BeginningTurns::new(1);
        let computed = Arc::<AtomicUsize>::default();
        let (seen, turns_of_herd) = (computed.clone(), turns.clone());
        // On the one worker, where all handshakes are ready to run at once.
        let most_between = tokio::spawn(async move {
            let mut herd = start(&turns_of_herd, &seen);
            let (mut before, mut most) = (0, 0);
            while before < HERD * STEPS {
                go_to_the_end().await;
                let now = seen.load(Ordering::Relaxed);
                most = most.max(now - before);
                before = now;
            }
            while herd.join_next().await.is_some() {}
            most
        });
        let most_between = most_between.await.unwrap();
        assert!(most_between <= MOST_BETWEEN, "{most_between}");
    }

    #[tokio::test]
    async fn a_herd_delays_only_its_own_handshakes() {
        let turns = BeginningTurns::new(1);
        let computed = Arc::<AtomicUsize>::default();
        let mut herd = start(&turns, &computed);
        // All of them wait by now.
        while computed.load(Ordering::Relaxed) == 0 {
            go_to_the_end().await;
        }
        let (before, seen) = (computed.load(Ordering::Relaxed), computed.clone());
        let own = Arc::<AtomicUsize>::default();
        let other = tokio::spawn(async move {
            let handshake = pin!(handshake(own));
            turns.handshake(address(2), handshake).await.unwrap();
            seen.load(Ordering::Relaxed)
        });
        let of_herd = other.await.unwrap() - before;
        assert!(of_herd < HERD, "{of_herd} of {}", HERD * STEPS);
        while herd.join_next().await.is_some() {}
        assert_eq!(computed.load(Ordering::Relaxed), HERD * STEPS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_holds_no_turn() {
        let turns = BeginningTurns::new(1);
        let silent = pin!(std::future::pending::<()>());
        let silent = turns.handshake(address(1), silent);
        let after = Duration::from_secs(1);
        let other = pin!(handshake(Arc::default()));
        let (silent, other) = tokio::join!(
            tokio::time::timeout(after, silent),
            turns.handshake(address(1), other)
        );
        assert!(silent.is_err() && other.is_ok());
    }

    #[tokio::test]
    async fn a_connection_needs_turns_until_it_has_begun() {
        let turns = BeginningTurns::new(1);
        let hold = || {
            let all = turns.connections.iter();
            let take = |queue: &Arc<FairQueue<_>>| queue.try_take(&address(2), TURNS_OF_A_THREAD);
            all.map(|queue| take(queue).expect("all turns"))
                .collect::<Vec<_>>()
        };
        let held = hold();
        let computed = Arc::<AtomicUsize>::default();
        let (seen, its_turns) = (computed.clone(), turns.clone());
        let connection = tokio::spawn(async move {
            let computes = pin!(async {
                for _ in 0..3 * BEGINS {
                    seen.fetch_add(1, Ordering::Relaxed);
                    go_to_the_end().await;
                }
            });
            its_turns.connection(address(1), computes).await.unwrap();
        });
        for _ in 0..3 * BEGINS {
            go_to_the_end().await;
        }
        assert_eq!(computed.load(Ordering::Relaxed), 0);
        drop(held);
        while computed.load(Ordering::Relaxed) <= BEGINS {
            go_to_the_end().await;
        }
        let _held = hold();
        connection.await.unwrap();
        assert_eq!(computed.load(Ordering::Relaxed), 3 * BEGINS);
    }
}
