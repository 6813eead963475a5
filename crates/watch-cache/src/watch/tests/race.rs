//! Tests one writer and watchers on several threads.

use super::*;

use std::time::Instant;

/// A bookmark must not overtake an event of the same client, and every event
/// must wake the watchers. Here bookmarks are due all the time, so that they
/// can come at every moment between two reads of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_missed_while_events_are_published() {
    const EVENTS: u64 = 5_000;
    let (writer, store) = Store::new(resource(), vec![], 1);
    let watchers: Vec<_> = [0, 0, 20, 40]
        .into_iter()
        .map(|period| {
            let mut watch = watch_from(&store, 1, options(filter("", "", ""), HOUR)).unwrap();
            watch.bookmark_each(Duration::from_micros(period));
            tokio::spawn(async move {
                let mut version = 1;
                let mut bookmarks = 0;
                while version < EVENTS {
                    let next = tokio::time::timeout(Duration::from_secs(10), watch.next());
                    let (bytes, _) = next.await.expect("a watcher sleeps").unwrap();
                    for seen in decode(&bytes) {
                        if seen.kind == "BOOKMARK" {
                            bookmarks += 1;
                            assert_eq!(seen.version, version, "a bookmark is ahead");
                        } else {
                            assert_eq!(seen.version, version + 1, "lost or repeated");
                            version = seen.version;
                        }
                    }
                }
                bookmarks
            })
        })
        .collect();
    let writing = tokio::spawn(async move {
        for version in 2..=EVENTS {
            let item = Pod::new("a", "x", version).item();
            writer.apply(false, item, Instant::now()).unwrap();
            if version % 64 == 0 {
                // The pause lets watchers get to the end of the log.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    writing.await.unwrap();
    let mut bookmarks = 0;
    for watcher in watchers {
        bookmarks += watcher.await.unwrap();
    }
    assert!(bookmarks > 0);
}
