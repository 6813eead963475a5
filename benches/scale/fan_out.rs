//! Watchers of everything, a herd of lists, and a restart of kube-apiserver, at the
//! largest size.

use std::time::{Duration, Instant};

use futures::future::join_all;

use super::pods;
use super::size::delivery_ms;
use super::watchers::Watchers;
use crate::support::report::{self, percentile};
use crate::support::servers::Reads;
use crate::support::{count, lists, usage};
use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::{Cluster, sum_metric};

const CHANGES: usize = 20;
/// kube-apiserver encodes for each watcher. With more watchers, the clients would
/// wait too long.
const MOST_DIRECT: usize = 1_000;
/// The number of clients in a herd.
const HERD: usize = 100;
const WITHIN: Duration = Duration::from_secs(60);

/// The costs with a number of watchers. A cost is NaN if the server was not
/// measured.
pub struct Row {
    pub watchers: usize,
    pub front_cpu_ms: f64,
    pub direct_cpu_ms: f64,
    delivery_ms: [f64; 2],
    resident_mb: f64,
    direct_mb: f64,
}

pub async fn measure(cluster: &Cluster, front: &Apifront, numbers: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for &watchers in numbers {
        let pid = front.process.pid();
        let before = front.metrics().await;
        let (cpu, resident_mb) = told(cluster, &front.admin_client(), pid, watchers).await;
        let after = front.metrics().await;
        let direct = match watchers <= MOST_DIRECT {
            true => {
                let direct = cluster.apiserver.pid();
                Some(told(cluster, &cluster.admin_client(), direct, watchers).await)
            }
            false => None,
        };
        rows.push(Row {
            watchers,
            front_cpu_ms: cpu,
            direct_cpu_ms: direct.map_or(f64::NAN, |(cpu, _)| cpu),
            delivery_ms: [50.0, 99.0].map(|percent| delivery_ms(&before, &after, percent)),
            resident_mb,
            direct_mb: direct.map_or(f64::NAN, |(_, resident)| resident),
        });
    }
    rows
}

/// Sends changes to watchers, one after the other. Returns the server's CPU for each
/// change in ms, and its resident memory in MB.
async fn told(cluster: &Cluster, client: &Client, pid: u32, number: usize) -> (f64, f64) {
    let admin = cluster.admin_client();
    let version = crate::support::pods::version(client).await;
    let lists = (0..number).map(|_| "/api/v1/pods?".to_owned()).collect();
    let watchers = Watchers::start(client, lists, &version).await;
    let before = usage::cpu_time(pid);
    for turn in 1..=CHANGES {
        pods::change(&admin, turn).await;
        let began = Instant::now();
        while watchers.events() < turn * number {
            assert!(began.elapsed() < WITHIN, "{} events", watchers.events());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let cpu = (usage::cpu_time(pid) - before).as_secs_f64() * 1e3 / CHANGES as f64;
    assert_eq!(watchers.ended(), 0, "watches ended");
    let resident = usage::resident_bytes(pid) as f64 / f64::from(1 << 20);
    watchers.end();
    (cpu, resident)
}

pub fn report(rows: &[Row]) {
    println!("\nchanges with watchers of everything, one change after the other");
    let cells = rows.iter().map(|row| {
        vec![
            row.watchers.to_string(),
            format!("{:.1}", row.front_cpu_ms),
            format!("{:.1}", row.front_cpu_ms * 1e3 / row.watchers as f64),
            format!("{:.1}", row.direct_cpu_ms),
            format!("{:.1}", row.direct_cpu_ms / row.front_cpu_ms),
            format!("{:.2}", row.delivery_ms[0]),
            format!("{:.2}", row.delivery_ms[1]),
            format!("{:.0}", row.resident_mb),
            format!("{:.0}", row.direct_mb),
        ]
    });
    let heads = [
        "watchers",
        "CPU ms/change",
        "µs/delivery",
        "kube-apiserver ms",
        "÷",
        "delivery p50 ms",
        "p99 ms",
        "resident MB",
        "kube-apiserver",
    ];
    report::table(&heads, &cells.collect::<Vec<_>>());
}

/// Many clients ask for the most recent list of a namespace at once.
pub async fn herd(cluster: &Cluster, front: &Apifront) {
    println!("\n{HERD} lists of a namespace at once, resourceVersion unset");
    let path = format!("/api/v1/namespaces/{}/pods", pods::namespace(0));
    let sides = [
        (
            "kube-apiserver",
            cluster.admin_client(),
            cluster.apiserver.pid(),
        ),
        ("apifront", front.admin_client(), front.process.pid()),
    ];
    let mut rows = Vec::new();
    for (name, client, pid) in sides {
        let clients: Vec<Client> = (0..HERD).map(|_| client.separate()).collect();
        join_all(clients.iter().map(|client| client.get("/livez"))).await;
        let (reads, cpu) = (
            Reads::counted_by(cluster, "pods").await,
            usage::cpu_time(pid),
        );
        let began = Instant::now();
        let times = join_all(clients.iter().map(async |client| {
            lists::read(client, &path, &[("accept", "application/json")]).await;
            began.elapsed().as_secs_f64() * 1e3
        }))
        .await;
        let reads = Reads::counted_by(cluster, "pods").await.since(reads);
        rows.push(vec![
            name.to_owned(),
            format!("{:.0}", percentile(&times, 50.0)),
            format!("{:.0}", percentile(&times, 99.0)),
            format!("{:.0}", (usage::cpu_time(pid) - cpu).as_secs_f64() * 1e3),
            format!("{:.0}", reads.all()),
        ]);
    }
    report::table(
        &["asked", "p50 ms", "p99 ms", "CPU ms", "reads upstream"],
        &rows,
    );
}

/// Restarts kube-apiserver under watchers. They must receive the next change, and
/// apifront must not list upstream.
pub async fn restart(cluster: &mut Cluster, front: &Apifront) {
    let number = count("watchers", 1_000);
    let client = front.admin_client();
    // The version of the cache. If the cache had to list again, a watch from a later
    // version would end: the cache could not know what the client has seen.
    let list = client.get("/api/v1/pods?limit=1&resourceVersion=0").await;
    let list = list.expect(200);
    let version = list["metadata"]["resourceVersion"].as_str();
    let version = version.expect("a version").to_owned();
    let lists = (0..number).map(|_| "/api/v1/pods?".to_owned()).collect();
    let watchers = Watchers::start(&client, lists, &version).await;
    let before = upstream_reads(front).await;
    cluster.apiserver.kill();
    cluster.apiserver.start_again();
    let began = Instant::now();
    cluster.wait_ready().await;
    let ready = began.elapsed();
    pods::change(&cluster.admin_client(), 1).await;
    while watchers.events() < number {
        assert!(
            began.elapsed() < WITHIN,
            "{} events, {} watches ended; {}",
            watchers.events(),
            watchers.ended(),
            front.process.log_tail()
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let [lists, opened] = upstream_reads(front).await;
    println!(
        "\na restart of kube-apiserver under {number} watchers: ready after {:.1} s, all watchers told {:.1} s later; {} lists and {} watches upstream, {} watches ended",
        ready.as_secs_f64(),
        (began.elapsed() - ready).as_secs_f64(),
        lists - before[0],
        opened - before[1],
        watchers.ended()
    );
    watchers.end();
}

/// Returns the numbers of apifront's upstream lists and watches.
async fn upstream_reads(front: &Apifront) -> [f64; 2] {
    let text = front.metrics().await;
    let of = |kind| sum_metric(&text, "apifront_upstream_requests_total", &[("kind", kind)]);
    [of("list"), of("watch")]
}
