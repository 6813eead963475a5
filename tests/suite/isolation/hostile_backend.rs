//! Servers that send endless data or nonsense. apifront's reads of these take only a
//! bounded part of its memory, and other servers' resources stay available.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use super::measure::{HICCUP, assert_unharmed};
use super::upstream::{BOUND, patches};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::hostile::{GROUP, HONEST, HOSTILE, Hostile};
use crate::harness::objects::config_map;
use crate::harness::process::temporary_folder;

const MEGABYTE: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(30);

/// `cache.memoryLimit` in these tests, in MiB.
const LIMIT: u64 = 48;

/// The memory held above the limit, in MiB. Pages, half-read events and objects
/// count against the limit when their bytes arrive. A page exists twice when its
/// pieces are joined, and while it is parsed each item has a place. For each
/// resource, 2 MiB are not counted: 64 KiB of an event, the room in its last piece
/// and a socket's buffer. An endless server has sent more long before.
const UNCOUNTED: u64 = LIMIT + 2 * (HOSTILE.len() as u64 + 1);

/// The memory that the allocator gives back only a second after it was freed, in
/// MiB: at most the amount that was counted before. On a busy machine it made the
/// difference between two runs.
const FREED: u64 = LIMIT;

/// Returns the highest resident size during `attack`.
async fn highest(front: &Apifront, attack: impl Future<Output = ()>) -> u64 {
    let mut most = 0;
    tokio::pin!(attack);
    loop {
        tokio::select! {
            () = &mut attack => return most.max(front.process.resident_bytes()),
            () = crate::harness::pace::of_load(Duration::from_millis(20)) => {
                most = most.max(front.process.resident_bytes());
            }
        }
    }
}

async fn read(client: &Client, resource: &str) -> (u16, bool, Duration) {
    let path = format!("{}?resourceVersion=0", Hostile::path(resource));
    let began = Instant::now();
    let debug = [("x-apifront-debug", "cache")];
    let answer = client.send(Method::GET, &path, &debug, "").await;
    (answer.status.as_u16(), answer.is_hit(), began.elapsed())
}

/// Reads every hostile resource, so that apifront lists it, and continues for a
/// while. The honest one must be answered from memory all the time.
async fn attack(client: &Client, during: Duration) {
    for resource in HOSTILE {
        let (code, ..) = read(client, resource).await;
        assert_eq!(code, 200, "{resource}");
    }
    let until = Instant::now() + during;
    while Instant::now() < until {
        let (code, hit, took) = read(client, HONEST).await;
        assert_eq!((code, hit), (200, true));
        assert!(took < HICCUP, "{took:?}");
        crate::harness::pace::of_load(Duration::from_millis(50)).await;
    }
    for resource in HOSTILE {
        let (code, ..) = read(client, resource).await;
        assert_eq!(code, 200, "{resource}");
    }
}

async fn front_of(hostile: &Hostile) -> Apifront {
    let cluster = Cluster::shared();
    let front = Apifront::start_without_free_memory(cluster, |config| {
        config["upstream"] = json!({
            "servers": [hostile.server.url()], "caFile": cluster.ca(),
        });
        config["cache"]["memoryLimit"] = json!(format!("{LIMIT}Mi"));
    })
    .await;
    let path = format!("{}?resourceVersion=0", Hostile::path(HONEST));
    front.warm(&front.admin_client(), &path).await;
    front
}

/// Without a bound, endless events, pages, lines and bodies would fill the memory until
/// the process is killed, with everything that it serves.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn an_api_server_without_end_takes_bounded_memory() {
    skip_under_oracle!("it puts a hostile server behind apifront");
    let hostile = Hostile::start().await;
    let front = front_of(&hostile).await;
    let client = front.admin_client();
    let before = front.process.resident_bytes();
    let most = highest(&front, attack(&client, Duration::from_secs(10))).await;
    let sent = hostile.sent.load(Ordering::Relaxed) as u64;
    println!(
        "| {} hostile resources | limit {LIMIT} MiB | sent {} MiB | resident {} -> {} MiB |",
        HOSTILE.len(),
        sent / MEGABYTE,
        before / MEGABYTE,
        most / MEGABYTE
    );
    assert!(sent > 2 * LIMIT * MEGABYTE, "only {sent} bytes were sent");
    assert!(
        most < before + (LIMIT + UNCOUNTED) * MEGABYTE,
        "from {before} to {most} bytes"
    );
    let reading = front.metric("apifront_cache_reading_bytes", &[]).await;
    assert!(reading <= (LIMIT * MEGABYTE) as f64, "{reading}");
    let log = front.process.log();
    assert!(!log.contains("panicked"), "{}", front.process.log_tail());
    front.stop().await;
}

/// The hostile server is a backend, and its documents are endless too. The cluster's
/// own resources must be cached and written as usual.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn a_backend_without_end_leaves_the_others_served() {
    skip_under_oracle!("it puts a hostile server behind apifront");
    const SERVICE: &str = "without-end";
    let cluster = Cluster::shared();
    let hostile = Hostile::with_documents(true).await;
    let folder = temporary_folder("without-end");
    let manifest = folder.join("service.json");
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": format!("v1.{GROUP}") },
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "insecureSkipTLSVerify": true,
            "service": { "name": SERVICE, "namespace": "extensions" },
        },
    });
    std::fs::write(&manifest, service.to_string()).expect("a manifest");
    let ns = cluster.namespace("beside").await;
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let small = config_map("small", json!({}), json!({}));
    cluster.admin_client().post(&maps, &small).await.expect(201);
    let front = Apifront::start(cluster, |config| {
        config["cache"]["memoryLimit"] = json!(format!("{LIMIT}Mi"));
        config["cache"]["aggregated"] = json!(["*"]);
        config["aggregation"] = json!({
            "apiServices": [manifest],
            "backends": [{
                "name": SERVICE, "namespace": "extensions", "servers": [hostile.server.url()],
            }],
        });
    })
    .await;
    let (client, own) = (front.admin_client(), format!("{maps}?resourceVersion=0"));
    front.warm(&client, &own).await;
    let honest = format!("{}?resourceVersion=0", Hostile::path(HONEST));
    front.warm(&client, &honest).await;
    let (other, small) = (front.admin_client().separate(), format!("{maps}/small"));
    let quiet = patches(&other, &small, 100).await;
    let before = front.process.resident_bytes();
    let mut attacked = None;
    let both = async {
        let patched = patches(&other, &small, 300);
        let during = Duration::from_secs(8);
        let documents = async {
            for path in ["/apis", "/openapi/v2", "/openapi/v3"] {
                assert_eq!(client.get(path).await.status, 200, "{path}");
            }
        };
        let ((), (), times) = tokio::join!(attack(&client, during), documents, patched);
        attacked = Some(times);
    };
    let most = highest(&front, both).await;
    let attacked = attacked.expect("it has ended");
    assert_unharmed("a backend without end", &quiet, &attacked, BOUND);
    println!("resident {} -> {} MiB", before / MEGABYTE, most / MEGABYTE);
    // OpenAPI documents have their own bound of 128 MiB. A growing buffer exists
    // twice for a moment, and v3 is fetched beside v2.
    assert!(
        most < before + (LIMIT + UNCOUNTED + FREED + 3 * 128) * MEGABYTE,
        "from {before} to {most} bytes"
    );
    let debug = [("x-apifront-debug", "cache")];
    let answer = client.send(Method::GET, &own, &debug, "").await;
    assert!(answer.is_hit());
    let log = front.process.log();
    assert!(!log.contains("panicked"), "{}", front.process.log_tail());
    front.stop().await;
}

/// A list without room is refused by name, and counted. Nothing else is refused.
#[tokio::test]
async fn a_list_without_end_is_refused_for_want_of_memory() {
    skip_under_oracle!("it puts a hostile server behind apifront");
    let hostile = Hostile::start().await;
    let front = front_of(&hostile).await;
    let client = front.admin_client();
    for resource in ["endless-events", "list-endless-body", "list-endless-pages"] {
        let path = format!("{}?resourceVersion=0", Hostile::path(resource));
        eventually("there is no room", SOON, || async {
            let debug = [("x-apifront-debug", "cache")];
            let answer = client.send(Method::GET, &path, &debug, "").await;
            answer.header("x-apifront-cache") == "bypass; reason=memory_limit"
        })
        .await;
        let (code, hit, _) = read(&client, HONEST).await;
        assert_eq!((code, hit), (200, true), "{resource}");
    }
    let refused = [("what", "refused")];
    assert!(front.metric("apifront_cache_shed_total", &refused).await >= 3.0);
    let nothing = || async { front.metric("apifront_cache_reading_bytes", &[]).await == 0.0 };
    eventually("nothing is being read", SOON, nothing).await;
    front.stop().await;
}

/// Without `cache.memoryLimit` there is a default limit.
#[tokio::test]
async fn the_memory_limit_is_never_forgotten() {
    skip_under_oracle!("it puts a hostile server behind apifront");
    const METRIC: &str = "apifront_cache_memory_limit_bytes";
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let limit = front.metric(METRIC, &[]).await;
    let machine = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let total = machine.split_whitespace().nth(1).expect("MemTotal");
    let total = total.parse::<f64>().expect("kB") * 1024.0;
    assert!(limit > 0.0 && limit <= total * 0.4, "{limit} of {total}");
    // An explicit value takes precedence.
    for (written, expected) in [("1Gi", f64::from(1 << 30)), ("0", 0.0)] {
        let mut config = front.read_config();
        config["cache"]["memoryLimit"] = json!(written);
        front.write_config(&config);
        eventually("the limit is taken up", SOON, || async {
            front.metric(METRIC, &[]).await == expected
        })
        .await;
    }
    front.stop().await;
}
