//! Sends equal questions that come at the same time only once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use parking_lot::Mutex;

/// An answer that is awaited.
pub(super) type Awaited<V> = Shared<BoxFuture<'static, V>>;

type InFlight<K, V> = Mutex<HashMap<K, (u64, Question<V>)>>;

enum Question<V: Clone> {
    /// It waits until it may be asked. It is given up when nobody waits for it.
    Waits(WeakShared<BoxFuture<'static, V>>),
    /// It is asked. A task goes on until the answer comes.
    Asked(Awaited<V>),
}

impl<V: Clone> Question<V> {
    fn awaited(&self) -> Option<Awaited<V>> {
        match self {
            Self::Waits(question) => question.upgrade(),
            Self::Asked(answer) => Some(answer.clone()),
        }
    }
}

/// The questions in flight, by their key.
pub struct SingleFlight<K, V: Clone> {
    questions: Arc<InFlight<K, V>>,
    next_id: Mutex<u64>,
}

/// The entry of a question. Dropping it removes it, with or without an answer.
struct Entry<K: Eq + Hash, V: Clone> {
    questions: Weak<InFlight<K, V>>,
    key: K,
    id: u64,
}

impl<K: Eq + Hash, V: Clone> Drop for Entry<K, V> {
    fn drop(&mut self) {
        let Some(questions) = self.questions.upgrade() else {
            return;
        };
        let mut questions = questions.lock();
        // A question that was given up may have come again under the same key.
        if questions
            .get(&self.key)
            .is_some_and(|(id, _)| *id == self.id)
        {
            questions.remove(&self.key);
        }
    }
}

impl<K, V: Clone> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self {
            questions: Arc::default(),
            next_id: Mutex::default(),
        }
    }
}

impl<K: Copy + Eq + Hash + Send + 'static, V: Clone + Send + Sync + 'static> Entry<K, V> {
    /// Asks in a task, so that the answer comes even if nobody waits for it any more.
    /// Otherwise callers who leave could have any number of questions begun, and a
    /// slow answer would never be learnt.
    fn ask(self, ask: impl Future<Output = V> + Send + 'static) -> Awaited<V> {
        let (key, id, questions) = (self.key, self.id, self.questions.upgrade());
        let asked = async move {
            let answer = ask.await;
            drop(self);
            answer
        };
        let (asked, answer) = asked.remote_handle();
        let answer = answer.boxed().shared();
        if let Some(questions) = questions {
            let asked = Question::Asked(answer.clone());
            questions.lock().insert(key, (id, asked));
        }
        tokio::spawn(asked);
        answer
    }
}

impl<K: Copy + Eq + Hash + Send + 'static, V: Clone + Send + Sync + 'static> SingleFlight<K, V> {
    /// Returns the answer to the question with this key. If an equal question
    /// is in flight, its answer is shared. Otherwise the question waits until `may_ask`
    /// resolves, as long as anybody waits for the answer. Then `ask` runs to its end.
    pub fn ask<M, A>(
        &self,
        key: K,
        may_ask: impl Future<Output = Result<M, V>> + Send + 'static,
        ask: impl FnOnce(M) -> A + Send + 'static,
    ) -> Awaited<V>
    where
        M: Send + 'static,
        A: Future<Output = V> + Send + 'static,
    {
        let mut questions = self.questions.lock();
        let known = questions.get(&key).and_then(|(_, known)| known.awaited());
        if let Some(answer) = known {
            return answer;
        }
        let id = {
            let mut next = self.next_id.lock();
            *next = next.wrapping_add(1);
            *next
        };
        let entry = Entry {
            questions: Arc::downgrade(&self.questions),
            key,
            id,
        };
        let question = async move {
            // An entry that is not moved is dropped at the end.
            let entry = entry;
            match may_ask.await {
                Ok(may) => entry.ask(ask(may)).await,
                Err(refused) => refused,
            }
        }
        .boxed()
        .shared();
        if let Some(weak) = question.downgrade() {
            questions.insert(key, (id, Question::Waits(weak)));
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    type InFlightBytes = SingleFlight<u8, Option<u8>>;

    /// Asks at once.
    fn ask(
        questions: &InFlightBytes,
        key: u8,
        answer: impl Future<Output = Option<u8>> + Send + 'static,
    ) -> Awaited<Option<u8>> {
        questions.ask(key, ready(Ok(())), |()| answer)
    }

    #[tokio::test]
    async fn equal_questions_share_an_answer_while_it_is_on_its_way() {
        let in_flight = SingleFlight::default();
        let count = Arc::new(AtomicUsize::new(0));
        let ask = |key: u8| {
            let count = count.clone();
            in_flight.ask(key, ready(Ok(())), |()| async move {
                yield_now().await;
                count.fetch_add(1, Ordering::Relaxed) + 1
            })
        };
        let answers = futures::join!(ask(1), ask(1), ask(2));
        assert!(answers.0 == answers.1 && answers.0 != answers.2);
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert_eq!(ask(1).await, 3, "an answer is not kept");
        assert!(in_flight.questions.lock().is_empty());
    }

    #[tokio::test]
    async fn a_question_goes_on_while_somebody_waits() {
        let in_flight = InFlightBytes::default();
        let (answer, answered) = oneshot::channel::<u8>();
        let first = ask(&in_flight, 1, async move { answered.await.ok() });
        let second = ask(&in_flight, 1, async { None });
        drop(first);
        answer.send(7).unwrap();
        assert_eq!(second.await, Some(7));
    }

    #[tokio::test]
    async fn a_question_that_waits_is_given_up_with_its_last_caller() {
        let in_flight = InFlightBytes::default();
        let waits = || {
            let may_ask = pending::<Result<Infallible, _>>();
            in_flight.ask(1, may_ask, |never| async move { match never {} })
        };
        let (mut first, second) = (waits(), waits());
        assert!(futures::poll!(&mut first).is_pending());
        drop(first);
        assert!(!in_flight.questions.lock().is_empty());
        drop(second);
        assert!(in_flight.questions.lock().is_empty());
        assert_eq!(ask(&in_flight, 1, async { Some(8) }).await, Some(8));
        let refused = in_flight.ask(1, ready(Err(Some(9))), |()| pending());
        assert_eq!(refused.await, Some(9));
        assert!(in_flight.questions.lock().is_empty());
    }

    #[tokio::test]
    async fn a_question_that_is_asked_is_answered_without_callers() {
        let in_flight = InFlightBytes::default();
        let (answer, answered) = oneshot::channel::<u8>();
        let mut first = ask(&in_flight, 1, async move { answered.await.ok() });
        assert!(futures::poll!(&mut first).is_pending());
        drop(first);
        yield_now().await;
        let second = ask(&in_flight, 1, async { None });
        answer.send(7).unwrap();
        assert_eq!(second.await, Some(7), "it joins the first question");
        assert!(in_flight.questions.lock().is_empty());
    }

    #[tokio::test]
    async fn a_question_that_panics_leaves_nothing() {
        let in_flight = Arc::new(InFlightBytes::default());
        let panics = ask(&in_flight, 1, async { panic!("as tested") });
        assert!(tokio::spawn(panics).await.is_err());
        assert!(in_flight.questions.lock().is_empty());
        assert_eq!(ask(&in_flight, 1, async { Some(8) }).await, Some(8));
    }
}
