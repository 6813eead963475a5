//! Tests that callers share proofs of freshness.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Lets `askers` tasks ask for a proof at the same time. Returns their answers
/// and the number of questions to upstream.
async fn ask(askers: usize, answer: Option<u64>) -> (Vec<Option<u64>>, usize) {
    let entry = Arc::new(Entry::with_silent_upstream(pods(), Instant::now()));
    let asked = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..askers)
        .map(|_| {
            let (entry, asked) = (entry.clone(), asked.clone());
            tokio::spawn(async move {
                entry
                    .freshness()
                    .ask_alone(|| async {
                        asked.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_secs(5)).await;
                        answer
                    })
                    .await
            })
        })
        .collect();
    let answers = futures::future::join_all(tasks).await;
    let answers = answers.into_iter().map(Result::unwrap).collect();
    (answers, asked.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_share_one_question() {
    let began = tokio::time::Instant::now();
    let (answers, asked) = ask(100, Some(7)).await;
    assert_eq!(answers, [Some(7); 100]);
    // Tasks that came during the first question need a later one.
    assert_eq!(asked, 2);
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

/// If failures were not shared, each task would wait until all tasks before it
/// had failed. The last of a hundred would wait for minutes.
#[tokio::test(start_paused = true)]
async fn those_who_wait_share_a_failure() {
    let began = tokio::time::Instant::now();
    let (answers, asked) = ask(100, None).await;
    assert_eq!(answers, [None; 100]);
    assert_eq!(asked, 2);
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

#[tokio::test]
async fn a_failure_proves_nothing() {
    let entry = Entry::with_silent_upstream(pods(), Instant::now());
    let hour = Duration::from_secs(3600);
    assert_eq!(entry.freshness().ask_alone(|| async { None }).await, None);
    assert!(!entry.freshness().proven_within(hour, Instant::now()));
    assert_eq!(
        entry.freshness().ask_alone(|| async { Some(3) }).await,
        Some(3)
    );
    assert!(entry.freshness().proven_within(hour, Instant::now()));
}
