//! A client that watches, resumes where it stopped, and records its events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::harness::client::Client;
use crate::harness::watch::{Event, Watch};

/// The numbers of events after which a slow client stops reading.
const PAUSES_AFTER: [usize; 2] = [5, 100];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Steady,
    /// Stops reading for this long, twice.
    Slow(Duration),
    /// Closes the stream after this many events, and resumes.
    Restless(usize),
}

#[derive(Clone, Debug)]
pub struct Heard {
    pub kind: String,
    pub name: String,
    pub version: u64,
}

#[derive(Debug)]
pub struct Recorded {
    pub what: String,
    pub pace: Pace,
    pub events: Vec<Heard>,
    pub streams: usize,
    /// Whether the server said that the version is too old.
    pub expired: bool,
}

pub struct Recorder {
    pub client: Client,
    pub list: String,
    /// The selector with the `&` before it, or an empty text.
    pub selector: &'static str,
    pub pace: Pace,
}

impl Recorder {
    /// Watches from `version` until `last` arrives, or until `stop` for
    /// recorders that do not select `last`.
    pub async fn follow(self, version: u64, last: &str, stop: &AtomicBool) -> Recorded {
        let mut version = version;
        let mut recorded = Recorded {
            what: format!("{} {} {:?}", self.list, self.selector, self.pace),
            pace: self.pace,
            events: Vec::new(),
            streams: 0,
            expired: false,
        };
        while !stop.load(Ordering::Relaxed) {
            let path = format!(
                "{}?watch=1&allowWatchBookmarks=true&resourceVersion={version}{}",
                self.list, self.selector
            );
            let mut watch = match Watch::try_open(&self.client, &path).await {
                Ok(watch) => watch,
                Err(refused) => {
                    // All clients understand a version that is too old only from an
                    // event.
                    let refused = refused.to_string();
                    assert!(!refused.starts_with("410"), "{path}: {refused}");
                    crate::harness::pace::of_tries(Duration::from_millis(50)).await;
                    continue;
                }
            };
            recorded.streams += 1;
            let mut taken = 0;
            while !stop.load(Ordering::Relaxed) {
                let event = match watch.next_within(Duration::from_millis(200)).await {
                    None => continue,
                    Some(Err(_)) => break,
                    Some(Ok(event)) => event,
                };
                if event.kind == "ERROR" {
                    recorded.expired = true;
                    return recorded;
                }
                if event.name() == last {
                    return recorded;
                }
                recorded.hear(&event, &mut version);
                taken += 1;
                match self.pace {
                    Pace::Slow(pause) if PAUSES_AFTER.contains(&recorded.events.len()) => {
                        crate::harness::pace::of_load(pause).await;
                    }
                    Pace::Restless(most) if taken >= most => break,
                    _ => {}
                }
            }
        }
        recorded
    }
}

impl Recorded {
    /// Records an event. A bookmark only moves the version.
    fn hear(&mut self, event: &Event, version: &mut u64) {
        let (what, at) = (&self.what, event.version());
        // Several deletions that one list found may have the same version.
        let forward = at > *version || (at == *version && event.kind != "ADDED");
        assert!(forward, "{what}: {at} after {version}: {}", event.line);
        *version = at;
        if event.kind != "BOOKMARK" {
            self.events.push(Heard {
                kind: event.kind.clone(),
                name: event.name().to_owned(),
                version: at,
            });
        }
    }
}
