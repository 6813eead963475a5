//! Shares what upstream said of the events before a store's history. After a restart,
//! many watches of the same selection come back at once. One question serves all that
//! know as much as the first, or more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kubernetes_wire::api::GroupVersionResource;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::sleep;

use crate::store::SharedEvents;

/// Small answers are kept for this time for watches that come later, and at most this
/// number of them.
const KEPT_FOR: Duration = Duration::from_secs(10);
const MOST_KEPT: usize = 1_000;
/// Answers of more bytes are not kept, but shared while a watch is sent them.
pub(super) const SMALL_BYTES: usize = 2 << 10;

/// Names what a watch selects, and the history of the store: after a restored backup, a
/// version may mean another state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Selected {
    pub(super) gvr: GroupVersionResource,
    pub(super) epoch: u64,
    pub(super) namespace: String,
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
}

/// The questions that are asked, or whose answers are known.
#[derive(Default)]
pub(super) struct EarlierAnswers(Mutex<HashMap<Selected, Weak<Question>>>);

/// A question for the events after a version. Its answer is `None` if upstream did not
/// tell, or there are too many events.
pub(super) struct Question {
    of: Arc<EarlierAnswers>,
    selected: Selected,
    pub(super) after: u64,
    pub(super) answer: OnceCell<Option<Arc<SharedEvents>>>,
}

impl EarlierAnswers {
    /// Returns the question whose answer has the events after a version. `is_of_use`
    /// tells whether a known answer still is.
    pub(super) fn question(
        self: &Arc<Self>,
        selected: Selected,
        after: u64,
        is_of_use: impl Fn(&SharedEvents) -> bool,
    ) -> Arc<Question> {
        let mut questions = self.0.lock();
        let known = questions.get(&selected).and_then(Weak::upgrade);
        let fits = |question: &Arc<Question>| {
            question.after <= after
                && match question.answer.get() {
                    None => true,
                    Some(answer) => answer.as_deref().is_some_and(&is_of_use),
                }
        };
        // A question that does not fit must not be dropped under the lock.
        let other = match known {
            Some(question) if fits(&question) => return question,
            other => other,
        };
        let question = Arc::new(Question {
            of: self.clone(),
            selected: selected.clone(),
            after,
            answer: OnceCell::new(),
        });
        questions.insert(selected, Arc::downgrade(&question));
        drop(questions);
        drop(other);
        question
    }

    /// Keeps a question with a small answer for a while.
    pub(super) fn keep(&self, question: &Arc<Question>) {
        if self.0.lock().len() <= MOST_KEPT {
            let question = question.clone();
            tokio::spawn(async move {
                sleep(KEPT_FOR).await;
                drop(question);
            });
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut questions = self.of.0.lock();
        let is_last = |question: &Weak<Self>| question.strong_count() == 0;
        if questions.get(&self.selected).is_some_and(is_last) {
            questions.remove(&self.selected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(labels: &str) -> Selected {
        Selected {
            gvr: GroupVersionResource::new("", "v1", "pods"),
            epoch: 1,
            namespace: "a".to_owned(),
            label_selector: Some(labels.to_owned()),
            field_selector: None,
        }
    }

    fn told(version: u64) -> Option<Arc<SharedEvents>> {
        Some(Arc::new(SharedEvents {
            events: Vec::new(),
            version,
            place: None,
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn one_question_serves_those_who_know_as_much_or_more() {
        let answers = Arc::<EarlierAnswers>::default();
        let ask =
            |labels, after| answers.question(selected(labels), after, |told| told.version >= 20);
        let first = ask("x=1", 10);
        assert!(Arc::ptr_eq(&first, &ask("x=1", 10)));
        assert!(Arc::ptr_eq(&first, &ask("x=1", 15)));
        assert!(!Arc::ptr_eq(&first, &ask("x=2", 15)));
        let lower = ask("x=1", 5);
        assert!(!Arc::ptr_eq(&first, &lower));
        drop(first);
        assert!(Arc::ptr_eq(&lower, &ask("x=1", 12)));
        lower.answer.set(told(30)).unwrap();
        assert!(Arc::ptr_eq(&lower, &ask("x=1", 12)));
        assert_eq!(answers.len(), 1);
        // Nobody is told what failed before, or what the store does not continue.
        for answer in [None, told(19)] {
            let failed = ask("x=3", 5);
            failed.answer.set(answer).unwrap();
            assert!(!Arc::ptr_eq(&failed, &ask("x=3", 5)));
        }
        answers.keep(&lower);
        drop(lower);
        tokio::task::yield_now().await;
        assert_eq!(answers.len(), 1);
        sleep(KEPT_FOR * 2).await;
        assert_eq!(answers.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn few_are_kept() {
        let answers = Arc::<EarlierAnswers>::default();
        for n in 0..3 * MOST_KEPT {
            let question = answers.question(selected(&format!("x={n}")), 1, |_| true);
            question.answer.set(told(2)).unwrap();
            answers.keep(&question);
        }
        tokio::task::yield_now().await;
        assert_eq!(answers.len(), MOST_KEPT);
        sleep(KEPT_FOR * 2).await;
        assert_eq!(answers.len(), 0);
    }
}
