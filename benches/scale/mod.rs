//! Grows a cluster to the limits that Kubernetes itself is tested to: 150,000 pods
//! on 5,000 nodes. At each size apifront starts anew and makes its first list; then
//! 5,000 watchers of nodes, 50 of everything and 200 of namespaces receive changes.
//! At the largest size follow growing numbers of watchers of everything, a herd of
//! lists and a restart of kube-apiserver. TLS, HTTP/2, JSON; all processes share the
//! cores.
//!
//! `make bench ARGS='scale --most 150000 --nodes 5000 --seconds 20
//! --most-watchers 10000'`
//! The plots are written to the folder `APIFRONT_BENCH_PLOTS` names.

mod fan_out;
pub mod pods;
mod size;
mod watchers;

use std::path::PathBuf;

use crate::support::plot::{Line, Plot};
use crate::support::report::{self, Goal};
use crate::support::{count, require};
use harness::apifront::Apifront;
use harness::cluster::Cluster;
use harness::elsewhere;

/// The sizes of the cluster, as fractions of the largest.
const PARTS: [f64; 3] = [1.0 / 15.0, 1.0 / 3.0, 1.0];
/// The numbers of watchers of everything.
const WATCHERS: [usize; 3] = [100, 1_000, 10_000];
/// The most by which a figure may grow with the size, ÷ the growth of the size.
/// Linear growth has 1.
const LINEAR: f64 = 1.15;
/// The most bytes of memory for an object in addition to its own bytes.
const BESIDE_ITS_BYTES: f64 = 300.0;

pub fn main() {
    require(&[("chrt", "util-linux")]);
    crate::support::run(scale());
}

async fn scale() {
    let most = count("most", 150_000);
    let mut cluster = Cluster::start(&["--request-timeout=20m".to_owned()]).await;
    elsewhere::leave();
    let mut sizes = Vec::new();
    let mut created = 0;
    for part in PARTS {
        let objects = (most as f64 * part) as usize;
        pods::create(
            &cluster.admin_client(),
            created..objects,
            count("nodes", 5_000),
        )
        .await;
        created = objects;
        let measured = size::measure(&cluster, objects).await;
        println!("{}", measured.told());
        sizes.push(measured);
    }
    size::report(&sizes);
    grows_linearly(&sizes);

    let front = Apifront::start(&cluster, |_| {}).await;
    size::fill(&front).await;
    let most = count("most-watchers", 10_000);
    let numbers: Vec<usize> = WATCHERS.into_iter().filter(|n| *n <= most).collect();
    let rows = fan_out::measure(&cluster, &front, &numbers).await;
    fan_out::report(&rows);
    fan_out::herd(&cluster, &front).await;
    for _ in 0..count("restarts", 1) {
        fan_out::restart(&mut cluster, &front).await;
    }
    front.stop().await;
    if let Some(folder) = std::env::var_os("APIFRONT_BENCH_PLOTS") {
        plot(&PathBuf::from(folder), &sizes, &rows);
    }
}

fn grows_linearly(sizes: &[size::Size]) {
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else {
        return;
    };
    let larger = last.objects as f64 / first.objects as f64;
    for (what, of) in size::LINEAR {
        let growth = of(last) / of(first) / larger;
        let what = format!("growth of {what} ÷ growth of the cluster");
        report::compare(&what, growth, "x", Goal::AtMost(LINEAR));
    }
    let growth = last.change_cpu_us / first.change_cpu_us;
    let what = "CPU of a change, largest ÷ smallest cluster";
    report::compare(what, growth, "x", Goal::AtMost(2.0));
    let what = "memory of an object beside its bytes";
    let beside = last.beside_its_bytes();
    report::compare(what, beside, " B", Goal::AtMost(BESIDE_ITS_BYTES));
}

fn plot(folder: &std::path::Path, sizes: &[size::Size], watchers: &[fan_out::Row]) {
    let by_size = |of: fn(&size::Size) -> f64| -> Vec<(f64, f64)> {
        sizes.iter().map(|s| (s.objects as f64, of(s))).collect()
    };
    let by_watchers = |of: fn(&fan_out::Row) -> f64| -> Vec<(f64, f64)> {
        let known = watchers.iter().map(|row| (row.watchers as f64, of(row)));
        known.filter(|(_, value)| value.is_finite()).collect()
    };
    let line = |name, points| Line { name, points };
    let plots = [
        (
            "start",
            Plot {
                title: "From a start to a cache that answers",
                x: "pods",
                y: "seconds",
                lines: vec![
                    line("until the cache answers", by_size(|s| s.filled_s)),
                    line("CPU until then", by_size(|s| s.filled_cpu_s)),
                    line("first list, JSON", by_size(|s| s.first_list_s)),
                ],
            },
        ),
        (
            "memory",
            Plot {
                title: "Resident memory",
                x: "pods",
                y: "MB",
                lines: vec![
                    line("apifront, filled", by_size(|s| s.filled_mb)),
                    line("after a list in JSON", by_size(|s| s.listed_mb)),
                    line("with 5,250 watches", by_size(|s| s.watched_mb)),
                    line("kube-apiserver", by_size(|s| s.direct_mb)),
                ],
            },
        ),
        (
            "change",
            Plot {
                title: "CPU of a change with 5,250 watches",
                x: "pods",
                y: "µs",
                lines: vec![line("apifront", by_size(|s| s.change_cpu_us))],
            },
        ),
        (
            "delivery",
            Plot {
                title: "From an event's arrival to its writing",
                x: "pods",
                y: "ms",
                lines: vec![
                    line("p50", by_size(|s| s.delivery_ms[0])),
                    line("p99", by_size(|s| s.delivery_ms[1])),
                ],
            },
        ),
        (
            "watchers",
            Plot {
                title: "CPU of a change by watchers of everything",
                x: "watchers",
                y: "ms",
                lines: vec![
                    line("apifront", by_watchers(|r| r.front_cpu_ms)),
                    line("kube-apiserver", by_watchers(|r| r.direct_cpu_ms)),
                ],
            },
        ),
    ];
    for (name, plot) in plots {
        let file = folder.join(format!("scale-{name}.svg"));
        std::fs::write(&file, plot.to_svg()).expect("a plot");
        println!("{}", file.display());
    }
}
