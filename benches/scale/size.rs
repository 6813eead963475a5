//! Measures one size of the cluster: a start, the first list, and changes.

use std::time::{Duration, Instant};

use super::pods::{self, Writers};
use super::watchers::Watchers;
use crate::support::servers::Reads;
use crate::support::{count, lists, report, usage};
use harness::apifront::Apifront;
use harness::cluster::{Cluster, sum_metric};

const CACHED: &str = "/api/v1/pods?resourceVersion=0";
/// Watchers of everything and of single namespaces, in addition to one for each
/// node.
const OF_ALL: usize = 50;
const OF_NAMESPACES: usize = 200;
/// The time for which writers run before the measurement.
const WARM_UP: Duration = Duration::from_secs(3);
const SETTLE: Duration = Duration::from_secs(5);
const MEGABYTE: f64 = (1 << 20) as f64;

pub struct Size {
    pub objects: usize,
    /// The time from the start to the cache's first answer.
    pub filled_s: f64,
    pub filled_cpu_s: f64,
    pub filled_mb: f64,
    /// The memory a little later, when the pages of the first reads are given back.
    settled_mb: f64,
    /// The size of all objects as the cache counts it.
    object_bytes: f64,
    pub first_list_s: f64,
    first_list_cpu_s: f64,
    list_cpu_s: f64,
    pub listed_mb: f64,
    accounted_mb: f64,
    changes_per_s: f64,
    deliveries_per_s: f64,
    pub change_cpu_us: f64,
    pub delivery_ms: [f64; 2],
    pub watched_mb: f64,
    upstream: Reads,
    ended: usize,
    direct_list_cpu_s: f64,
    pub direct_mb: f64,
}

type Named = (&'static str, fn(&Size) -> f64);

/// Figures that may grow with the cluster, but not faster.
pub const LINEAR: [Named; 5] = [
    ("the time of a start", |s| s.filled_s),
    ("the CPU of a start", |s| s.filled_cpu_s),
    ("the first list's time", |s| s.first_list_s),
    ("a list's CPU", |s| s.list_cpu_s),
    ("memory", |s| s.listed_mb),
];

impl Size {
    pub fn told(&self) -> String {
        format!(
            "{} pods: the cache answers after {:.2} s, {:.1} changes/s, {} watches ended",
            self.objects, self.filled_s, self.changes_per_s, self.ended
        )
    }

    /// Returns the bytes of memory for each object in addition to its own.
    pub fn beside_its_bytes(&self) -> f64 {
        (self.settled_mb * MEGABYTE - self.object_bytes) / self.objects as f64
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.objects.to_string(),
            format!("{:.2}", self.filled_s),
            format!("{:.2}", self.filled_cpu_s),
            format!("{:.0}", self.filled_mb),
            format!("{:.0}", self.settled_mb),
            format!("{:.0}", self.beside_its_bytes()),
            format!("{:.2}", self.first_list_s),
            format!("{:.2}", self.first_list_cpu_s),
            format!("{:.3}", self.list_cpu_s),
            format!("{:.2}", self.direct_list_cpu_s),
            format!("{:.0}", self.listed_mb),
            format!("{:.0}", self.accounted_mb),
            format!("{:.0}", self.direct_mb),
        ]
    }

    fn changes(&self) -> Vec<String> {
        vec![
            self.objects.to_string(),
            format!("{:.0}", self.changes_per_s),
            format!("{:.0}", self.deliveries_per_s),
            format!("{:.0}", self.change_cpu_us),
            format!("{:.2}", self.delivery_ms[0]),
            format!("{:.2}", self.delivery_ms[1]),
            format!("{:.0}", self.watched_mb),
            format!("{:.0}", self.upstream.lists),
            format!("{:.0}", self.upstream.watches),
            self.ended.to_string(),
        ]
    }
}

pub fn report(sizes: &[Size]) {
    println!("\na start, and lists of all pods at resourceVersion=0 in JSON");
    report::table(
        &[
            "pods",
            "answers after s",
            "CPU s",
            "resident MB",
            "5 s later",
            "B/pod beside its bytes",
            "first list s",
            "CPU s",
            "later CPU s",
            "kube-apiserver",
            "resident MB",
            "accounted MB",
            "kube-apiserver MB",
        ],
        &sizes.iter().map(Size::row).collect::<Vec<_>>(),
    );
    println!(
        "\nchanges with a watcher for each node, {OF_ALL} of all, {OF_NAMESPACES} of a namespace"
    );
    report::table(
        &[
            "pods",
            "changes/s",
            "deliveries/s",
            "CPU µs/change",
            "delivery p50 ms",
            "p99 ms",
            "resident MB",
            "upstream lists",
            "and watches",
            "watches ended",
        ],
        &sizes.iter().map(Size::changes).collect::<Vec<_>>(),
    );
}

/// Waits until the cache answers for all pods. Does not list them.
pub async fn fill(front: &Apifront) {
    let path = "/api/v1/namespaces/none/pods?resourceVersion=0";
    front.warm(&front.admin_client(), path).await;
}

pub async fn measure(cluster: &Cluster, objects: usize) -> Size {
    let upstream = Reads::counted_by(cluster, "pods").await;
    let began = Instant::now();
    let front = Apifront::start(cluster, |_| {}).await;
    fill(&front).await;
    let filled_s = began.elapsed().as_secs_f64();
    let pid = front.process.pid();
    let cpu = || usage::cpu_time(pid).as_secs_f64();
    let resident = || usage::resident_bytes(pid) as f64 / MEGABYTE;
    let (filled_cpu_s, filled_mb) = (cpu(), resident());
    tokio::time::sleep(SETTLE).await;
    let settled_mb = resident();
    let labels = [("resource", "pods"), ("kind", "objects")];
    let object_bytes = front.metric("apifront_cache_bytes", &labels).await;

    let (client, admin) = (front.admin_client(), cluster.admin_client());
    let list = async |client| {
        let (before, began) = (cpu(), Instant::now());
        lists::read(client, CACHED, &[("accept", "application/json")]).await;
        (began.elapsed().as_secs_f64(), cpu() - before)
    };
    let (first_list_s, first_list_cpu_s) = list(&client).await;
    let (_, list_cpu_s) = list(&client).await;
    let listed_mb = resident();
    let direct = cluster.apiserver.pid();
    let before = usage::cpu_time(direct);
    lists::read(&admin, CACHED, &[("accept", "application/json")]).await;
    let direct_list_cpu_s = (usage::cpu_time(direct) - before).as_secs_f64();

    let version = crate::support::pods::version(&client).await;
    let watchers = Watchers::start(&client, selections(), &version).await;
    let writers = Writers::start(&admin, objects, count("rate", 500));
    tokio::time::sleep(WARM_UP).await;
    let start = (
        front.metrics().await,
        cpu(),
        writers.changes(),
        watchers.events(),
    );
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(count("seconds", 20) as u64)).await;
    let seconds = began.elapsed().as_secs_f64();
    let changes = (writers.changes() - start.2) as f64;
    let deliveries = (watchers.events() - start.3) as f64;
    let (spent, end) = (cpu() - start.1, front.metrics().await);
    let size = Size {
        objects,
        filled_s,
        filled_cpu_s,
        filled_mb,
        settled_mb,
        object_bytes,
        first_list_s,
        first_list_cpu_s,
        list_cpu_s,
        listed_mb,
        accounted_mb: sum_metric(&end, "apifront_cache_bytes", &[]) / MEGABYTE,
        changes_per_s: changes / seconds,
        deliveries_per_s: deliveries / seconds,
        change_cpu_us: spent * 1e6 / changes,
        delivery_ms: [50.0, 99.0].map(|percent| delivery_ms(&start.0, &end, percent)),
        watched_mb: resident(),
        // This includes the benchmark's own list, and its page for the version.
        upstream: Reads::counted_by(cluster, "pods").await.since(upstream),
        ended: watchers.ended(),
        direct_list_cpu_s,
        direct_mb: usage::resident_bytes(direct) as f64 / MEGABYTE,
    };
    writers.end();
    watchers.end();
    front.stop().await;
    size
}

/// Returns the watched lists, up to the `?` or `&` of further parameters.
fn selections() -> Vec<String> {
    let nodes = (0..count("nodes", 5_000)).map(|n| {
        format!(
            "/api/v1/pods?fieldSelector=spec.nodeName%3D{}&",
            pods::node(n)
        )
    });
    let all = (0..OF_ALL).map(|_| "/api/v1/pods?".to_owned());
    let namespaces =
        (0..OF_NAMESPACES).map(|n| format!("/api/v1/namespaces/{}/pods?", pods::namespace(n)));
    nodes.chain(all).chain(namespaces).collect()
}

/// Returns a percentile of the times between an event's arrival and its writing,
/// from the growth of `apifront_watch_delivery_seconds`. Times are taken to be
/// spread evenly within a bucket.
pub fn delivery_ms(before: &str, after: &str, percent: f64) -> f64 {
    let buckets = |text: &str| -> Vec<(f64, f64)> {
        let of = |line: &str| {
            let le = line.split_once("le=\"")?.1.split_once('"')?.0;
            let number = line.rsplit(' ').next()?.parse().ok()?;
            Some((le.parse().unwrap_or(f64::INFINITY), number))
        };
        text.lines()
            .filter(|line| line.starts_with("apifront_watch_delivery_seconds_bucket"))
            .filter(|line| line.contains("resource=\"pods\""))
            .filter_map(of)
            .collect()
    };
    let (before, after) = (buckets(before), buckets(after));
    let known = |le: f64| {
        let of = |(bound, _): &&(f64, f64)| bound.total_cmp(&le).is_eq();
        before.iter().find(of).map_or(0.0, |(_, number)| *number)
    };
    let grown: Vec<(f64, f64)> = after.iter().map(|(le, n)| (*le, n - known(*le))).collect();
    let all = grown.last().map_or(0.0, |(_, number)| *number);
    let rank = all * percent / 100.0;
    let (mut from, mut below) = (0.0, 0.0);
    for (le, number) in grown {
        if number >= rank && number > below {
            if le.is_infinite() {
                return f64::INFINITY;
            }
            return (from + (le - from) * (rank - below) / (number - below)) * 1e3;
        }
        (from, below) = (le, number);
    }
    f64::NAN
}
