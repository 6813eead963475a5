//! Reads of the most recent state (KEP-2340). A server without the feature lists
//! from etcd for each; apifront proves that its own state is recent. It needs no
//! progress notification for that: `Strict` shares a list of names and versions, and
//! `Fresh` asks for a list of one object, whose version is no older than etcd's at
//! that moment.

use serde_json::json;

use super::{World, version_of};
use crate::harness::apifront::Apifront;
use crate::harness::expect::DEBUG;
use crate::harness::objects::config_map;

const WRITES: usize = 40;

struct Asked {
    shared_reads: f64,
    probes: f64,
}

/// Writes to the old server, and reads through apifront after each write. Returns
/// the number of reads that missed the previous write.
async fn reads_after_writes(mode: &str) -> (usize, Asked) {
    let world = World::alone().await;
    let front = Apifront::start(&world.cluster, |config| {
        config["cache"]["consistency"] = json!(mode);
    })
    .await;
    let ns = world.cluster.namespace("consistent").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let (old, client) = (
        world.old(),
        front.admin_client().with_header(DEBUG.0, DEBUG.1),
    );
    front
        .warm(&client, "/api/v1/configmaps?resourceVersion=0")
        .await;
    let asked = async |kind| {
        let name = "apifront_upstream_requests_total";
        front.metric(name, &[("kind", kind)]).await
    };
    let before = (asked("shared_read").await, asked("probe").await);
    let mut missed = 0;
    for n in 0..WRITES {
        let made = config_map(&format!("map-{n}"), json!({}), json!({}));
        let made = old.post(&list, &made).await.expect(201);
        let read = client.get(&list).await;
        assert!(read.is_hit(), "{mode}: {:?}", read.headers);
        let read = read.expect(200);
        let found = read["items"].as_array().expect("items").len();
        missed += usize::from(found <= n);
        // An answer that includes the write must have a version that says so.
        assert!(found <= n || version_of(&read) >= version_of(&made));
    }
    let asked = Asked {
        shared_reads: asked("shared_read").await - before.0,
        probes: asked("probe").await - before.1,
    };
    front.stop().await;
    (missed, asked)
}

#[tokio::test]
async fn strict_reads_see_every_write_before_them() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let (missed, _) = reads_after_writes("Strict").await;
    assert_eq!(missed, 0);
}

/// A probe costs the old server one object, while its own consistent list costs all
/// of them.
#[tokio::test]
async fn fresh_reads_ask_for_a_version_alone() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let (missed, asked) = reads_after_writes("Fresh").await;
    assert!(missed <= 1, "{missed} of {WRITES} reads were stale");
    // On a busy machine events may come later than promised, and reads are then
    // `Strict`.
    let Asked {
        shared_reads,
        probes,
    } = asked;
    assert!(
        probes >= 1.0,
        "{probes} probes, {shared_reads} shared reads"
    );
    assert!(probes + shared_reads >= WRITES as f64);
}
