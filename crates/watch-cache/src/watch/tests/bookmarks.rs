//! Tests when bookmarks come.

use super::super::WatchEnd;
use super::*;

use std::time::Instant;

/// Asserts that one frame comes, and in which second.
async fn expect(
    watch: &mut Watch,
    began: tokio::time::Instant,
    at: u64,
    expected: (&str, &str, u64),
) {
    let seen = next(watch).await.unwrap();
    assert_eq!(seen.iter().map(Seen::brief).collect::<Vec<_>>(), [expected]);
    assert_eq!(began.elapsed().as_secs(), at);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_two_seconds_before_the_end() {
    let (writer, store) = store_at(5);
    let began = tokio::time::Instant::now();
    let lasts = Duration::from_secs(150);
    let mut watch = watch_from(&store, 5, options(everything(), lasts)).unwrap();
    // Nothing happened in the first minute, so its bookmark is owed.
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(70)).await;
        writer.advance(9, Instant::now());
    });
    expect(&mut watch, began, 70, ("BOOKMARK", "", 9)).await;
    expect(&mut watch, began, 120, ("BOOKMARK", "", 9)).await;
    expect(&mut watch, began, 148, ("BOOKMARK", "", 9)).await;
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Timeout));
    assert_eq!(began.elapsed(), lasts);
}

/// If an event ends the wait for an owed bookmark, the bookmark comes after the
/// event.
#[tokio::test(start_paused = true)]
async fn an_owed_bookmark_comes_with_the_next_version() {
    let (writer, store) = store_at(5);
    let began = tokio::time::Instant::now();
    let mut watch = watch_from(&store, 5, options(everything(), Duration::from_secs(600))).unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(61)).await;
        apply(&writer, 7);
    });
    expect(&mut watch, began, 61, ("ADDED", "a", 7)).await;
    expect(&mut watch, began, 61, ("BOOKMARK", "", 7)).await;
    expect(&mut watch, began, 120, ("BOOKMARK", "", 7)).await;
}

/// A watcher that is a cache hears of each version once: by its event, or at
/// once by a bookmark.
#[tokio::test(start_paused = true)]
async fn a_cache_hears_of_each_version_at_once() {
    let (writer, store) = store_at(5);
    let began = tokio::time::Instant::now();
    let open = |bookmarks| {
        let lasts = Duration::from_secs(600);
        let options = WatchOptions {
            bookmarks,
            ..options(everything(), lasts)
        };
        watch_from(&store, 5, options).unwrap().of_a_cache()
    };
    let (mut watch, mut without) = (open(true), open(false));
    let feeding = tokio::spawn(async move {
        for (second, version) in [(1, 9), (3, 12), (3, 14)] {
            let at = began + Duration::from_secs(second);
            tokio::time::sleep_until(at).await;
            writer.advance(version, Instant::now());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        apply(&writer, 20);
        writer
    });
    expect(&mut watch, began, 1, ("BOOKMARK", "", 9)).await;
    // If two versions come at once, a bookmark for the last one is enough.
    expect(&mut watch, began, 3, ("BOOKMARK", "", 14)).await;
    expect(&mut watch, began, 4, ("ADDED", "a", 20)).await;
    expect(&mut watch, began, 60, ("BOOKMARK", "", 20)).await;
    expect(&mut watch, began, 120, ("BOOKMARK", "", 20)).await;
    assert_eq!(
        next(&mut without).await.unwrap()[0].brief(),
        ("ADDED", "a", 20)
    );
    feeding.await.unwrap().close();
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn no_bookmarks_for_those_who_do_not_ask() {
    let (writer, store) = store_at(5);
    let mut quiet = options(everything(), Duration::from_secs(600));
    quiet.bookmarks = false;
    let mut watch = watch_from(&store, 5, quiet).unwrap();
    writer.advance(9, Instant::now());
    assert_eq!(next(&mut watch).await, Err(WatchEnd::Timeout));
}

#[tokio::test(start_paused = true)]
async fn events_that_do_not_stop_neither_delay_the_end_nor_the_bookmarks() {
    let (writer, store) = store_at(5);
    let lasts = Duration::from_secs(100);
    let mut all = watch_from(&store, 5, options(everything(), lasts)).unwrap();
    let mut none = watch_from(&store, 5, options(filter("b", "", ""), lasts)).unwrap();
    let mut version = 5;
    let mut publish = || {
        version += 1;
        let item = Pod::new("a", "x", version).item();
        writer.apply(false, item, Instant::now()).unwrap();
        version
    };
    for _ in 0..99 {
        let version = publish();
        assert_eq!(next(&mut all).await.unwrap()[0].version, version);
        tokio::time::advance(Duration::from_secs(1)).await;
        if version == 5 + 60 {
            let seen = next(&mut none).await.unwrap();
            assert_eq!(seen[0].brief(), ("BOOKMARK", "", version));
        }
    }
    publish();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(next(&mut all).await, Err(WatchEnd::Timeout));
}
