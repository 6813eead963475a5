//! Several API servers behind one apifront share the load and replace each other.

mod outcomes;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::apiserver::KubeApiserver;
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::Kubectl;
use crate::harness::objects::config_map;
use crate::harness::ports;
use crate::harness::scripted::Scripted;
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(20);
const STALENESS: Duration = Duration::from_secs(5);
const MAY_HAVE_HAPPENED: &str = "it may or may not have carried out the request";

/// Starts a second API server on the same etcd.
async fn second_server(cluster: &Cluster) -> KubeApiserver {
    let folder = cluster.folder.join("second");
    std::fs::create_dir_all(&folder).expect("folder");
    let kubelet_client = cluster.certificates.client("kubelet-client", &[]);
    let certificates = &cluster.certificates;
    KubeApiserver::start(&folder, &cluster.etcd, certificates, &kubelet_client, &[])
}

async fn wait_ready(cluster: &Cluster, server: &KubeApiserver) {
    let client = Client::tls(server.address(), cluster.ca(), Some(&cluster.admin));
    eventually(
        "a ready kube-apiserver",
        Duration::from_secs(120),
        || async {
            let ready = client.separate();
            let ready = ready.try_send(Method::GET, "/readyz", &[], "").await;
            ready.is_ok_and(|a| a.status == 200)
        },
    )
    .await;
}

/// Returns the number of reads of namespaces that a server has answered. A GET from
/// the cache costs the server a list of the name.
async fn reads(cluster: &Cluster, server: &KubeApiserver) -> f64 {
    let client = Client::tls(server.address(), cluster.ca(), Some(&cluster.admin));
    let text = client.get("/metrics").await.text();
    let of = |verb| {
        let labels = [("verb", verb), ("resource", "namespaces")];
        crate::harness::cluster::sum_metric(&text, "apiserver_request_total", &labels)
    };
    of("GET") + of("LIST")
}

async fn both_are_used(cluster: &Cluster, servers: [&KubeApiserver; 2], client: &Client) {
    let before = [
        reads(cluster, servers[0]).await,
        reads(cluster, servers[1]).await,
    ];
    for _ in 0..10 {
        client.get("/api/v1/namespaces/default").await.expect(200);
    }
    for (server, before) in servers.into_iter().zip(before) {
        let count = reads(cluster, server).await - before;
        assert!(count >= 3.0, "{} got {count} of 10", server.address());
    }
}

async fn healthy(front: &Apifront, server: &KubeApiserver) -> f64 {
    let name = server.address().to_string();
    front
        .metric("apifront_upstream_healthy", &[("server", &name)])
        .await
}

/// Reads until told to stop, and counts the reads. None of them may fail.
async fn read_on(client: &Client, path: &str, stop: &AtomicBool, reads: &AtomicUsize) {
    while !stop.load(Ordering::Relaxed) {
        let answer = client.try_send(Method::GET, path, &[], "").await;
        let answer = answer.unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        reads.fetch_add(1, Ordering::Relaxed);
        crate::harness::pace::of_load(Duration::from_millis(5)).await;
    }
}

/// Waits until every reader has read ten times more.
async fn reads_go_on(readers: &[AtomicUsize]) {
    let counts = || readers.iter().map(|reads| reads.load(Ordering::Relaxed));
    let before: Vec<usize> = counts().collect();
    eventually("reads go on", SOON, || async {
        counts()
            .zip(&before)
            .all(|(now, before)| now >= before + 10)
    })
    .await;
}

async fn get_on(kubectl: &Kubectl, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let printed = kubectl.run(&["get", "namespaces", "-o", "name"]).await.ok();
        assert!(printed.contains("namespace/default\n"), "{printed}");
    }
}

/// Writes until told to stop, and returns the acknowledged writes. Only a write in
/// progress at the death of its server may fail.
async fn write_on(
    client: &Client,
    list: &str,
    stop: &AtomicBool,
    failed: &AtomicUsize,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("w{n}");
        let object = config_map(&name, json!({}), json!({})).to_string();
        let headers = [("content-type", "application/json")];
        let answer = client.try_send(Method::POST, list, &headers, object).await;
        if answer.as_ref().is_ok_and(|answer| answer.status == 201) {
            acknowledged.push(name);
        } else {
            match answer {
                Ok(answer) => assert_unknown_outcome(&answer),
                // The server died after the head of its answer, which is with the
                // client already.
                Err(error) => assert!(error.to_string().contains("reading a body"), "{error}"),
            }
            failed.fetch_add(1, Ordering::Relaxed);
        }
        crate::harness::pace::of_load(Duration::from_millis(10)).await;
    }
    acknowledged
}

/// Fails unless the answer is a 503 without Retry-After: client-go repeats requests
/// whose answer has a Retry-After.
#[track_caller]
fn assert_unknown_outcome(answer: &Answer) {
    let status = answer.expect(503);
    assert_eq!(status["reason"], "ServiceUnavailable", "{status}");
    let message = status["message"].as_str().unwrap_or("");
    assert!(message.ends_with(MAY_HAVE_HAPPENED), "{status}");
    assert_eq!(answer.header("retry-after"), "");
}

#[track_caller]
fn assert_unavailable(answer: &Answer) {
    let status = answer.expect(503);
    assert_eq!(status["kind"], "Status", "{status}");
    assert_eq!(status["reason"], "ServiceUnavailable", "{status}");
    assert_eq!(answer.header("retry-after"), "1", "{status}");
}

async fn take_named(watch: &mut Watch, name: &str) {
    loop {
        let event = watch.next().await.expect("the watch goes on");
        assert_ne!(event.kind, "ERROR", "{}", event.line);
        if event.kind == "ADDED" && event.name() == name {
            return;
        }
    }
}

#[tokio::test]
async fn two_api_servers_die_and_return() {
    skip_under_oracle!("it stops one of two API servers behind apifront");
    let mut cluster = Cluster::leased(&[]).await;
    let mut second = second_server(&cluster).await;
    wait_ready(&cluster, &second).await;
    let servers = json!([
        cluster.server_url(),
        format!("https://{}", second.address())
    ]);
    let front = Apifront::start(&cluster, |config| {
        config["upstream"] = json!({
            "servers": servers,
            "caFile": cluster.ca(),
            "clientCertFile": cluster.front.cert,
            "clientKeyFile": cluster.front.key,
            "healthCheckInterval": "500ms",
        });
        config["cache"] = json!({ "maxStaleness": format!("{}s", STALENESS.as_secs()) });
    })
    .await;
    let client = front.admin_client();
    let ns = cluster.namespace("failover").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let cached = format!("{list}?resourceVersion=0");
    front.warm(&client, &cached).await;
    front
        .warm(&client, "/api/v1/namespaces?resourceVersion=0")
        .await;
    both_are_used(&cluster, [&cluster.apiserver, &second], &client).await;
    let mut watches = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let path = format!("{list}?watch=1&resourceVersion=0");
        watches.push(Watch::open(&client.over(protocol), &path).await);
    }
    let who = Credential::Certificate(&cluster.admin);
    let config = kubeconfig::write(
        &front.folder,
        "admin",
        &front.url(),
        Some(cluster.ca()),
        who,
    );
    let kubectl = Kubectl::new(&config);

    // One server dies while all clients are busy.
    for victim in [0, 1] {
        let (stop, failed) = (AtomicBool::new(false), AtomicUsize::new(0));
        let reads = [const { AtomicUsize::new(0) }; 3];
        let (http1, http2) = (client.over(Protocol::Http1), client.separate());
        let victim_address = [cluster.apiserver.address(), second.address()][victim];
        let round = format!(
            "/api/v1/namespaces/{}/configmaps",
            cluster.namespace("round").await
        );
        let disturb = async {
            reads_go_on(&reads).await;
            match victim {
                0 => cluster.apiserver.kill(),
                _ => second.kill(),
            }
            crate::harness::pace::lasting(Duration::from_millis(700)).await;
            // Writes in progress have ended by now. Refused connections make no
            // other write fail.
            let before = failed.load(Ordering::Relaxed);
            crate::harness::pace::lasting(Duration::from_millis(800)).await;
            reads_go_on(&reads).await;
            assert_eq!(failed.load(Ordering::Relaxed), before, "writes fail still");
            stop.store(true, Ordering::Relaxed);
        };
        let (_, _, _, _, acknowledged, ()) = tokio::join!(
            read_on(&http1, "/api/v1/namespaces/default", &stop, &reads[0]),
            read_on(&http2, "/api/v1/namespaces", &stop, &reads[1]),
            read_on(&http2, &cached, &stop, &reads[2]),
            get_on(&kubectl, &stop),
            write_on(&client, &round, &stop, &failed),
            disturb,
        );
        println!(
            "{} writes, {} of unknown outcome",
            acknowledged.len(),
            failed.load(Ordering::Relaxed)
        );
        let name = victim_address.to_string();
        let labels = [("server", name.as_str())];
        eventually("an unhealthy server", SOON, || async {
            front.metric("apifront_upstream_healthy", &labels).await == 0.0
        })
        .await;
        let left = if victim == 0 {
            &second
        } else {
            &cluster.apiserver
        };
        assert_eq!(healthy(&front, left).await, 1.0);
        let found = client.get(&round).await.expect(200);
        let names: Vec<&str> = found["items"]
            .as_array()
            .expect("items")
            .iter()
            .filter_map(|i| i["metadata"]["name"].as_str())
            .collect();
        for name in &acknowledged {
            assert!(names.contains(&name.as_str()), "{name} was acknowledged");
        }
        // The watches continue, whichever server fed them.
        let name = format!("after-{victim}");
        client
            .post(&list, &config_map(&name, json!({}), json!({})))
            .await
            .expect(201);
        for watch in &mut watches {
            take_named(watch, &name).await;
        }
        match victim {
            0 => cluster.apiserver.start_again(),
            _ => second.start_again(),
        }
        let returned = if victim == 0 {
            &cluster.apiserver
        } else {
            &second
        };
        wait_ready(&cluster, returned).await;
        eventually("a healthy server", SOON, || async {
            healthy(&front, returned).await == 1.0
        })
        .await;
        both_are_used(&cluster, [&cluster.apiserver, &second], &client).await;
    }

    let dead = Instant::now();
    cluster.apiserver.kill();
    second.kill();
    let body = config_map("nobody", json!({}), json!({}));
    eventually("a plain refusal", Duration::from_secs(2), || async {
        client.post(&list, &body).await.header("retry-after") == "1"
    })
    .await;
    assert_unavailable(&client.post(&list, &body).await);
    assert_unavailable(&client.get(&list).await);
    assert_unavailable(&client.get(&format!("{list}/after-0")).await);
    assert_unavailable(&client.get(&format!("{list}?watch=1")).await);
    assert_eq!(client.get("/readyz").await.status, 500);
    assert_eq!(client.get("/livez").await.status, 200);
    while dead.elapsed() + Duration::from_secs(1) < STALENESS {
        client.get(&cached).await.expect(200);
        crate::harness::pace::of_load(Duration::from_millis(200)).await;
    }
    eventually("the cache gives up", STALENESS, || async {
        client.get(&cached).await.status == 503
    })
    .await;
    assert!(dead.elapsed() >= STALENESS, "after {:?}", dead.elapsed());
    assert_unavailable(&client.get(&cached).await);

    cluster.apiserver.start_again();
    second.start_again();
    wait_ready(&cluster, &cluster.apiserver).await;
    wait_ready(&cluster, &second).await;
    let direct = cluster.admin_client();
    direct
        .post(&list, &config_map("again", json!({}), json!({})))
        .await
        .expect(201);
    for watch in &mut watches {
        take_named(watch, "again").await;
    }
    eventually("everything works again", SOON, || async {
        let debug = [("x-apifront-debug", "cache")];
        let answer = client.send(Method::GET, &cached, &debug, "").await;
        answer.is_hit()
            && client.get("/readyz").await.status == 200
            && client.get(&list).await.status == 200
    })
    .await;
    front.stop().await;
}

/// `--goaway-chance`, which clusters with several API servers set, sometimes moves
/// connections to other servers. No request may fail because of that.
#[tokio::test]
async fn goaway_disturbs_nobody() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    let cluster = Cluster::leased(&["--goaway-chance=0.02".to_owned()]).await;
    let front = Apifront::start(&cluster, |config| {
        config["upstream"]["healthCheckInterval"] = json!("500ms");
        config["upstream"]["connectTimeout"] = json!("5s");
        config["cache"] = json!({ "maxStaleness": "2s" });
    })
    .await;
    let client = front.admin_client();
    let list = format!(
        "/api/v1/namespaces/{}/configmaps",
        cluster.namespace("goaway").await
    );
    let work = async |worker: usize| {
        for n in 0..60 {
            let name = format!("c{worker}-{n}");
            let object = config_map(&name, json!({}), json!({ "a": "x".repeat(2000) }));
            client.post(&list, &object).await.expect(201);
            client.get(&format!("{list}/{name}")).await.expect(200);
            client.delete(&format!("{list}/{name}")).await.expect(200);
        }
    };
    futures::future::join_all((0..8).map(work)).await;
    falls_silent(&cluster, &front, &list).await;
    front.stop().await;
}

/// A server that hangs, or that lost its network, closes no connection. The cache
/// must notice that it no longer receives anything.
async fn falls_silent(cluster: &Cluster, front: &Apifront, list: &str) {
    let client = front.admin_client();
    let cached = format!("{list}?resourceVersion=0");
    front.warm(&client, &cached).await;
    let mut watch = Watch::open(&client, &format!("{list}?watch=1&resourceVersion=0")).await;
    cluster.apiserver.signal("STOP");
    eventually(
        "a cache that knows it is stale",
        Duration::from_secs(30),
        || async { client.get(&cached).await.status == 503 },
    )
    .await;
    cluster.apiserver.signal("CONT");
    let object = config_map("after-silence", json!({}), json!({}));
    let direct = cluster.admin_client();
    direct.post(list, &object).await.expect(201);
    take_named(&mut watch, "after-silence").await;
}

/// Starts apifront without a cache before two servers: `first` and the shared
/// cluster's API server.
async fn front_before(first: &str, change: impl FnOnce(&mut Value)) -> Apifront {
    let cluster = Cluster::shared();
    Apifront::start(cluster, |config| {
        config["upstream"] = json!({
            "servers": [first, cluster.server_url()],
            "caFile": cluster.ca(),
            "clientCertFile": cluster.front.cert,
            "clientKeyFile": cluster.front.key,
            "healthCheckInterval": "1s",
            "requestTimeout": "2s",
        });
        config["cache"] = json!({ "include": ["*"], "exclude": ["*"] });
        change(config);
    })
    .await
}

/// A server that accepts a request and never answers costs the time
/// `upstream.requestTimeout`.
#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    let scripted = Scripted::start(|mut connection| async move {
        if let Some(request) = connection.next().await {
            connection.body(&request).await;
            connection.closed_within(Duration::from_secs(60)).await;
        }
    })
    .await;
    let front = front_before(&scripted.url(), |_| {}).await;
    let ns = Cluster::shared().namespace("hangs").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let client = front.admin_client();
    let start = Instant::now();
    let read = async || {
        client.get(&list).await.expect(200);
    };
    let write = async |n: usize| {
        let object = config_map(&format!("c{n}"), json!({}), json!({}));
        let answer = client.post(&list, &object).await;
        if answer.status != 201 {
            assert_unknown_outcome(&answer);
        }
    };
    let reads = futures::future::join_all((0..4).map(|_| read()));
    let writes = futures::future::join_all((0..4).map(write));
    tokio::join!(reads, writes);
    assert!(!scripted.seen().is_empty());
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
    front.stop().await;
}
