//! Released programs that people run in clusters do the same directly before
//! kube-apiserver and through apifront, and what that costs is shown. See
//! README.md in this folder.

#[path = "../clients/chosen.rs"]
mod chosen;
extern crate harness;
#[path = "../clients/program.rs"]
mod program;

mod cost;
mod report;
mod resumed;
mod run;
mod software;

use harness::cluster::Cluster;
use report::Report;
use run::{Stage, Way};
use software::Software;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn software_runs_behind_it() {
    let chosen = Software::chosen();
    // Everything is built before any server starts.
    let built: Vec<_> = chosen.iter().map(|s| (*s, s.build())).collect();
    let mut stage = Stage::set_up(Cluster::start(&[]).await).await;
    let mut report = Report::default();
    for (software, program) in built {
        for way in Way::ALL {
            let outcome = run::run(&mut stage, software, &program, way).await;
            println!("{}", report.add(software, way, outcome));
        }
    }
    println!("\n{report}");
    let wrong = report.wrong();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
