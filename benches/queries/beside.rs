//! Measures clients that have no queries. They list all objects, and select, sort and
//! count them on their own.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::report;
use crate::support::servers::{Server, Servers};
use crate::support::{lists, usage};
use harness::informer::Informer;
use harness::kubeconfig::{self, Credential};
use harness::kubectl::Kubectl;
use harness::process::temporary_folder;

const LIST: &str = "/api/v1/pods?resourceVersion=0";

pub async fn lists(servers: &Servers) {
    let mut rows = Vec::new();
    for (name, server) in [
        ("kube-apiserver", servers.direct()),
        ("apifront", servers.front()),
    ] {
        let client = server.connection().await;
        let cpu = server.cpu();
        let began = Instant::now();
        let list = lists::read(&client, LIST, &[("accept", "application/json")]).await;
        rows.push(vec![
            name.to_owned(),
            format!("{:.0}", began.elapsed().as_secs_f64() * 1e3),
            format!("{:.0}", (server.cpu() - cpu).as_secs_f64() * 1e3),
            format!("{:.1}", list.bytes as f64 / 1e6),
        ]);
    }
    println!("\nthe same objects as a list in JSON, which the client selects and sorts");
    report::table(&["server", "ms", "CPU ms", "MB"], &rows);
}

/// A client's wait for its first rows, and what that costs it.
struct Cost {
    wall: Duration,
    cpu: Duration,
    peak: u64,
}

impl Cost {
    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            format!("{:.1}", self.wall.as_secs_f64()),
            format!("{:.1}", self.cpu.as_secs_f64()),
            format!("{:.0}", self.peak as f64 / 1e6),
        ]
    }

    /// Runs a program to its end.
    async fn of(mut command: Command) -> Self {
        let began = Instant::now();
        let mut child = command.spawn().expect("a program");
        let (mut cpu, mut peak) = (Duration::ZERO, 0);
        while child.try_wait().expect("a child").is_none() {
            if let Some(used) = usage::used(child.id()) {
                (cpu, peak) = used;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let wall = began.elapsed();
        assert!(child.wait().expect("a status").success(), "{command:?}");
        Self { wall, cpu, peak }
    }
}

/// kubectl, client-go's informer, and sqlite with the rows of the table.
pub async fn clients(servers: &Servers, pods: usize) {
    let front = &servers.apifront;
    let cluster = &servers.cluster;
    let folder = temporary_folder("beside");
    let admin = Credential::Certificate(&cluster.admin);
    let config = kubeconfig::write(&folder, "front", &front.url(), Some(cluster.ca()), admin);
    let mut rows = Vec::new();
    for (name, config) in [
        ("kubectl, kube-apiserver", &cluster.admin_kubeconfig),
        ("kubectl, apifront", &config),
    ] {
        let kubectl = Kubectl::new(config);
        let sorted = kubectl.command(&["get", "pods", "-A", "--sort-by=.spec.nodeName"]);
        let mut command = sorted.into_std();
        command.stdout(Stdio::null());
        rows.push(Cost::of(command).await.row(name));
    }
    for (name, server, ca) in [
        (
            "an informer, kube-apiserver",
            cluster.server_url(),
            cluster.ca(),
        ),
        ("an informer, apifront", front.url(), cluster.ca()),
    ] {
        let began = Instant::now();
        let options = ["-until", "none", "-patience", "20m"];
        let informer = Informer::start(&server, (ca, &cluster.admin), "v1/pods", &options);
        let (informer, synced): (_, Value) = informer.next().await;
        let wall = began.elapsed();
        let known = synced["objects"].as_array().map_or(0, Vec::len);
        assert_eq!(known, pods, "{name}");
        let (cpu, peak) = usage::used(informer.pid()).expect("it runs on");
        rows.push(Cost { wall, cpu, peak }.row(name));
    }
    println!("\nall pods in the client, until it has them in order");
    report::table(&["client", "s", "CPU s", "peak MB"], &rows);
    sqlite(&servers.front(), &folder).await;
}

/// Asks sqlite what [`super::ask_all`] asks. Its rows are ready, and have an index for each
/// order.
async fn sqlite(front: &Server, folder: &std::path::Path) {
    let client = front.connection().await;
    let list = client.get(LIST).await.expect(200);
    let file = folder.join("rows");
    let rows: String = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|pod| {
            let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
            let meta = &pod["metadata"];
            let cells = [&meta["namespace"], &meta["name"], &pod["spec"]["nodeName"]];
            let more = [&meta["creationTimestamp"], &meta["uid"]];
            let row: Vec<String> = cells.into_iter().chain(more).map(text).collect();
            row.join("\t") + "\n"
        })
        .collect();
    drop(list);
    std::fs::write(&file, rows).expect("a file");
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("sqlite.py")]).arg(&file);
    let output = command.output().expect("python3");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    print!(
        "\nsqlite in memory\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
