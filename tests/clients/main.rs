//! Released client libraries run one scenario, directly against kube-apiserver
//! and through apifront, once more without managedFields in what they read. Every check
//! must pass, all runs must make the same checks, and the API server must name the same
//! managers of what they wrote. See README.md in this folder.

extern crate harness;

mod changes;
mod chosen;
mod hits;
mod library;
mod managers;
mod program;
mod report;
mod scenario;
mod stage;

use library::Library;
use report::Report;
use scenario::Way;
use stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libraries_see_no_difference() {
    let libraries = Library::chosen();
    // Everything is built before any server starts.
    let commands: Vec<_> = libraries.iter().map(Library::build).collect();
    let mut stage = Stage::set_up(&libraries).await;
    let direct = scenario::run(&mut stage, Way::Direct, &libraries, &commands).await;
    let through = scenario::run(&mut stage, Way::ThroughApifront, &libraries, &commands).await;
    let way = Way::WithoutManagedFields;
    let shaped = scenario::run(&mut stage, way, &libraries, &commands).await;
    let report = Report {
        libraries,
        direct,
        through,
        shaped,
    };
    println!("{report}");
    let wrong = report.wrong();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
