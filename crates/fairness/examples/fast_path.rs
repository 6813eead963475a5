//! Measures what flow control costs a request that finds free seats:
//! `cargo run --release -p apifront-fairness --example fast_path`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_fairness::{Fairness, FairnessMetrics, Settings, Width};
use http::Method;
use kubernetes_wire::api::{Query, UserInfo};
use kubernetes_wire::request::RequestInfo;
use prometheus::Registry;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Of so many batches the fastest counts: it is the one that the machine did
/// nothing else beside.
const BATCHES: u32 = 1000;
const BATCH: u32 = 2000;
const WAIT: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let metrics = FairnessMetrics::register(&Registry::new())?;
    let fairness = Fairness::new(Settings { total_seats: 600 }, metrics);
    let path = "/api/v1/namespaces/shop/configmaps/prices";
    let info = RequestInfo::parse(&Method::GET, path, &Query::default())?;
    let users = [
        ("admin", "system:masters"),
        ("system:node:worker-7", "system:nodes"),
        ("system:serviceaccount:shop:cart", "system:serviceaccounts"),
        ("alice", "developers"),
    ];
    println!("level                 classify   with seats");
    for (name, group) in users {
        let groups = [group, "system:serviceaccounts:shop", "system:authenticated"];
        let user = UserInfo {
            name: name.to_owned(),
            groups: groups.map(str::to_owned).to_vec(),
            ..UserInfo::default()
        };
        let level = fairness.classify(&info, &user).priority_level().to_owned();
        let mut classify = f64::INFINITY;
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..BATCH {
                black_box(fairness.classify(black_box(&info), black_box(&user)));
            }
            classify = classify.min(nanos(start));
        }
        let whole = requests(&fairness, &info, &user).await;
        println!("{level:<20} {classify:>6.0} ns    {whole:>6.0} ns");
    }
    Ok(())
}

/// Returns the nanoseconds of a request's way through flow control.
async fn requests(fairness: &Arc<Fairness>, info: &RequestInfo, user: &UserInfo) -> f64 {
    let mut fastest = f64::INFINITY;
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            let class = fairness.classify(black_box(info), black_box(user));
            let seats = fairness.admit(&class, Width::of(1), WAIT).await;
            black_box(&seats);
        }
        fastest = fastest.min(nanos(start));
    }
    fastest
}

/// Returns the nanoseconds of one of the batch.
fn nanos(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(BATCH)
}
