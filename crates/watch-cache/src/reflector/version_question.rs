//! The question for upstream's version. Callers that wait together share one
//! answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use kubernetes_wire::api::GroupVersionResource;

/// The time that a resource waits for an answer about another one before it
/// asks for itself.
const SHARED_WITHIN: Duration = Duration::from_millis(100);

/// A resource must have answered within this time to be asked about on behalf
/// of others.
const QUICK_ANSWER_TIME: Duration = Duration::from_millis(50);

/// Upstream's answer to a question asked at `asked`: the version that it had
/// reached, or `None` if it did not tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct VersionAnswer {
    pub asked: Instant,
    pub version: Option<u64>,
}

/// Asks one question at a time, and keeps the last answer.
#[derive(Default)]
pub(super) struct VersionQuestion(tokio::sync::Mutex<Option<VersionAnswer>>);

impl VersionQuestion {
    /// Returns the answer to a question asked after this call began. Callers
    /// that wait together share one question, even if it fails. Otherwise each
    /// would wait for the failures of all callers before it.
    pub(super) async fn ask<F>(&self, ask: impl FnOnce() -> F) -> VersionAnswer
    where
        F: Future<Output = Option<u64>>,
    {
        let arrived = Instant::now();
        let mut last = self.0.lock().await;
        if let Some(answer) = *last
            && answer.asked >= arrived
        {
            return answer;
        }
        let asked = Instant::now();
        let version = ask().await;
        let answer = VersionAnswer { asked, version };
        *last = Some(answer);
        answer
    }

    /// Returns the time of the last question if it was answered, and no
    /// question is being asked now.
    pub(super) fn answered(&self) -> Option<Instant> {
        let last = self.0.try_lock().ok().and_then(|last| *last);
        last.filter(|answer| answer.version.is_some())
            .map(|answer| answer.asked)
    }
}

/// The question that all resources of one API server share. All resources in an
/// etcd share its version. Unlike an answer about a resource itself, the shared
/// answer does not show whether the API server has received all changes of the
/// resource.
#[derive(Default)]
pub(super) struct SharedQuestion {
    question: VersionQuestion,
    about: ArcSwapOption<GroupVersionResource>,
}

impl SharedQuestion {
    /// Returns the answer about another resource. `None` if there is none in
    /// time.
    pub(super) async fn ask<F>(
        &self,
        ask: impl FnOnce(Arc<GroupVersionResource>) -> F,
    ) -> Option<u64>
    where
        F: Future<Output = Option<u64>>,
    {
        let about = self.about.load_full()?;
        let answer = self.question.ask(|| ask(about));
        let answer = tokio::time::timeout(SHARED_WITHIN, answer).await;
        let version = answer.ok().and_then(|answer| answer.version);
        if version.is_none() {
            self.about.store(None);
        }
        version
    }

    /// Proposes a resource to ask about. Upstream has just answered about it,
    /// within `took`.
    pub(super) fn propose(&self, about: &GroupVersionResource, took: Duration) {
        if took < QUICK_ANSWER_TIME && self.about.load().is_none() {
            self.about.store(Some(Arc::new(about.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    fn gvr(resource: &str) -> GroupVersionResource {
        GroupVersionResource::new("", "v1", resource)
    }

    #[tokio::test(start_paused = true)]
    async fn one_question_serves_all_who_wait() {
        let shared = SharedQuestion::default();
        let nobody = shared.ask(async |_| panic!("nobody is asked")).await;
        assert_eq!(nobody, None);
        shared.propose(&gvr("pods"), Duration::from_millis(1));
        shared.propose(&gvr("secrets"), Duration::from_millis(1));
        let asked = AtomicUsize::new(0);
        let answers = join_all((0..100).map(|_| {
            shared.ask(async |about| {
                assert_eq!(about.resource, "pods");
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
                Some(7)
            })
        }));
        assert_eq!(answers.await, [Some(7); 100]);
        assert!(asked.load(Ordering::Relaxed) <= 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_another_resource() {
        let shared = SharedQuestion::default();
        shared.propose(&gvr("pods"), SHARED_WITHIN);
        assert!(shared.about.load().is_none(), "it is slow already");
        shared.propose(&gvr("pods"), Duration::ZERO);
        let began = tokio::time::Instant::now();
        let never = join_all((0..100).map(|_| shared.ask(async |_| std::future::pending().await)));
        assert_eq!(never.await, [None; 100]);
        assert_eq!(began.elapsed(), SHARED_WITHIN);
        assert!(shared.about.load().is_none(), "it is not asked again");
        shared.propose(&gvr("secrets"), Duration::ZERO);
        assert_eq!(shared.ask(async |_| None).await, None);
        assert!(shared.about.load().is_none());
        shared.propose(&gvr("pods"), Duration::ZERO);
        assert_eq!(shared.ask(async |_| Some(3)).await, Some(3));
    }
}
