//! The benchmarks, as one program. Its first argument names a benchmark, and the
//! others belong to that: `make bench ARGS='cached_list --pods 2000'`. Without a
//! name all of them run, each as its own process. docs/benchmarks.md says what they
//! show.

mod audit;
mod cached_list;
mod chunked_list;
#[cfg(target_arch = "x86_64")]
mod contention;
mod definitions;
mod documents;
mod flow;
mod gzip_list;
mod handshakes;
mod hanging_backend;
mod latency;
mod memory;
mod node_watches;
mod outage;
mod overload;
mod pass_through;
mod queries;
mod questions;
mod quiet;
mod scale;
mod shapes;
mod sharded_watch;
mod small_objects;
mod soak;
mod store;
mod storm;
mod strict_herd;
mod support;
mod transcode;
mod tree;
mod views;
mod warm_restart;
mod watch_fan_out;
mod watch_list_herd;
mod widths;
mod without_managed_fields;

use std::process::{Command, ExitCode};

/// apifront's own allocator, for bare pingora and for measurements inside this
/// process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BENCHMARKS: &[(&str, fn())] = &[
    ("audit", audit::main),
    ("cached_list", cached_list::main),
    ("chunked_list", chunked_list::main),
    #[cfg(target_arch = "x86_64")]
    ("contention", contention::main),
    ("definitions", definitions::main),
    ("documents", documents::main),
    ("flow", flow::main),
    ("gzip_list", gzip_list::main),
    ("hanging_backend", hanging_backend::main),
    ("handshakes", handshakes::main),
    ("latency", latency::main),
    ("memory", memory::main),
    ("node_watches", node_watches::main),
    ("outage", outage::main),
    ("overload", overload::main),
    ("pass_through", pass_through::main),
    ("queries", queries::main),
    ("questions", questions::main),
    ("quiet", quiet::main),
    ("scale", scale::main),
    ("shapes", shapes::main),
    ("sharded_watch", sharded_watch::main),
    ("small_objects", small_objects::main),
    ("soak", soak::main),
    ("store", store::main),
    ("storm", storm::main),
    ("strict_herd", strict_herd::main),
    ("transcode", transcode::main),
    ("tree", tree::main),
    ("views", views::main),
    ("warm_restart", warm_restart::main),
    ("watch_fan_out", watch_fan_out::main),
    ("watch_list_herd", watch_list_herd::main),
    ("widths", widths::main),
    ("without_managed_fields", without_managed_fields::main),
];

fn main() -> ExitCode {
    support::bare_h2::serve_if_asked();
    support::bare_pingora::serve_if_asked();
    let Some(name) = std::env::args().nth(1) else {
        return all();
    };
    let Some((_, benchmark)) = BENCHMARKS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        eprintln!("{name} is no benchmark; there are: {}", known.join(", "));
        return ExitCode::from(2);
    };
    benchmark();
    ExitCode::SUCCESS
}

/// Runs all benchmarks, and names those that failed.
fn all() -> ExitCode {
    let program = std::env::current_exe().expect("this program");
    let mut failed = Vec::new();
    for (name, _) in BENCHMARKS {
        println!("\n## {name}");
        let status = Command::new(&program)
            .arg(name)
            .status()
            .expect("it starts");
        if !status.success() {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}
