//! The order in which a change becomes visible to readers. Readers take no lock
//! that covers all of the change.

/// Publishes the log first, then the snapshot, then progress.
///
/// A reader that starts from a snapshot reads on from the snapshot's cursor, so the
/// log must reach that far. A reader that is told of progress reads the log to its
/// end if there were publications since it last did. So the events that progress
/// announces must be in the log and be counted.
pub(super) fn in_order<C>(
    log: impl FnOnce() -> C,
    snapshot: impl FnOnce(C),
    progress: impl FnOnce(),
) {
    snapshot(log());
    progress();
}

#[cfg(test)]
mod tests {
    use shuttle::sync::atomic::{AtomicU64, Ordering};
    use shuttle::sync::{Arc, Condvar, Mutex};
    use shuttle::thread;

    use super::in_order;

    const LAST: u64 = 3;

    #[derive(Default)]
    struct Published {
        /// Versions of events.
        log: Mutex<Vec<u64>>,
        /// Like `Line::publications`.
        publications: AtomicU64,
        /// The snapshot's version, and the index in the log of the next event.
        snapshot: Mutex<(u64, usize)>,
        progress: Mutex<u64>,
        /// The number of times that readers were woken.
        woken: Mutex<u64>,
        wake: Condvar,
    }

    fn write(to: &Published) {
        for version in 1..=LAST {
            in_order(
                || {
                    let mut log = to.log.lock().unwrap();
                    to.publications.fetch_add(1, Ordering::SeqCst);
                    log.push(version);
                    log.len()
                },
                |cursor| *to.snapshot.lock().unwrap() = (version, cursor),
                || {
                    *to.progress.lock().unwrap() = version;
                    *to.woken.lock().unwrap() += 1;
                    to.wake.notify_all();
                },
            );
        }
    }

    /// Reads as `watch::stepper` does: from a snapshot on to the last event.
    fn watch(from: &Published) {
        let (mut version, mut cursor) = *from.snapshot.lock().unwrap();
        let mut read_under = None;
        while version < LAST {
            let seen = *from.progress.lock().unwrap();
            let publications = from.publications.load(Ordering::SeqCst);
            if read_under != Some(publications) {
                let events = from.log.lock().unwrap()[cursor..].to_vec();
                for event in events {
                    assert_eq!(event, version + 1, "none twice, none missing");
                    version = event;
                    cursor += 1;
                }
                read_under = Some(publications);
            }
            assert!(version >= seen, "progress was told before its event");
            let newest = from.snapshot.lock().unwrap().0;
            assert!(newest >= seen, "progress was told before its state");
            // The wait must end for every event that was not read.
            let before = *from.woken.lock().unwrap();
            if version < LAST && from.publications.load(Ordering::SeqCst) == publications {
                let woken = from.woken.lock().unwrap();
                drop(
                    from.wake
                        .wait_while(woken, |woken| *woken == before)
                        .unwrap(),
                );
            }
        }
    }

    #[test]
    fn who_sees_a_part_finds_the_rest() {
        let run = || {
            let published = Arc::new(Published::default());
            let watchers: Vec<_> = (0..2)
                .map(|_| {
                    let published = published.clone();
                    thread::spawn(move || watch(&published))
                })
                .collect();
            write(&published);
            for watcher in watchers {
                watcher.join().unwrap();
            }
        };
        shuttle::check_random(run, 1000);
        shuttle::check_pct(run, 1000, 3);
    }
}
