//! Sends equal questions that come at the same time only once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use parking_lot::Mutex;

/// An answer that is awaited. The request continues as long as somebody waits.
pub(super) type Asked<V> = Shared<BoxFuture<'static, V>>;

type InFlight<K, V> = Mutex<HashMap<K, (u64, WeakShared<BoxFuture<'static, V>>)>>;

/// The questions in flight, by their key.
pub struct SingleFlight<K, V: Clone> {
    asked: Arc<InFlight<K, V>>,
    next_id: Mutex<u64>,
}

/// The entry of a question. Dropping it removes it, with or without an answer.
struct Entry<K: Eq + Hash, V: Clone> {
    asked: Weak<InFlight<K, V>>,
    key: K,
    id: u64,
}

impl<K: Eq + Hash, V: Clone> Drop for Entry<K, V> {
    fn drop(&mut self) {
        let Some(asked) = self.asked.upgrade() else {
            return;
        };
        let mut asked = asked.lock();
        // An abandoned question may have been asked again under the same key.
        if asked.get(&self.key).is_some_and(|(id, _)| *id == self.id) {
            asked.remove(&self.key);
        }
    }
}

impl<K, V: Clone> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self {
            asked: Arc::default(),
            next_id: Mutex::default(),
        }
    }
}

impl<K: Copy + Eq + Hash + Send + 'static, V: Clone + Send + Sync + 'static> SingleFlight<K, V> {
    /// Returns the answer to the question with this key. If an equal question
    /// is in flight, its answer is shared; otherwise `ask` is run.
    pub fn ask(&self, key: K, ask: impl Future<Output = V> + Send + 'static) -> Asked<V> {
        let mut asked = self.asked.lock();
        if let Some(question) = asked.get(&key).and_then(|(_, asked)| asked.upgrade()) {
            return question;
        }
        let id = {
            let mut next = self.next_id.lock();
            *next = next.wrapping_add(1);
            *next
        };
        let entry = Entry {
            asked: Arc::downgrade(&self.asked),
            key,
            id,
        };
        let question = async move {
            let answer = ask.await;
            drop(entry);
            answer
        }
        .boxed()
        .shared();
        if let Some(weak) = question.downgrade() {
            asked.insert(key, (id, weak));
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn equal_questions_share_an_answer_while_it_is_on_its_way() {
        let in_flight = SingleFlight::default();
        let count = Arc::new(AtomicUsize::new(0));
        let ask = |key: u8| {
            let count = count.clone();
            in_flight.ask(key, async move {
                tokio::task::yield_now().await;
                count.fetch_add(1, Ordering::Relaxed) + 1
            })
        };
        let answers = futures::join!(ask(1), ask(1), ask(2));
        assert!(answers.0 == answers.1 && answers.0 != answers.2);
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert_eq!(ask(1).await, 3, "an answer is not kept");
        assert!(in_flight.asked.lock().is_empty());
    }

    #[tokio::test]
    async fn a_question_goes_on_while_somebody_waits() {
        let in_flight = SingleFlight::default();
        let (answer, answered) = tokio::sync::oneshot::channel::<u8>();
        let first = in_flight.ask(1, async move { answered.await.ok() });
        let second = in_flight.ask(1, async { None });
        drop(first);
        answer.send(7).unwrap();
        assert_eq!(second.await, Some(7));
        let abandoned = in_flight.ask(1, std::future::pending());
        drop(abandoned);
        assert!(in_flight.asked.lock().is_empty());
        assert_eq!(in_flight.ask(1, async { Some(8) }).await, Some(8));
    }
}
