//! Gives a request up when its client leaves while the API server is asked about its
//! caller. Such questions wait for their turns, of which each user has a few.
//!
//! Other work goes on without its client, so that a seat is held as long as the work
//! takes that it stands for.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use crate::server::exchange::Failure;

/// The number of questions that a request and its parts wait for.
#[derive(Debug, Default)]
pub(super) struct Asking(AtomicUsize);

struct Asked<'a>(&'a Asking);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Asking {
    /// Waits for the answer to a question.
    pub(super) async fn during<T>(&self, question: impl Future<Output = T>) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let _asked = Asked(self);
        question.await
    }

    /// Does the request's work, unless its client leaves while it waits for an answer.
    pub(super) async fn unless_gone<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
        gone: impl Future<Output = ()>,
    ) -> Result<T, Failure> {
        let mut gone = pin!(gone);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            // Only the work begins a question, and it has just been polled.
            if self.0.load(Ordering::Relaxed) == 0 {
                return Poll::Pending;
            }
            gone.as_mut().poll(cx).map(|()| Err(Failure::client_gone()))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_request_ends_with_its_client_only_while_it_asks() {
        let asking = Asking::default();
        let done = asking.unless_gone(pin!(async { 7 }), ready(())).await;
        assert_eq!(done.unwrap(), 7);

        let asks = pin!(asking.during(pending::<()>()));
        let gone = asking.unless_gone(asks, ready(())).await;
        assert!(gone.is_err());
        assert_eq!(asking.0.load(Ordering::Relaxed), 1, "it is pinned here");
    }

    #[tokio::test]
    async fn other_work_goes_on_after_the_client_has_left() {
        let asking = Asking::default();
        let (go, goes) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let work = pin!(async {
            goes.await.unwrap();
            asking.during(answered).await.unwrap();
        });
        let mut watched = pin!(asking.unless_gone(work, ready(())));
        assert!(futures::poll!(watched.as_mut()).is_pending());
        go.send(()).unwrap();
        let gone = futures::poll!(watched.as_mut());
        assert!(matches!(gone, Poll::Ready(Err(_))), "now it asks");
        answer.send(()).unwrap();
    }
}
