//! Tests open connections when the process stops.

use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;

use super::{QUIET, SOON, get};
use crate::harness::apifront::Apifront;
use crate::harness::client::Protocol;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::Kubectl;
use crate::harness::kwok::Kwok;
use crate::harness::watch::{End, Watch};

/// Sends SIGTERM while connections of every kind are open.
#[tokio::test]
async fn everything_open_ends_with_the_process() {
    skip_under_oracle!("it stops apifront");
    let cluster = Cluster::shared();
    let ns = cluster.namespace("shutdown").await;
    Kwok::shared().run_pod(cluster, &ns, "p").await;
    let mut front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    let list = "/api/v1/namespaces?resourceVersion=0";
    front.warm(&client, list).await;

    let mut idle = client.over(Protocol::Http1).raw().await.expect("connect");
    idle.write(get("/version").as_bytes()).await.expect("write");
    assert!(!idle.read_reply(QUIET).await.is_empty());
    let http2 = client.separate();
    http2.get("/version").await.expect(200);
    let cached =
        format!("/api/v1/namespaces?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{ns}");
    let forwarded = format!("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3D{ns}");
    let mut watches = Vec::new();
    for path in [&cached, &forwarded] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let mut watch = Watch::open(&client.over(protocol), path).await;
            watch.next().await.expect("an event");
            watches.push(watch);
        }
    }
    let url = front.url();
    let who = Credential::Certificate(&cluster.admin);
    let config = kubeconfig::write(&front.folder, "admin", &url, Some(cluster.ca()), who);
    let kubectl = Kubectl::new(&config);
    let mut commands = Vec::new();
    for arguments in [
        &[
            "exec",
            "-n",
            &ns,
            "p",
            "--",
            "sh",
            "-c",
            "echo up; sleep 60",
        ][..],
        &["logs", "-f", "-n", &ns, "p"],
    ] {
        let mut child = kubectl.start(arguments);
        let out = child.stdout.as_mut().expect("piped");
        let first = tokio::time::timeout(Duration::from_secs(20), out.read_u8()).await;
        first.expect("output").expect("output");
        commands.push(child);
    }

    let start = Instant::now();
    front.process.signal("TERM");
    for mut watch in watches {
        assert_eq!(watch.rest().await.1, End::Clean);
    }
    assert!(idle.closed_within(SOON).await);
    let status = front.process.wait(Duration::from_secs(20)).await;
    let took = start.elapsed();
    assert!(status.success(), "{status}\n{}", front.process.log_tail());
    assert!(
        took < Duration::from_secs(10),
        "took {took:?}\n{}",
        front.process.log_tail()
    );
    for mut child in commands {
        let ended = tokio::time::timeout(SOON, child.wait()).await;
        ended.expect("kubectl ends").expect("kubectl ends");
    }
}
