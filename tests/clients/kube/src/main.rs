//! Runs the scenario of ../README.md with kube and kube-runtime.

mod errors;
mod informers;
mod objects;
mod runner;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use runner::{Task, hear, say};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let task: Task = hear()?;
    say(&json!({ "version": version()? }));
    let kubeconfig = Kubeconfig::read_from(&task.kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let client = Client::try_from(config.clone())?;
    objects::check(&client, &task).await;
    // The library asks again and again for what is refused with 429.
    config.default_retry = false;
    errors::check(&Client::try_from(config)?, &task).await;
    informers::follow(&client, &task.changes).await
}

/// Returns the version of kube, by the lock file.
fn version() -> anyhow::Result<&'static str> {
    let mut lines = include_str!("../Cargo.lock").lines();
    lines
        .find(|line| *line == "name = \"kube\"")
        .context("kube is in the lock file")?;
    let version = lines.next().and_then(|line| line.split('"').nth(1));
    version.context("a version")
}
