//! One answer about upstream's release for all requests at about the same time:
//! each resource needs it before it is listed or watched. Health checks find it
//! out, too.

use std::time::{Duration, Instant};

use kubernetes_wire::api::Release;
use tokio::sync::Mutex;

/// The time for which an answer is shared, from the start of its request. An API
/// server of another release takes longer to start, so the next request reaches the
/// server that answered, or none. If several servers of different releases share
/// one address, sharing makes no difference: the next watch finds out in any case.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The last answer, and the time of its request.
#[derive(Debug, Default)]
pub(crate) struct SharedRelease {
    last: Mutex<Option<(Instant, Release)>>,
}

impl SharedRelease {
    /// Returns the last answer if it is no older than [`SHARED_FOR`], and asks
    /// otherwise. Concurrent callers wait for one request. A failure is not shared:
    /// it would last as long as its caller's watch.
    pub(crate) async fn get(&self, ask: impl AsyncFnOnce() -> Option<Release>) -> Option<Release> {
        self.get_within(SHARED_FOR, ask).await
    }

    /// Like [`SharedRelease::get`], but an answer up to `max_age` old is returned.
    pub(crate) async fn get_within(
        &self,
        max_age: Duration,
        ask: impl AsyncFnOnce() -> Option<Release>,
    ) -> Option<Release> {
        let mut last = self.last.lock().await;
        if let Some((asked, release)) = *last
            && asked.elapsed() < max_age
        {
            return Some(release);
        }
        *last = None;
        let asked = Instant::now();
        let release = ask().await?;
        *last = Some((asked, release));
        Some(release)
    }

    pub(crate) async fn note(&self, asked: Instant, release: Release) {
        *self.last.lock().await = Some((asked, release));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn questions_at_the_same_time_share_an_answer() {
        let shared = SharedRelease::default();
        let asked = AtomicUsize::new(0);
        let answers = [None, Some((1, 35)), Some((1, 36))];
        let get = || {
            shared.get(async || {
                let number = asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
                answers.get(number).copied().flatten().map(Release::from)
            })
        };
        let (failed, first, second) = tokio::join!(get(), get(), get());
        assert_eq!(failed, None);
        assert_eq!(
            (first, second),
            (Some((1, 35).into()), Some((1, 35).into()))
        );
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        // An old answer is not shared.
        if let Some((asked, _)) = &mut *shared.last.lock().await {
            *asked = asked.checked_sub(SHARED_FOR).unwrap();
        }
        assert_eq!(get().await, Some((1, 36).into()));
    }

    #[tokio::test]
    async fn an_answer_that_was_noted_is_as_good() {
        let shared = SharedRelease::default();
        let asked = Instant::now().checked_sub(SHARED_FOR).unwrap();
        shared.note(asked, (1, 35).into()).await;
        let within = |age| shared.get_within(age, async || Some((1, 36).into()));
        assert_eq!(within(SHARED_FOR * 2).await, Some((1, 35).into()));
        assert_eq!(within(SHARED_FOR).await, Some((1, 36).into()));
    }
}
