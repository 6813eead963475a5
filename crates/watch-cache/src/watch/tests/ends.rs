//! Tests when a watch ends, and when it cannot begin.

use super::super::{Step, WatchEnd};
use super::*;

use std::time::Instant;

use kubernetes_wire::api::Status;
use kubernetes_wire::representation::error_status::watch_error;

/// A cache must not take the difference of two states for the history. So its
/// watch ends, and it asks again. Other watches continue.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_cache_ends_at_a_resync() {
    let (writer, store) = Store::new(resource(), vec![Pod::new("a", "x", 3).stored()], 10);
    let open = |version| watch_from(&store, version, options(everything(), HOUR)).unwrap();
    let (mut cache, mut other) = (open(10).of_a_cache(), open(10));
    let mut ahead = open(30).of_a_cache();
    writer.replace(vec![Pod::new("a", "x", 18).stored()], 20, Instant::now());
    assert_eq!(next(&mut cache).await, Err(WatchEnd::Resynced));
    assert_eq!(
        next(&mut other).await.unwrap()[0].brief(),
        ("MODIFIED", "x", 18)
    );
    // A watch that begins at the list's version, or after it, continues.
    let mut after = open(20).of_a_cache();
    apply(&writer, 31);
    for watch in [&mut after, &mut ahead] {
        assert_eq!(next(watch).await.unwrap()[0].brief(), ("ADDED", "a", 31));
    }
    // There is no gap between versions that follow each other.
    writer.replace(vec![Pod::new("a", "x", 18).stored()], 32, Instant::now());
    assert_eq!(
        next(&mut after).await.unwrap()[0].brief(),
        ("DELETED", "a", 32)
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_ends_watches_after_what_they_are_owed() {
    let (writer, store) = store_at(5);
    let mut watch = watch_from(&store, 5, options(everything(), HOUR)).unwrap();
    writer
        .apply(false, Pod::new("a", "x", 6).item(), Instant::now())
        .unwrap();
    writer.close();
    assert_eq!(
        next(&mut watch).await.unwrap()[0].brief(),
        ("ADDED", "x", 6)
    );
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Closed));
    // A watch that begins after the end ends, too.
    let mut late = watch_from(&store, 6, options(everything(), HOUR)).unwrap();
    assert_eq!(next(&mut late).await, Err(WatchEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_behind_ends() {
    let (writer, store) = store_at(5);
    let mut slow = watch_from(&store, 5, options(everything(), HOUR)).unwrap();
    let now = Instant::now();
    let later = now + crate::store::HISTORY_AGE * 2;
    for version in 6..306 {
        let at = if version < 156 { now } else { later };
        writer
            .apply(false, Pod::new("a", "x", version).item(), at)
            .unwrap();
    }
    assert_eq!(next(&mut slow).await, Err(WatchEnd::FellBehind));
    assert!(watch_from(&store, 5, options(everything(), HOUR)).is_err());
    let mut fine = watch_from(&store, 155, options(everything(), HOUR)).unwrap();
    assert_eq!(next(&mut fine).await.unwrap()[0].version, 156);
}

#[tokio::test(start_paused = true)]
async fn a_store_restored_from_a_backup_ends_its_watches() {
    let (writer, store) = store_at(50);
    let mut watch = watch_from(&store, 50, options(everything(), HOUR)).unwrap();
    writer.replace(vec![Pod::new("a", "x", 30).stored()], 40, Instant::now());
    assert_eq!(next(&mut watch).await, Err(WatchEnd::FellBehind));
    let mut again = watch_all(&store, store.snapshot(), options(everything(), HOUR));
    let seen = next(&mut again).await.unwrap();
    assert_eq!(seen[0].brief(), ("ADDED", "x", 30));
    assert_eq!(seen[1].brief(), ("BOOKMARK", "", 40));
}

/// Upstream was restored from a backup and continued. Its version is above the
/// store's, but its objects are older than those that the store served.
#[tokio::test(start_paused = true)]
async fn a_restored_upstream_that_has_caught_up_is_noticed() {
    let (writer, store) = Store::new(resource(), vec![Pod::new("a", "x", 48).stored()], 50);
    let mut watch = watch_from(&store, 50, options(everything(), HOUR)).unwrap();
    writer.replace(vec![Pod::new("a", "x", 45).stored()], 60, Instant::now());
    assert_eq!(next(&mut watch).await, Err(WatchEnd::FellBehind));
}

/// A list that upstream answered is ahead of the cache. A watch from its
/// version waits until the cache has reached it.
#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_skips_what_its_client_knows() {
    let (writer, store) = store_at(10);
    let mut watch = watch_from(&store, 13, options(everything(), HOUR)).unwrap();
    let now = Instant::now();
    writer
        .apply(false, Pod::new("a", "known", 12).item(), now)
        .unwrap();
    writer
        .apply(false, Pod::new("a", "new", 14).item(), now)
        .unwrap();
    let seen = next(&mut watch).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].brief(), ("ADDED", "new", 14));
}

/// The client listed at 13, and upstream's history was lost at 10. The versions
/// of deletions between 13 and the new list are unknown.
#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_ends_when_history_is_lost_before_it() {
    let (writer, store) = Store::new(resource(), vec![Pod::new("a", "x", 3).stored()], 10);
    let mut unsure = watch_from(&store, 13, options(everything(), HOUR)).unwrap();
    let mut sure = watch_from(&store, 10, options(everything(), HOUR)).unwrap();
    writer.replace(vec![], 20, Instant::now());
    assert_eq!(next(&mut unsure).await, Err(WatchEnd::FellBehind));
    assert_eq!(
        next(&mut sure).await.unwrap()[0].brief(),
        ("DELETED", "x", 11)
    );
    for (version, served) in [
        // A new watch is not sent what the resync found instead of the history.
        (10, false),
        (11, false),
        (13, false),
        (19, false),
        (20, true),
    ] {
        let began = watch_from(&store, version, options(everything(), HOUR));
        assert_eq!(began.is_ok(), served, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_begin_says_so_and_ends() {
    let (_, store) = store_at(5);
    let status = Status::expired("too old resource version: 3 (5)");
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let open = |version, refusal: Option<Status>| {
            let frames = Box::new(WholeFrames::new(store.clone(), encoding));
            let options = options(everything(), HOUR);
            Watch::from_version_or(store.clone(), version, options, frames, |_| refusal)
        };
        assert!(open(3, None).is_err());
        let mut refused = open(3, Some(status.clone())).unwrap();
        assert_eq!(
            refused.next().await,
            Ok((watch_error(&status, encoding), 1))
        );
        assert_eq!(refused.next().await, Err(WatchEnd::Expired));
        let mut known = open(5, Some(status.clone())).unwrap();
        assert!(matches!(known.step(), Ok(Step::Idle)));
    }
}
