//! What apifront did for a user, by its access log: its metrics do not name users.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::apifront::Apifront;
use crate::harness::expect::LATE;

/// The number of requests that a failure shows.
const SHOWN_LINES: usize = 40;

/// Returns the number of hits of all users, by apifront's metrics.
pub async fn counted(front: &Apifront) -> usize {
    let hit = [("result", "hit")];
    let hits = front.metric("apifront_cache_requests_total", &hit).await;
    hits as usize
}

/// The reads of one user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    /// Those that the cache answered.
    pub hits: usize,
    /// Those that the cache would have answered if it had been as recent as they asked
    /// for within the time that they wait. On a busy machine it is not always.
    pub late: usize,
    /// The user's first reads of an object, which upstream answers at the same price.
    pub first: usize,
}

impl Reads {
    /// Returns the hits and the reads that were forwarded for these reasons.
    pub fn known(self) -> usize {
        self.hits + self.late + self.first
    }
}

/// Returns the reads of each user, by the access logs in `folder`. Documents of
/// discovery are not counted, as in the metric.
pub fn logged(folder: &Path) -> BTreeMap<String, Reads> {
    let mut reads = BTreeMap::<String, Reads>::new();
    for line in logs(folder) {
        let Ok(event) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let uri = event["uri"].as_str().unwrap_or_default();
        if !uri.contains("/namespaces/") {
            continue;
        }
        let user = event["user"].as_str().unwrap_or_default();
        let of_user = reads.entry(user.to_owned()).or_default();
        if event["cache"] == "hit" {
            of_user.hits += 1;
        } else if LATE.iter().any(|reason| event["reason"] == *reason) {
            of_user.late += 1;
        } else if event["reason"] == "first_read" {
            of_user.first += 1;
        }
    }
    reads
}

/// Returns what the logs in `folder` say last of the user's requests below `path`.
pub fn last_lines(folder: &Path, user: &str, path: &str) -> String {
    let user = format!("{user:?}");
    let of_user = |line: &String| line.contains(&user) && line.contains(path);
    let lines: Vec<String> = logs(folder).into_iter().filter(of_user).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

/// Returns the lines of all logs in `folder`, the oldest log first.
fn logs(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder");
    let paths = files.map(|file| file.expect("an entry").path());
    let mut logs: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort_by_key(|log| {
        let metadata = log.metadata().and_then(|metadata| metadata.modified());
        metadata.expect("a time")
    });
    let texts = logs
        .iter()
        .map(|log| std::fs::read_to_string(log).expect("a log"));
    texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}
