//! Live windows of 50 rows while pods change.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{QUERIES, query};
use crate::support::cores;
use crate::support::report::{self, Goal};
use crate::support::servers::Servers;
use harness::watch::Watch;

/// The most kilobytes a second for the reader of a window.
const GOAL: f64 = 20.0;

/// How fast pods change, and how many at a time.
const CHANGES_PER_SECOND: u32 = 500;
const AT_ONCE: u32 = 20;

/// The pods that change.
pub struct Changing {
    pub pods: usize,
    /// Returns the path of the `n`th one.
    pub path: fn(usize) -> String,
}

impl Changing {
    /// Follows windows whose rows all change, and windows anywhere in the order of nodes.
    pub async fn follow(&self, servers: &Servers, windows: usize, lasting: Duration) {
        // kube-apiserver needs a core of its own for this many changes.
        for server in [servers.direct(), servers.front()] {
            cores::unpin(server.pid);
        }
        let front = servers.front();
        let moving = json!([{ "expression": "object.metadata.annotations['bench/changed']", "descending": true }]);
        let still = json!([{ "expression": "object.spec.nodeName" }]);
        let columns = json!([
            { "name": "node", "expression": "object.spec.nodeName" },
            { "name": "phase", "expression": "object.status.phase" },
            { "name": "changed", "expression": "object.metadata.annotations['bench/changed']" },
        ]);
        let mut rows = Vec::new();
        for (name, order, windows) in [
            ("all rows change", &moving, 1),
            ("all rows change", &moving, windows),
            ("anywhere by node", &still, windows),
        ] {
            let clients = futures::future::join_all((0..20).map(|_| front.connection())).await;
            let mut open = Vec::new();
            for n in 0..windows {
                let offset = match order == &moving {
                    true => 0,
                    false => n * 37 % self.pods.saturating_sub(50).max(1),
                };
                let spec = json!({ "columns": columns, "orderBy": order, "offset": offset });
                let path = format!("{QUERIES}?watch=true");
                let mut watch = Watch::post(&clients[n % clients.len()], &path, &query(spec)).await;
                let first = watch.next().await.expect("the first event");
                assert_eq!(first.kind, "ADDED", "{}", first.line);
                open.push(watch);
            }
            let until = Instant::now() + lasting;
            let cpu = front.cpu();
            let read = open.iter_mut().map(async |watch| {
                let (mut bytes, mut events) = (0, 0);
                while let Some(wait) = until.checked_duration_since(Instant::now()) {
                    if let Some(event) = watch.next_within(wait).await {
                        let event = event.expect("an event");
                        assert_eq!(event.kind, "MODIFIED", "{}", event.line);
                        bytes += event.line.len();
                        events += 1;
                    }
                }
                (bytes, events)
            });
            let (read, changes) =
                tokio::join!(futures::future::join_all(read), self.change(servers, until));
            let cpu = (front.cpu() - cpu).as_secs_f64();
            let seconds = lasting.as_secs_f64();
            let bytes: usize = read.iter().map(|(bytes, _)| bytes).sum();
            let events: usize = read.iter().map(|(_, events)| events).sum();
            let each = windows as f64;
            let kilobytes = bytes as f64 / 1e3 / seconds / each;
            rows.push(vec![
                format!("{windows}, {name}"),
                format!("{:.0}", changes as f64 / seconds),
                format!("{:.2}", events as f64 / seconds / each),
                format!("{kilobytes:.2}"),
                format!("{:.2}", cpu * 1e3 / seconds / each),
                format!("{:.0}", cpu / seconds * 100.0),
            ]);
            report::compare("a window's reader", kilobytes, "KB/s", Goal::AtMost(GOAL));
        }
        println!("\nlive windows of 50 rows while pods change");
        let heads = [
            "windows",
            "changes/s",
            "updates/s",
            "KB/s each",
            "CPU ms/s each",
            "CPU %",
        ];
        report::table(&heads, &rows);
        println!("resident: {:.0} MB", front.resident_megabytes());
    }

    /// Changes pods at about [`CHANGES_PER_SECOND`]. Returns how many.
    async fn change(&self, servers: &Servers, until: Instant) -> usize {
        let admin = servers.direct().connection().await;
        let mut ticks =
            tokio::time::interval(Duration::from_secs(1) / CHANGES_PER_SECOND * AT_ONCE);
        let mut changed = 0;
        // No value is written twice: that would change nothing.
        let began = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time");
        let began = began.as_millis();
        while Instant::now() < until {
            ticks.tick().await;
            let patches = (0..AT_ONCE as usize).map(|n| {
                let n = changed + n;
                let path = (self.path)(n % self.pods);
                let value = format!("{began}-{n:09}");
                let patch = json!({ "metadata": { "annotations": { "bench/changed": value } } });
                let admin = &admin;
                async move {
                    let answer = admin.patch(&path, "merge-patch+json", &patch).await;
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            });
            futures::future::join_all(patches).await;
            changed += AT_ONCE as usize;
        }
        changed
    }
}
