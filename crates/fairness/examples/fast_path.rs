//! Measures what flow control costs a request that finds free seats:
//! `cargo run --release -p apifront-fairness --example fast_path`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use apifront_fairness::{Classification, Fairness, FairnessMetrics, Settings, Width};
use http::Method;
use kubernetes_wire::api::{Query, UserInfo};
use kubernetes_wire::request::RequestInfo;
use prometheus::Registry;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The fastest of this many batches counts: it is the one that the rest of the
/// machine disturbed least.
const BATCHES: u32 = 1000;
const BATCH: u32 = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
        let request = Arc::new((info.clone(), user));
        let classify = || fairness.classify(black_box(&request).clone());
        let seats = |class: &Classification| fairness.start(class, Width::from_seats(1));
        let level = classify().map(|class| class.priority_level().to_owned());
        let level = level.unwrap_or_default();
        let alone = fastest(classify);
        let whole = fastest(|| classify().as_ref().map(seats));
        println!("{level:<20} {alone:>6.0} ns    {whole:>6.0} ns");
    }
    Ok(())
}

fn fastest<T>(call: impl Fn() -> T) -> f64 {
    let batch = |_| {
        let start = Instant::now();
        for _ in 0..BATCH {
            black_box(call());
        }
        start.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}
