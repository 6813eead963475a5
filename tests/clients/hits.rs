//! The reads that apifront answered from its cache, by user. Its metrics do not
//! name users, and its access log does.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::harness::apifront::Apifront;

/// Returns the number of hits of all users, by apifront's metrics.
pub async fn counted(front: &Apifront) -> usize {
    let hit = [("result", "hit")];
    let hits = front.metric("apifront_cache_requests_total", &hit).await;
    hits as usize
}

/// Returns the hits of each user, by the access logs in `folder`. Documents of
/// discovery are not counted, as in the metric.
pub fn logged(folder: &Path) -> BTreeMap<String, usize> {
    let mut hits = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a log");
        for line in text.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let uri = event["uri"].as_str().unwrap_or_default();
            if event["cache"] == "hit" && uri.contains("/namespaces/") {
                let user = event["user"].as_str().unwrap_or_default();
                *hits.entry(user.to_owned()).or_default() += 1;
            }
        }
    }
    hits
}
