//! Asks questions that wait together as one. A question never joins one that is
//! under way, because that answer may be older than the question.
//!
//! ```text
//! first question ─▶ asked at once ───────▶ answered
//!    others meanwhile ─▶ wait ─────────────▶ asked as one ─▶ answered
//!        others meanwhile ─▶ wait ─────────────────────────────▶ …
//! ```

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The most questions that wait under one key. Each is a request that is held
/// in memory. Further questions are refused.
const MAX_WAITING: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// [`MAX_WAITING`] questions wait already.
    TooMany,
    /// The task that asked ended without an answer.
    Lost,
}

/// One question, and the channel to its caller. If it is dropped without an
/// answer, the caller gets [`NoAnswer::Lost`].
pub(super) struct Asked<Q, R> {
    pub(super) question: Q,
    answer: oneshot::Sender<R>,
}

impl<Q, R> Asked<Q, R> {
    pub(super) fn answer(self, answer: R) {
        // The caller may have gone away meanwhile.
        let _ = self.answer.send(answer);
    }
}

type Waiting<Q, R> = Vec<Asked<Q, R>>;

/// The waiting questions by key. A key is in the map while a question is under
/// way.
pub(super) struct Batches<K, Q, R> {
    asking: Arc<Mutex<HashMap<K, Waiting<Q, R>>>>,
}

impl<K, Q, R> Default for Batches<K, Q, R> {
    fn default() -> Self {
        Self {
            asking: Arc::default(),
        }
    }
}

impl<K, Q, R> Batches<K, Q, R>
where
    K: Clone + Eq + Hash + Send + 'static,
    Q: Send + 'static,
    R: Send + 'static,
{
    /// Returns an answer from a call of `ask` that began after this call. `ask`
    /// gets all waiting questions and answers each as soon as it can, so that
    /// no question waits for another's answer. `ask` runs in a task of its own,
    /// so that a caller that goes away does not affect the others.
    pub(super) async fn join<F, Fut>(&self, key: K, question: Q, ask: F) -> Result<R, NoAnswer>
    where
        F: Fn(Vec<Asked<Q, R>>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (answer, receiver) = oneshot::channel();
        let asked = Asked { question, answer };
        let first = {
            let mut asking = self.asking.lock();
            match asking.get_mut(&key) {
                Some(waiting) if waiting.len() >= MAX_WAITING => return Err(NoAnswer::TooMany),
                Some(waiting) => {
                    waiting.push(asked);
                    None
                }
                None => {
                    asking.insert(key.clone(), Vec::new());
                    Some(vec![asked])
                }
            }
        };
        if let Some(first) = first {
            let turn = Turn {
                asking: self.asking.clone(),
                key,
                over: false,
            };
            tokio::spawn(turn.run(first, ask));
        }
        receiver.await.map_err(|_| NoAnswer::Lost)
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.asking.lock().is_empty()
    }
}

/// The right to ask under a key. While it exists, other questions wait.
struct Turn<K: Eq + Hash, Q, R> {
    asking: Arc<Mutex<HashMap<K, Waiting<Q, R>>>>,
    key: K,
    /// The right has been given up, and another task may have it now.
    over: bool,
}

impl<K: Eq + Hash, Q, R> Turn<K, Q, R> {
    async fn run<F, Fut>(mut self, first: Waiting<Q, R>, ask: F)
    where
        F: Fn(Vec<Asked<Q, R>>) -> Fut,
        Fut: Future<Output = ()>,
    {
        let mut batch = first;
        loop {
            // Questions of callers that went away are not asked.
            batch.retain(|asked| !asked.answer.is_closed());
            if !batch.is_empty() {
                ask(batch).await;
            }
            batch = {
                let mut asking = self.asking.lock();
                match asking.get_mut(&self.key) {
                    Some(waiting) if !waiting.is_empty() => std::mem::take(waiting),
                    _ => {
                        asking.remove(&self.key);
                        self.over = true;
                        return;
                    }
                }
            };
        }
    }
}

impl<K: Eq + Hash, Q, R> Drop for Turn<K, Q, R> {
    /// Frees the key if the turn ended early, for example by a panic. This
    /// drops the waiting questions, so their callers get [`NoAnswer::Lost`].
    fn drop(&mut self) {
        if !self.over {
            self.asking.lock().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    type Log = Arc<Mutex<Vec<Vec<u32>>>>;

    /// Answers each question after 5 s with its double.
    fn slow(
        log: &Log,
    ) -> impl Fn(Vec<Asked<u32, u32>>) -> futures::future::BoxFuture<'static, ()> + use<> {
        let log = log.clone();
        move |batch| {
            let log = log.clone();
            Box::pin(async move {
                log.lock().push(batch.iter().map(|a| a.question).collect());
                tokio::time::sleep(Duration::from_secs(5)).await;
                for asked in batch {
                    let double = asked.question * 2;
                    asked.answer(double);
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_joins_a_question_under_way() {
        let batches = Arc::new(Batches::<&str, u32, u32>::default());
        let log = Log::default();
        let ask = |question: u32, after: u64| {
            let (batches, ask) = (batches.clone(), slow(&log));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(after)).await;
                batches.join("pods", question, ask).await
            })
        };
        let tasks = [ask(1, 0), ask(2, 1), ask(3, 2), ask(4, 6), ask(5, 20)];
        for (task, expected) in tasks.into_iter().zip([2, 4, 6, 8, 10]) {
            assert_eq!(task.await.unwrap(), Ok(expected));
        }
        assert_eq!(*log.lock(), [vec![1], vec![2, 3], vec![4], vec![5]]);
        tokio::task::yield_now().await;
        assert!(batches.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn keys_do_not_wait_for_each_other() {
        let batches = Batches::<u32, u32, u32>::default();
        let log = Log::default();
        let began = tokio::time::Instant::now();
        let answers = (0..20).map(|n| batches.join(n, n, slow(&log)));
        futures::future::join_all(answers).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    /// A client that leaves must not end the questions of others, and a
    /// question without a caller is not asked.
    #[tokio::test(start_paused = true)]
    async fn who_goes_away_takes_nothing_along() {
        let batches = Arc::new(Batches::<&str, u32, u32>::default());
        let log = Log::default();
        let ask = |question: u32| {
            let (batches, ask) = (batches.clone(), slow(&log));
            tokio::spawn(async move { batches.join("pods", question, ask).await })
        };
        let first = ask(1);
        tokio::task::yield_now().await;
        let (second, third) = (ask(2), ask(3));
        tokio::time::sleep(Duration::from_secs(1)).await;
        first.abort();
        second.abort();
        assert_eq!(third.await.unwrap(), Ok(6));
        assert_eq!(*log.lock(), [vec![1], vec![3]]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_anothers_answer() {
        let batches = Arc::new(Batches::<&str, u64, u64>::default());
        let each = |batch: Vec<Asked<u64, u64>>| async {
            let answers = batch.into_iter().map(|asked| async {
                let seconds = asked.question;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                asked.answer(seconds);
            });
            futures::future::join_all(answers).await;
        };
        let began = tokio::time::Instant::now();
        let ask = |seconds| {
            let batches = batches.clone();
            tokio::spawn(async move { batches.join("pods", seconds, each).await })
        };
        let first = ask(1);
        tokio::task::yield_now().await;
        let (slow, quick) = (ask(60), ask(2));
        assert_eq!(first.await.unwrap(), Ok(1));
        assert_eq!(quick.await.unwrap(), Ok(2));
        assert_eq!(began.elapsed(), Duration::from_secs(3));
        assert_eq!(slow.await.unwrap(), Ok(60));
    }

    #[tokio::test]
    async fn a_panic_leaves_nobody_waiting() {
        let batches = Batches::<&str, u32, u32>::default();
        let fails = |_: Vec<Asked<u32, u32>>| async { panic!("for the test") };
        assert_eq!(batches.join("pods", 1, fails).await, Err(NoAnswer::Lost));
        let log = Log::default();
        tokio::time::pause();
        assert_eq!(batches.join("pods", 1, slow(&log)).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_bound_nobody_waits() {
        let batches = Arc::new(Batches::<&str, u32, u32>::default());
        let log = Log::default();
        let mut tasks = Vec::new();
        for n in 0..=MAX_WAITING as u32 {
            let (batches, ask) = (batches.clone(), slow(&log));
            tasks.push(tokio::spawn(
                async move { batches.join("pods", n, ask).await },
            ));
        }
        // The paused clock advances when all tasks are idle.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let more = batches.join("pods", 0, slow(&log)).await;
        assert_eq!(more, Err(NoAnswer::TooMany));
    }
}
