//! Reads with `drop=metadata.managedFields` in their Accept header (KEP-5958), before a
//! kube-apiserver that ignores the parameter. For built-in kinds the right answer is
//! kube-apiserver's own, without the member. The members are cut out of the text here,
//! and Go's types write the protobuf. For custom resources a server of 1.38 gives it.

mod custom_resources;
pub mod cut;
mod everything;
mod forwarded;
mod watches;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::expect::{DEBUG, is_late};
use crate::harness::media_types::{PARTIAL, PARTIAL_LIST, TABLE};
use crate::harness::shared::Shared;
use crate::harness::watch::Watch;

const JSON: &str = "application/json;drop=metadata.managedFields";
const YAML: &str = "application/yaml;drop=metadata.managedFields";
/// The time until the cache answers on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const DROP: &str = ";drop=metadata.managedFields";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;drop=metadata.managedFields";

/// Makes apifront answer without managedFields, whatever upstream does.
fn always(config: &mut Value) {
    config["cache"]["dropManagedFields"] = json!("Always");
}

/// Returns an apifront before the cluster in which nothing changes.
fn quiet() -> Arc<Apifront> {
    static SHARED: Shared<Apifront> = Shared::new();
    SHARED.get(|| Apifront::start(Cluster::quiet(), always))
}

/// Asks a server for a path in the form `its`, and apifront in the form `accept`. Asks
/// again if the server's answer changed meanwhile, as the newest version does, and while
/// the cache is too late to answer.
async fn ask_both(
    (server, its): (&Client, &str),
    (front, accept): (&Client, &str),
    path: &str,
) -> (Answer, Answer) {
    let until = Instant::now() + ANSWERED_WITHIN;
    loop {
        let before = server.get_as(path, its).await;
        let headers = [("accept", accept), DEBUG];
        let answer = front.send(Method::GET, path, &headers, "").await;
        let after = server.get_as(path, its).await;
        let is_comparable = before.body == after.body && !is_late(&answer);
        if is_comparable || Instant::now() > until {
            return (before, answer);
        }
    }
}

/// Reads the lines of a watch up to the one about the object with this name.
async fn lines_until(client: &Client, path: &str, last: &str) -> Vec<String> {
    let mut watch = Watch::open(client, path).await;
    let mut lines = Vec::new();
    loop {
        let event = watch.next().await.expect("an event");
        let is_last = event.name() == last;
        lines.push(event.line);
        if is_last {
            return lines;
        }
    }
}
