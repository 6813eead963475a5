//! A restarted apifront begins with the stores that it saved before it stopped. Its
//! answers are kube-apiserver's, or it lists again.

mod ahead;
mod changes;
mod refused;
mod rollout;
mod saved_file;

use std::fs;
use std::path::{Path, PathBuf};

use http::Method;
use serde_json::{Value, json};

use crate::harness::ages_have_ticked;
use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare;
use crate::harness::expect::DEBUG;
use crate::harness::process;

fn directory() -> PathBuf {
    process::temporary_folder("stores").join("stores")
}

/// Starts an apifront that saves to `directory`. `change` edits `cache`.
async fn start(cluster: &Cluster, directory: &Path, change: impl FnOnce(&mut Value)) -> Apifront {
    Apifront::start(cluster, |config| {
        config["cache"] = json!({ "directory": directory });
        change(&mut config["cache"]);
    })
    .await
}

/// Reads a resource, so that it is cached, and stops, so that it is saved.
async fn save(cluster: &Cluster, directory: &Path, path: &str) {
    let front = start(cluster, directory, |_| {}).await;
    front.warm(&front.admin_client(), path).await;
    front.stop().await;
}

/// The group that every apifront caches for itself.
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

/// Returns the number of saved stores with this result, without those that apifront
/// has for itself.
async fn loads(front: &Apifront, result: &str) -> f64 {
    let name = "apifront_cache_saved_loads_total";
    let all = front.metric(name, &[("result", result)]).await;
    let told = match result {
        "resumed" => "resumed from the saved store".to_owned(),
        reason => format!("reason=\"{reason}\""),
    };
    let log = front.process.log();
    let own = log
        .lines()
        .filter(|line| line.contains(FLOW_CONTROL) && line.contains(&told));
    all - own.count() as f64
}

/// Sends one request to both servers, and fails unless the answers mean the same.
async fn same(cluster: &Cluster, front: &Client, path: &str, accept: &str) -> Answer {
    let headers = [("accept", accept), DEBUG];
    let admin = cluster.admin_client();
    if accept.contains("as=Table") {
        // No age ticks between the two requests.
        ages_have_ticked().await;
    }
    let direct = admin.send(Method::GET, path, &headers, "").await;
    let answer = front.send(Method::GET, path, &headers, "").await;
    let difference = compare(&direct, &answer);
    assert!(difference.is_empty(), "{path} {accept}\n{difference}");
    answer
}

/// Does the same as [`same`], and fails unless the cache answered.
async fn same_hit(cluster: &Cluster, front: &Client, path: &str, accept: &str) -> Answer {
    let answer = same(cluster, front, path, accept).await;
    assert!(answer.is_hit(), "{path} {accept} {:?}", answer.headers);
    answer
}

fn version(list: &Value) -> u64 {
    let text = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    text.parse().expect("a number")
}

/// Returns the names of the files in the directory, without the stores that apifront
/// has for itself.
fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory");
    let names = entries.map(|e| e.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|n| n.into_string().expect("UTF-8")).collect();
    names.retain(|name| !name.contains(FLOW_CONTROL));
    names.sort();
    names
}
